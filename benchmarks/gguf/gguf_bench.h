// The comparison of lathe_gguf_bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../shapes.h"
#include "peer.h"

namespace lathe::bench {

struct GgufOptions {
  Strings formats;
  std::vector<Shape> shapes;
  std::vector<int64_t> m;
  int threads = 1;
  double max_flop = 1e18;
  double seconds = 1;
  int rounds = 7;
  size_t rotate_bytes = 0;
  uint64_t seed = 0;
  std::string csv_directory;
  std::vector<GgufPeer*> peers;  // the first quantises the weights and dequantises them for the reference
};

// Prints the table and writes it as CSV. Returns false if a result is wrong or a call fails.
bool bench_gguf(const GgufOptions& options);

}  // namespace lathe::bench
