// The GPU argmax kernel ("rows"), and the reduction that it shares with matmul_argmax.
#pragma once

#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// Replaces the module's argmax payload by a gpu.module of kernels.
mlir::LogicalResult emit_argmax_gpu(mlir::ModuleOp module);

// A value and a column that lose to all others.
Best nothing(Emit& e);
// The best of every group of `group` adjacent threads, in the group's first thread. `group` is a power of two
// that divides the workgroup's threads. All threads of the workgroup must call this.
Best reduce_group(Emit& e, GpuKernel& kernel, const Best& mine, int64_t group);
// A separate merge step: all threads find the best of a row's pairs.
void emit_pairs_merge(Emit& e, GpuKernel& kernel, const GpuStep& step, const TileProgram& p);

}  // namespace lathe::emit
