// Random GGUF weights, activations and the float64 reference.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "huge_memory.h"
#include "peer.h"

namespace lathe::bench {

// Copies of one weight side by side, in one piece of memory. The peer quantises numbers of N(0, 1/k).
class RandomWeight {
 public:
  // As many copies as `pool_bytes` hold, at least `least_copies`.
  RandomWeight(GgufPeer* peer, const std::string& format, int64_t n, int64_t k, size_t pool_bytes,
               uint64_t seed, size_t least_copies = 2);

  const GgufWeight& weight() const { return weight_; }
  size_t bytes() const { return bytes_; }  // of one copy
  void* pool() const { return memory_.get(); }
  size_t pool_bytes() const { return stride_ * weight_.copies.size(); }

 private:
  GgufWeight weight_;
  size_t bytes_, stride_;
  HugeMemory memory_;
};

// Samples of the product with the first copy, in float64, of activations that are not rounded.
class Reference {
 public:
  Reference(GgufPeer* peer, const GgufWeight& weight, int64_t m, const float* a, uint64_t seed);
  // Root of the mean squared error over that of the mean square, for the samples of `d`. NaN: an element is NaN.
  double error(const float* d) const;
  const std::vector<int64_t>& positions() const { return positions_; }  // in D

 private:
  std::vector<int64_t> positions_;
  std::vector<double> values_;
};

}  // namespace lathe::bench
