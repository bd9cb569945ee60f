// A Linear layer's product on the device, whoever computes it: operands, the check against float64, a graph
// to replay.
#pragma once

#include <optional>

#include "cuda/bench.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * W^T, W stored [n, k].
struct LinearProblem {
  std::string name;
  int64_t m = 0, n = 0, k = 0;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  size_t weight_bytes() const { return static_cast<size_t>(n * k) * 2; }
};

lathe_matmul_desc matmul_of(const LinearProblem& p, lathe_dtype dtype, const void* a, const void* w,
                            const void* d);

// What became of one who was to compute a problem: a graph to time, or why there is none.
struct Entry {
  std::optional<GraphEntrant> entrant;
  std::string fault;  // "WRONG": an element was; "REFUSED": a call failed (the reason is on stderr)
};

class LinearBench {
 public:
  // Operands for the largest of `problems`.
  LinearBench(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& weights,
              const std::vector<LinearProblem>& problems);

  // Called once, checked, and captured.
  Entry enter(const std::string& name, const LtCall& call, const LinearProblem& p) const;
  // The median of a few replays, seconds a call.
  double probe(const GraphEntrant& entrant) const;

 private:
  const void* a() const { return activations_.data(); }
  void* d() const { return d_.data(); }
  bool is_right(const std::string& name, const LtCall& call, const LinearProblem& p) const;
  std::vector<uint16_t> read_d(int64_t first, int64_t count) const;
  bool is_written(const std::string& name, const LinearProblem& p) const;

  const Gpu& gpu_;
  const CudaBenchOptions& options_;
  const DevicePool& weights_;
  DevicePool activations_;
  Buffer d_;
};

}  // namespace lathe::bench
