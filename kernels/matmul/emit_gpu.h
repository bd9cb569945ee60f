// matmul on GPUs: one row a kernel family (emit_gpu.cc), and what the families share.
#pragma once

#include <memory>

#include "base/dtype.h"
#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// Emits every step of a distributed matmul payload: the family that the plan names, and merges.
llvm::LogicalResult emit_matmul_gpu(mlir::ModuleOp module);

// A family emits the contraction's step: the tile's sums go to the step's sink, or (matmul alone, p.argmax
// being null) the family's own way to the step's output, with merge_last at the end where the plan merges
// within the launch.
using MatmulFamily = llvm::LogicalResult (*)(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_simt(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_mma(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_wgmma(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_skinny(Emit& e, GpuKernel& kernel, const GpuStep& step);

// Where a tile's sums (f32; of i8 products i32) go once all of K is in them: through the epilogue to D, as
// they are to the workspace (a split), or into a comparison along the row (matmul_argmax). Made by all
// threads of the workgroup before the family's loops, fed by any of them in any control flow, ended by all.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // The calling thread's sums of row `i` of the tile, in `columns`: ascending, index or i32 like `i`. Rows
  // and columns beyond the tile's edge are left out here. `lanes`: bits of the lane's number in which lanes
  // differ that hold other columns of the same row; where it is not 0, every lane of the wave must come here
  // together.
  virtual void row(Value i, llvm::ArrayRef<Value> columns, llvm::ArrayRef<Value> sums, int32_t lanes = 0) = 0;
  // After the last row; merges where the plan merges within the launch.
  virtual mlir::LogicalResult done() = 0;
};
// The sink of the step's tile `p` at `position`; both must outlive it.
std::unique_ptr<OutputSink> make_sink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p,
                                      const GridPosition& position);

// Of an operand's element.
DType dtype_of(mlir::Type element);

// Element (i, j) of a view, as an offset into its memory.
Value inside(Emit& e, const View& v, Value i, Value j);
// The epilogue of one product (f32, i32) at (i, j) of the tile; the product itself where there is no
// epilogue. With `lanes` of so many products from column j on, of operands all of whose rows are aligned to
// 16 bytes, j being a multiple.
Value finish(Emit& e, TileProgram& p, Value product, Value i, Value j, int64_t lanes = 0);
// Sums the partial results of the merge program's tile in ascending order of the split, with the epilogue.
// The work of all of the kernel's workers.
void emit_merge(Emit& e, const GpuKernel& kernel, const Arguments& arguments, TileProgram& p);
// kMergeLast: to be called by all workers after each has stored its part of the tile at `position`. The
// workgroup whose ticket is the last merges the tile. `tiles` along x and y number the counters.
llvm::LogicalResult merge_last(Emit& e, GpuKernel& kernel, const GpuStep& step, const GridPosition& position);

}  // namespace lathe::emit
