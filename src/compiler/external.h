// Products that an external library does, in the IR: lathe-outline-external makes a function of the op that
// carries #lathe.external, lathe-declare-external leaves a declaration of it, marked extern, and the call; of
// those calls the launch recipe's host_extern steps are made. None decides anything.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace mlir {
class ModuleOp;
class Pass;
}  // namespace mlir

namespace lathe {

std::unique_ptr<mlir::Pass> make_outline_external_pass();  // lathe-outline-external
std::unique_ptr<mlir::Pass> make_declare_external_pass();  // lathe-declare-external

// The steps that the module's calls of extern functions are, in order; `problem` is what they compute.
// kAborted where the module holds anything else: there would be nobody to run it.
absl::StatusOr<Recipe> external_recipe(mlir::ModuleOp module, const ProblemClass& problem,
                                       const Target& target);

}  // namespace lathe
