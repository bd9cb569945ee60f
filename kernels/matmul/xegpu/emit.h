// matmul with Intel's matrix engines, through MLIR's XeGPU dialect.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// The family (emit_gpu.h) that plans call "xegpu".
llvm::LogicalResult emit_xegpu(Emit& e, GpuKernel& kernel, const GpuStep& step);

}  // namespace lathe::emit
