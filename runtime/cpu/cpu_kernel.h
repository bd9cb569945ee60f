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

namespace lathe {

// A step's number of tasks as a function of the sizes. evaluate() without its vectors of vectors: a launch
// reads one array, and terms without variables are folded when the kernel is loaded.
class TaskCount {
 public:
  TaskCount() = default;
  explicit TaskCount(const std::array<Formula, 3>& grid);

  // The product of the three axes' values; saturates at INT64_MAX. A value below one on any axis gives 0.
  int64_t operator()(const VarValues& v) const;

 private:
  struct FlatTerm {
    int64_t coefficient;
    uint32_t first_factor, factor_count;
  };
  struct Axis {
    int64_t constant = 0;
    uint32_t first_term = 0, term_count = 0;
  };
  int64_t axis_value(const Axis& axis, const VarValues& v) const;

  std::array<Axis, 3> axes_;
  std::vector<FlatTerm> terms_;
  std::vector<Factor> factors_;
};

class CpuKernel final : public LoadedKernel {
 public:
  static constexpr size_t kMaxSteps = 8;  // so that a launch counts its tasks on its own stack

  struct CompiledStep {
    CpuTask task = nullptr;
    TaskCount count;
  };

  // Refuses (kInvalidArgument, naming the cause) what the CPU cannot run, then links the code.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact, ObjectLoader& loader,
                                                            const Driver* owner);

  const std::vector<CompiledStep>& steps() const { return steps_; }
  const Driver* owner() const { return owner_; }

 private:
  CpuKernel(const Recipe& recipe, const std::vector<void*>& tasks, const Driver* owner);

  std::vector<CompiledStep> steps_;
  const Driver* owner_;
};

}  // namespace lathe
