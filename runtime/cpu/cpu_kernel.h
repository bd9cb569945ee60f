// A linked kernel with its recipe in the form that a launch reads: addresses for symbols, flat arrays for
// formulas.
#pragma once

#include <array>
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

// A step's number of tasks as a function of the sizes.
class TaskCount {
 public:
  TaskCount() : TaskCount(std::array<Formula, 3>{}) {}
  explicit TaskCount(const std::array<Formula, 3>& grid) : axes_({grid[0], grid[1], grid[2]}) {}

  // The product of the three axes' values; saturates at INT64_MAX. A value below one on any axis gives 0.
  int64_t operator()(const VarValues& v) const;

 private:
  FlatFormulas axes_;
};

class CpuKernel final : public LoadedKernel {
 public:
  static constexpr size_t kMaxSteps = 8;  // so that a launch counts its tasks on its own stack

  struct CompiledStep {
    CpuTask task = nullptr;  // null: `external` does the step, which counts as one task
    TaskCount count;
    std::unique_ptr<ExternalCall> external;
  };

  // Refuses (kInvalidArgument, naming the cause) what the CPU cannot run, then links the code and finds the
  // routines of external libraries (kUnavailable).
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact, ObjectLoader& loader,
                                                            ExternalLibraries& externals,
                                                            const Driver* owner);

  const std::vector<CompiledStep>& steps() const { return steps_; }
  const Driver* owner() const { return owner_; }

 private:
  CpuKernel(const Recipe& recipe, const Driver* owner) : LoadedKernel(recipe), owner_(owner) {}

  std::vector<CompiledStep> steps_;
  const Driver* owner_;
};

}  // namespace lathe
