// The GPU argmax kernel ("rows"), the same for CUDA and ROCm.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's argmax payload by a gpu.module of kernels.
mlir::LogicalResult emit_argmax_simt(mlir::ModuleOp module);

}  // namespace lathe::emit
