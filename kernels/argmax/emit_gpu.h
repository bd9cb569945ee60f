// The GPU argmax kernel ("rows"), the same for CUDA and ROCm, and the reduction it shares with matmul_argmax.
#pragma once

#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// Replaces the module's argmax payload by a gpu.module of kernels.
mlir::LogicalResult emit_argmax_gpu(mlir::ModuleOp module);

// The value and column with which nothing is compared: all else is better.
Best nothing(Emit& e);
// The best of every group of `group` neighbouring threads, in the group's first thread. `group` divides the
// workgroup's threads and is a power of two; every thread of the workgroup must come here.
Best reduce_group(Emit& e, GpuKernel& kernel, const Best& mine, int64_t group);
// A merge step of its own: the best of a row's pairs, by all threads.
void emit_pairs_merge(Emit& e, GpuKernel& kernel, const GpuStep& step, const TileProgram& p);

}  // namespace lathe::emit
