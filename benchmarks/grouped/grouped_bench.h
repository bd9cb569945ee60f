// The comparison of lathe_grouped_bench.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../gguf/peer.h"
#include "../peers.h"
#include "expert_shapes.h"

namespace lathe::bench {

struct GroupedOptions {
  Strings formats;
  std::vector<ExpertsShape> shapes;
  std::vector<int64_t> m;  // tokens
  int threads = 1;
  double max_flop = 1e18;
  double seconds = 1;
  int rounds = 7;
  uint64_t seed = 0;
  std::string csv_directory, cache_directory;
  GgufPeer* ggml = nullptr;  // also quantises the weights and dequantises them for the reference
  std::vector<std::unique_ptr<Peer>> loops;  // libraries whose matmul is called for each expert
};

// Prints the table and writes it as CSV. Returns false if a result of Lathe is wrong or a call fails.
bool bench_grouped(const GroupedOptions& options);

}  // namespace lathe::bench
