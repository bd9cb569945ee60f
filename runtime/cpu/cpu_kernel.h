// A linked kernel with its recipe in the form that a launch reads: addresses instead of symbols, flat
// formulas.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/recipe.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/driver.h"
#include "runtime/external/library.h"
#include "runtime/flat_formula.h"

namespace lathe {

// The number of tasks of a step as a function of the sizes.
class TaskCount {
 public:
  TaskCount() : TaskCount(std::array<Formula, 3>{}) {}
  explicit TaskCount(const std::array<Formula, 3>& grid) : axes_({grid[0], grid[1], grid[2]}) {}

  // The product of the values of the three axes; saturates at INT64_MAX. A value below 1 on any axis gives 0.
  int64_t operator()(const VarValues& v) const;

 private:
  FlatFormulas axes_;
};

class CpuKernel final : public LoadedKernel {
 public:
  static constexpr size_t kMaxSteps = 8;  // so that a launch keeps its task counts on its stack

  struct CompiledStep {
    CpuTask task = nullptr;  // null: `external` does the step, which counts as one task
    TaskCount count;
    std::unique_ptr<ExternalCall> external;
  };

  // Rejects what the CPU cannot run (kInvalidArgument with the cause), then links the code and finds the
  // routines of external libraries (kUnavailable if one is missing).
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact, ObjectLoader& loader,
                                                            ExternalLibraries& externals,
                                                            const Driver* owner);

  const std::vector<CompiledStep>& steps() const { return steps_; }
  // steps()[step].count(v). The result for the last sizes is cached, because engines repeat sizes and
  // evaluating the formulas takes divisions.
  int64_t count(size_t step, const VarValues& v) const {
    const uint64_t sizes = packed_sizes(v), last = last_counts_[step].load(std::memory_order_relaxed);
    if (sizes != 0 && last >> kCountBits == sizes)
      return static_cast<int64_t>(last & ((uint64_t{1} << kCountBits) - 1));
    return evaluate_count(step, v, sizes);
  }
  const Driver* owner() const { return owner_; }

 private:
  CpuKernel(const Recipe& recipe, const Driver* owner);

  // M, the batch and the splits in 36 bits, above a task count of 28 bits: one atomic word. 0 if they do not
  // fit, or if a count depends on N or K and these differ from the first launch's (a generic kernel).
  static constexpr unsigned kCountBits = 28, kMBits = 16, kBatchBits = 12, kSplitBits = 8;
  uint64_t packed_sizes(const VarValues& v) const {
    const auto at = [&](Var var) { return static_cast<uint64_t>(v[static_cast<size_t>(var)]); };
    const uint64_t m = at(Var::kM), batch = at(Var::kBatch), splits = at(Var::kSplits);
    if ((m >> kMBits | batch >> kBatchBits | splits >> kSplitBits) != 0) return 0;
    if (!counts_by_m_ && ((at(Var::kN) | at(Var::kK)) >> 32 != 0 ||
                          packed_n_k(v) != first_n_k_.load(std::memory_order_relaxed)))
      return 0;
    return (m << kBatchBits | batch) << kSplitBits | splits;
  }
  // N and K in one word; each must fit in 32 bits.
  static uint64_t packed_n_k(const VarValues& v) {
    return static_cast<uint64_t>(v[static_cast<size_t>(Var::kN)]) << 32 |
           static_cast<uint64_t>(v[static_cast<size_t>(Var::kK)]);
  }
  int64_t evaluate_count(size_t step, const VarValues& v, uint64_t sizes) const;

  std::vector<CompiledStep> steps_;
  bool counts_by_m_ = true;                     // no step's count depends on N or K
  mutable std::atomic<uint64_t> first_n_k_{0};  // packed_n_k of the first launch; 0: no launch yet
  mutable std::array<std::atomic<uint64_t>, kMaxSteps> last_counts_{};
  const Driver* owner_;
};

}  // namespace lathe
