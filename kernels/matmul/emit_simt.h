// The SIMT matmul kernel ("simt"): f32 FMAs on tiles staged in shared memory, the same for CUDA and ROCm.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Replaces the module's distributed matmul payload by a gpu.module of kernels.
mlir::LogicalResult emit_matmul_simt(mlir::ModuleOp module);

}  // namespace lathe::emit
