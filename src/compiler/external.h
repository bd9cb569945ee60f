// Matmuls computed by an external library. lathe-outline-external moves the op with #lathe.external into a
// function; lathe-declare-external removes that function's body. The remaining calls become the host_extern
// steps of the launch recipe. The oracle has already chosen the library; nothing is decided here.
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

// The recipe with one step per call of an extern function, in order. `problem` is what the call computes.
// kAborted if the module contains anything else, because nothing could run it.
absl::StatusOr<Recipe> external_recipe(mlir::ModuleOp module, const ProblemClass& problem,
                                       const Target& target);

}  // namespace lathe
