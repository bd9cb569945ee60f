// Grouped products as an engine without such an op computes them: a library's matmul for each expert.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../gguf/peer.h"
#include "../peers.h"

namespace lathe::bench {

// For each expert: gathers its rows of A, for bf16 weights rounded to bf16; multiplies; scatters the rows of D. Rows are
// copied by one thread. A single row is neither gathered, except to round it, nor scattered.
class ExpertLoop {
 public:
  // Null if the peer does not support a product.
  static std::unique_ptr<ExpertLoop> make(Peer* peer, const ExpertsWeight& weight, const ExpertsCalls& calls);
  void run(size_t routing);

 private:
  using Product = std::function<void(const void* a, const void* b, void* d)>;
  ExpertLoop(const ExpertsWeight& weight, const ExpertsCalls& calls) : weight_(weight), calls_(calls) {}
  void sort_slots(size_t routing);
  const float* a_row(int64_t slot) const;
  const void* gather(const int32_t* slots, int64_t count);

  const ExpertsWeight weight_;
  const ExpertsCalls calls_;
  bool is_bf16_ = false;
  std::map<int64_t, Product> products_;  // by number of rows
  std::vector<int32_t> first_,
      slots_;  // the slots of expert e: slots_[first_[e]] to slots_[first_[e + 1] - 1]
  std::vector<float> a_, d_;
};

}  // namespace lathe::bench
