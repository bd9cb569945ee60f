// Compiles the kernels of problems to come on threads of its own, so that the GPU does not wait for them.
#pragma once

#include <atomic>
#include <thread>

#include "cuda/linear.h"

namespace lathe::bench {

class CompileAhead {
 public:
  // The problems from `first` on, in order, `candidates` of each (candidates_of). The threads plan, which
  // compiles, loads and caches; they launch nothing. A failure here is not reported;
  // it occurs again when the problem is measured.
  CompileAhead(const Device& device, const std::vector<LinearProblem>& problems, size_t first,
               int candidates);
  // Waits for the compilations that have begun.
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
