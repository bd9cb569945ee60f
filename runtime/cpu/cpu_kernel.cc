#include "runtime/cpu/cpu_kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

absl::Status refusal(absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("cpu: cannot load kernel: ", cause));
}

absl::Status check_step(const Step& step) {
  if (step.kind != StepKind::kCpuTask && step.kind != StepKind::kHostExtern) {
    return refusal(absl::StrCat("step ", step.symbol, " has kind ", static_cast<int32_t>(step.kind),
                                ", but the CPU runs only cpu_task (1) and host_extern (3)"));
  }
  if (step.symbol.empty()) return refusal("a step has no symbol");
  if (step.argument_bytes != static_cast<int32_t>(sizeof(ArgumentBlock))) {
    return refusal(absl::StrCat("step ", step.symbol, " takes an argument block of ", step.argument_bytes,
                                " bytes, but this library passes ", sizeof(ArgumentBlock)));
  }
  if (!step.attributes.empty()) {
    return refusal(absl::StrCat("step ", step.symbol, " asks for launch attribute ", step.attributes[0],
                                ", but the CPU has none"));
  }
  const std::array<int32_t, 3> one = {1, 1, 1};
  if (step.block != one || step.cluster != one || !step.dynamic_shared_memory.empty() ||
      !step.tensor_maps.empty()) {
    return refusal(absl::StrCat("step ", step.symbol,
                                " asks for a GPU workgroup, cluster, shared memory or tensor map"));
  }
  const bool once = std::all_of(step.grid.begin(), step.grid.end(), [](const Formula& f) {
    return f.size() == 1 && f[0].coefficient == 1 && f[0].factors.empty();
  });
  if (step.kind == StepKind::kHostExtern && !once)
    return refusal(
        absl::StrCat("step ", step.symbol, " calls an external library, so its grid must be 1, 1, 1"));
  for (const Formula& formula : step.grid) {
    const absl::Status status = check_formula(formula, absl::StrCat("the grid of step ", step.symbol));
    if (!status.ok()) return refusal(status.message());
  }
  return absl::OkStatus();
}

absl::Status check_artifact(const Artifact& artifact) {
  const Recipe& recipe = artifact.recipe;
  const bool tasks = std::any_of(recipe.steps.begin(), recipe.steps.end(),
                                 [](const Step& step) { return step.kind != StepKind::kHostExtern; });
  const CodeFormat wanted = tasks || recipe.steps.empty() ? CodeFormat::kElfObject : CodeFormat::kNone;
  if (artifact.format != wanted) {
    return refusal(absl::StrCat("code format ", static_cast<int32_t>(artifact.format), " is not ",
                                tasks ? "an ELF object" : "none", " (", static_cast<int32_t>(wanted), ")"));
  }
  if (recipe.version != Recipe::kVersion) {
    return refusal(absl::StrCat("recipe version ", recipe.version, ", but this library reads version ",
                                Recipe::kVersion));
  }
  if (recipe.steps.empty()) return refusal("the recipe has no steps");
  if (recipe.steps.size() > CpuKernel::kMaxSteps) {
    return refusal(
        absl::StrCat("the recipe has ", recipe.steps.size(), " steps, at most ", CpuKernel::kMaxSteps));
  }
  if (recipe.pointer_alignment < 1 || (recipe.pointer_alignment & (recipe.pointer_alignment - 1)) != 0) {
    return refusal(absl::StrCat("pointer alignment ", recipe.pointer_alignment, " is not a power of two"));
  }
  for (const Step& step : recipe.steps) LATHE_RETURN_IF_ERROR(check_step(step));
  return absl::OkStatus();
}

}  // namespace

int64_t TaskCount::operator()(const VarValues& v) const {
  int64_t count = 1;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const int64_t value = axes_.value(axis, v);
    if (value <= 0) return 0;
    count = saturating_product(count, value);
  }
  return count;
}

CpuKernel::CpuKernel(const Recipe& recipe, const Driver* owner) : LoadedKernel(recipe), owner_(owner) {
  for (const Step& step : recipe.steps)
    for (const Formula& axis : step.grid)
      for (const Term& term : axis)
        for (const Factor& factor : term.factors)
          if (factor.var == Var::kN || factor.var == Var::kK) counts_by_m_ = false;
}

int64_t CpuKernel::evaluate_count(size_t step, const VarValues& v, uint64_t sizes) const {
  const int64_t count = steps_[step].count(v);
  uint64_t none = 0;
  if (first_n_k_.load(std::memory_order_relaxed) == 0)
    first_n_k_.compare_exchange_strong(none, packed_n_k(v), std::memory_order_relaxed);
  if (sizes != 0 && count >> kCountBits == 0)
    last_counts_[step].store(sizes << kCountBits | static_cast<uint64_t>(count), std::memory_order_relaxed);
  return count;
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> CpuKernel::load(const Artifact& artifact, ObjectLoader& loader,
                                                              ExternalLibraries& externals,
                                                              const Driver* owner) {
  LATHE_RETURN_IF_ERROR(check_artifact(artifact));
  std::vector<std::string> symbols;
  for (const Step& step : artifact.recipe.steps)
    if (step.kind == StepKind::kCpuTask) symbols.push_back(step.symbol);
  std::vector<void*> tasks;
  if (!symbols.empty()) {
    LATHE_ASSIGN_OR_RETURN(tasks, loader.link(artifact.code, symbols));
  }
  std::unique_ptr<CpuKernel> kernel(new CpuKernel(artifact.recipe, owner));
  size_t linked = 0;
  for (const Step& step : artifact.recipe.steps) {
    CompiledStep compiled;
    compiled.count = TaskCount(step.grid);
    if (step.kind == StepKind::kHostExtern) {
      LATHE_ASSIGN_OR_RETURN(compiled.external, externals.bind(step));
    } else {
      compiled.task = reinterpret_cast<CpuTask>(tasks[linked++]);
    }
    kernel->steps_.push_back(std::move(compiled));
  }
  return std::unique_ptr<LoadedKernel>(std::move(kernel));
}

}  // namespace lathe
