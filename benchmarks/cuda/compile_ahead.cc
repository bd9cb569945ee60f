#include "cuda/compile_ahead.h"

#include <algorithm>

#include "cuda/candidates.h"

namespace lathe::bench {

CompileAhead::CompileAhead(const Device& device, const std::vector<LinearProblem>& problems, size_t first,
                           int candidates)
    : device_(device),
      problems_(problems),
      candidates_(static_cast<size_t>(candidates)),
      next_(first * candidates_) {
  constexpr unsigned kMostThreads = 8;
  const unsigned cores = std::max(2u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < std::min(kMostThreads, cores - 1); ++i) threads_.emplace_back([this] { work(); });
}

CompileAhead::~CompileAhead() {
  next_ = problems_.size() * candidates_;
  for (std::thread& thread : threads_) thread.join();
}

void CompileAhead::work() {
  for (size_t i = next_++; i < problems_.size() * candidates_; i = next_++) {
    const LinearProblem& p = problems_[i / candidates_];
    const size_t which = i % candidates_;
    try {
      if (which == 0) {
        device_.plan(matmul_of(p, nullptr, nullptr, nullptr));
        continue;
      }
      const std::vector<Candidate> all = candidates_of(
          device_.explain(matmul_of(p, nullptr, nullptr, nullptr)), static_cast<int>(candidates_));
      // The last index also plans the candidates that candidates_of() adds beyond the requested number.
      const size_t end = which + 1 == candidates_ ? all.size() : std::min(which + 1, all.size());
      for (size_t c = which; c < end; ++c) {
        const lathe_tuning tuning = forced(all[c].rank);
        device_.plan(matmul_of(p, nullptr, nullptr, nullptr, &tuning));
      }
    } catch (const std::exception&) {
    }
  }
}

}  // namespace lathe::bench
