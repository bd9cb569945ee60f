// Products by Intel's matrix engines, through MLIR's XeGPU dialect.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// A family of emit_gpu.h: what the plan calls "xegpu".
llvm::LogicalResult emit_xegpu(Emit& e, GpuKernel& kernel, const GpuStep& step);

}  // namespace lathe::emit
