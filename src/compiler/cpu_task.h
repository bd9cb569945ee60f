// Turns every scf.forall of a payload into a function task(args, task), the form of all CPU kernels.
#pragma once

#include <functional>

#include "compiler/emit.h"

namespace lathe::emit {

inline constexpr char kScratchAttr[] = "lathe.scratch_bytes";

// Emits the body of one step. Returns the bytes of scratch memory that a worker needs for it.
using StepEmitter = std::function<llvm::FailureOr<int64_t>(Emit&, const Arguments&, TileProgram&)>;

// Replaces the payload functions of the module by task functions, one per scf.forall. The forall's lathe.step
// attribute gives the name. Sets kScratchAttr of the module to the largest scratch size.
mlir::LogicalResult emit_cpu_tasks(mlir::ModuleOp module, const StepEmitter& emitter);

}  // namespace lathe::emit
