// matmul on GPUs: one row a kernel family (emit_gpu.cc), and what the families share.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// Emits every step of a distributed matmul payload: the family that the plan names, and merges.
llvm::LogicalResult emit_matmul_gpu(mlir::ModuleOp module);

// A family emits the contraction's step. With a split it stores the tile's sums to the step's output (the workspace)
// and, where the plan merges within the launch, ends with merge_last.
using MatmulFamily = llvm::LogicalResult (*)(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_simt(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_wgmma(Emit& e, GpuKernel& kernel, const GpuStep& step);

// Element (i, j) of a view, as an offset into its memory.
Value inside(Emit& e, const View& v, Value i, Value j);
// The epilogue of one product (f32) at (i, j) of the tile; the product itself where there is no epilogue.
Value finish(Emit& e, TileProgram& p, Value product, Value i, Value j);
// Sums the partial results of the merge program's tile in ascending order of the split, with the epilogue. The work
// of all of the kernel's workers.
void emit_merge(Emit& e, const GpuKernel& kernel, const Arguments& arguments, TileProgram& p);
// kMergeLast: to be called by all workers after each has stored its part of the tile at `position`. The workgroup
// whose ticket is the last merges the tile. `tiles` along x and y number the counters.
llvm::LogicalResult merge_last(Emit& e, GpuKernel& kernel, const GpuStep& step, const GridPosition& position);

}  // namespace lathe::emit
