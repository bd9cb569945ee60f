// The product of a Linear layer on the device, for Lathe and its peer: operands, the check against float64,
// and a graph to replay.
#pragma once

#include <optional>

#include "cuda/bench.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * W^T, W stored [n, k].
struct LinearProblem {
  std::string name;
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_BF16;                                        // of A and W; D has result_of(dtype)
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;  // for Lathe's call

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  size_t weight_bytes() const { return static_cast<size_t>(n * k) * size_of(dtype); }
  // Bytes to read A and W once and to write D once.
  double bytes() const {
    return static_cast<double>(m * k + n * k) * static_cast<double>(size_of(dtype)) +
           static_cast<double>(m * n) * static_cast<double>(size_of(result_of(dtype)));
  }
};

// `tuning` must live as long as the descriptor.
lathe_matmul_desc matmul_of(const LinearProblem& p, const void* a, const void* w, const void* d,
                            const lathe_tuning* tuning = nullptr);
// A tuning option that selects the candidate of that rank.
lathe_tuning forced(int rank);

// An entrant for one problem: a graph to time, or why there is none.
struct Entry {
  std::optional<GraphEntrant> entrant;
  std::string fault;  // "WRONG": an element is wrong; "REFUSED": a call failed; the reason is on stderr
};

class LinearBench {
 public:
  // Allocates operands for the largest of `problems`.
  LinearBench(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& weights,
              const std::vector<LinearProblem>& problems);

  // Calls it once, checks the result and captures a graph.
  Entry enter(const std::string& name, const LtCall& call, const LinearProblem& p) const;
  // Seconds per call, the median of a few replays.
  double probe(const GraphEntrant& entrant) const;

 private:
  const void* a() const { return activations_.data(); }
  void* d() const { return d_.data(); }
  // An element of D in float64.
  struct Sample {
    int64_t i, j;
    double sum, bound;  // the expected value and the largest error that is allowed
  };

  // The samples that every entrant of the problem is checked against. Computed for the first one.
  const std::vector<Sample>& samples_of(const LinearProblem& p) const;
  bool is_right(const std::string& name, const LtCall& call, const LinearProblem& p) const;
  std::vector<uint8_t> read_d(int64_t first, int64_t count) const;
  bool is_written(const std::string& name, const LinearProblem& p) const;

  const Gpu& gpu_;
  const CudaBenchOptions& options_;
  const DevicePool& weights_;
  DevicePool activations_;
  Buffer d_;
  mutable std::vector<Sample> samples_;
  mutable LinearProblem sampled_;  // the problem of samples_
};

}  // namespace lathe::bench
