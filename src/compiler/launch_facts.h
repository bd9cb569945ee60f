// What emitters decided about the launch of their kernels (gpu_kernel.h's LaunchFacts), on its way through
// the pipeline as a module attribute: into the recipe, and onto LLVM's functions.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

inline constexpr char kLaunchAttr[] = "lathe.launch";

// Writes the facts of the kernel `symbol` onto the module.
void set_launch_facts(mlir::ModuleOp module, llvm::StringRef symbol, const LaunchFacts& facts);
// Defaults for a symbol that the module says nothing of.
LaunchFacts launch_facts(mlir::ModuleOp module, llvm::StringRef symbol);
// The least version of PTX for all of the module's kernels (LaunchFacts::ptx).
int64_t least_ptx(mlir::ModuleOp module);
// Completes each step of the recipe by its kernel's facts.
void complete_recipe(mlir::ModuleOp module, Recipe* recipe);

}  // namespace lathe::emit
