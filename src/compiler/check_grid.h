// Whether a payload that a schedule cut into tiles has as many as the launch recipe runs.
#pragma once

#include "absl/status/status.h"
#include "compiler/mlir.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// The recipe's grids are of the plan's tiles: with others some would never be computed. Ok where no loop of
// `module` carries a step's name.
absl::Status check_grid(mlir::ModuleOp module, const ProblemClass& problem, const Recipe& recipe);

}  // namespace lathe
