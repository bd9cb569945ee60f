// The elementwise kernel of GPUs, the same for CUDA and ROCm.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// Replaces the module's elementwise payload by a gpu.module with its kernel.
mlir::LogicalResult emit_elementwise_gpu(mlir::ModuleOp module);

}  // namespace lathe::emit
