// Carries LaunchFacts (gpu_kernel.h) through the pipeline as a module attribute, from the emitters to the launch
// recipe and to the LLVM functions.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

inline constexpr char kLaunchAttr[] = "lathe.launch";

// Stores the facts of the kernel `symbol` in the module.
void set_launch_facts(mlir::ModuleOp module, llvm::StringRef symbol, const LaunchFacts& facts);
// The facts of the kernel `symbol`; defaults if none are stored.
LaunchFacts launch_facts(mlir::ModuleOp module, llvm::StringRef symbol);
// The lowest PTX version that supports all kernels of the module (LaunchFacts::ptx).
int64_t least_ptx(mlir::ModuleOp module);
// Adds the facts of each kernel to its step in the recipe.
void complete_recipe(mlir::ModuleOp module, Recipe* recipe);

}  // namespace lathe::emit
