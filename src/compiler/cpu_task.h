// The frame of CPU kernels: every scf.forall of a payload becomes a function task(args, task).
#pragma once

#include <functional>

#include "compiler/emit.h"

namespace lathe::emit {

inline constexpr char kScratchAttr[] = "lathe.scratch_bytes";

// Emits one step's body; returns the bytes of scratch its worker needs.
using StepEmitter = std::function<llvm::FailureOr<int64_t>(Emit&, const Arguments&, TileProgram&)>;

// Replaces the module's payload functions by task functions, one per forall, named by its lathe.step
// attribute, and sets kScratchAttr on the module to the largest scratch.
mlir::LogicalResult emit_cpu_tasks(mlir::ModuleOp module, const StepEmitter& emitter);

}  // namespace lathe::emit
