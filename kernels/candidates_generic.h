// Generic kernels' plans: one a class, not ranked. They are there while a class's own kernel is compiled, so
// one tile serves all sizes. No MLIR here.
#pragma once

#include <vector>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

// `c` is of generic_class_of().
CompileConfig plan_generic(const ProblemClass& c, const Target& target);

// The targets that generic kernels are built for: those of this machine's architecture, PTX that every
// supported GPU's driver finishes, and AMD's generic targets with the GPUs that are members of none.
const std::vector<Target>& generic_targets();
// Those of them whose code runs on `device`, the best first.
std::vector<Target> generic_targets_for(const Target& device);

}  // namespace lathe
