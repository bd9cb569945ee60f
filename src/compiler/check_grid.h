// Checks that a payload tiled by a user's schedule has as many tiles as the launch recipe runs.
#pragma once

#include "absl/status/status.h"
#include "compiler/mlir.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// The recipe's grid is computed from the plan's tile sizes. A schedule with other tile sizes would leave parts
// of D uncomputed. Checks only loops that carry the name of a step (lathe.step).
absl::Status check_grid(mlir::ModuleOp module, const ProblemClass& problem, const Recipe& recipe);

}  // namespace lathe
