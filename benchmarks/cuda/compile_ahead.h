// Compiles the kernels of later problems on separate threads, so that the GPU does not wait for them.
#pragma once

#include <atomic>
#include <thread>

#include "cuda/linear.h"

namespace lathe::bench {

class CompileAhead {
 public:
  // Plans the problems from `first` on, in order, with `candidates` candidates each (candidates_of()).
  // Planning compiles, loads and caches a kernel but does not launch it. Failures are not reported: they
  // occur again when the problem is measured.
  CompileAhead(const Device& device, const std::vector<LinearProblem>& problems, size_t first,
               int candidates);
  // Waits for the compilations that have started.
  ~CompileAhead();
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;

 private:
  void work();

  const Device& device_;
  const std::vector<LinearProblem>& problems_;
  const size_t candidates_;
  std::atomic<size_t> next_;  // problem * candidates_ + candidate
  std::vector<std::thread> threads_;
};

}  // namespace lathe::bench
