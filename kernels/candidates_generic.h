// The plans of generic kernels: one per class, not ranked. A generic kernel runs while the class's own kernel
// is compiled, so one tile serves all sizes. No MLIR here.
#pragma once

#include <vector>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

// `c` must be a result of generic_class_of().
CompileConfig plan_generic(const ProblemClass& c, const Target& target);

// The targets for which generic kernels are built: this machine's CPU architecture, PTX that the driver of
// every supported GPU can compile, and AMD's generic targets together with the GPUs that belong to none.
const std::vector<Target>& generic_targets();
// The generic targets whose code runs on `device`, the best first.
std::vector<Target> generic_targets_for(const Target& device);

}  // namespace lathe
