// matmul on GPUs: the table of kernel families (emit_gpu.cc) and what the families share.
#pragma once

#include <memory>

#include "base/dtype.h"
#include "compiler/gpu_kernel.h"

namespace lathe::emit {

// Emits every step of a distributed matmul payload with the family that the plan names, and the merge steps.
llvm::LogicalResult emit_matmul_gpu(mlir::ModuleOp module);

// Emits the contraction's step. The tile's accumulators go to the step's sink. For matmul alone (p.argmax is
// null) a family may instead store them to the step's output itself, and then call merge_last if the plan
// merges within the launch.
using MatmulFamily = llvm::LogicalResult (*)(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_simt(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_mma(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_wgmma(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_tcgen05(Emit& e, GpuKernel& kernel, const GpuStep& step);
llvm::LogicalResult emit_skinny(Emit& e, GpuKernel& kernel, const GpuStep& step);

// Where a tile's accumulators (f32; i32 for i8 products) go after all of K: through the epilogue to D,
// unchanged to the workspace (split-K), or into a comparison along the row (matmul_argmax). All threads of
// the workgroup create the sink before the family's loops and end it together; row() may be called by any of
// them in any control flow.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // The calling thread's accumulators of row `i` of the tile at `columns` (ascending; index or i32, like
  // `i`). Rows and columns beyond the tile's edge are skipped here. `lanes`: the bits of the lane number that
  // differ among the lanes that hold other columns of the same row. If it is not 0, all lanes of the warp
  // must call row() together.
  virtual void row(Value i, llvm::ArrayRef<Value> columns, llvm::ArrayRef<Value> sums, int32_t lanes = 0) = 0;
  // Call after the last row. Merges if the plan merges within the launch.
  virtual mlir::LogicalResult done() = 0;
};
// The sink of the step's tile `p` at `position`; both must outlive it.
std::unique_ptr<OutputSink> make_sink(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p,
                                      const GridPosition& position);

// The dtype of an operand's element type.
DType dtype_of(mlir::Type element);

// The offset of element (i, j) in the view's memory.
Value inside(Emit& e, const View& v, Value i, Value j);
// Applies the epilogue to one product (f32 or i32) at (i, j) of the tile; returns the product if there is no
// epilogue. With `lanes` > 0, `product` is a vector of that many products from column j on; then j must be a
// multiple of `lanes` and all operands' rows must be aligned to 16 bytes.
Value finish(Emit& e, TileProgram& p, Value product, Value i, Value j, int64_t lanes = 0);
// Adds the partial results of the merge program's tile in ascending order of the split and applies the
// epilogue. All of the kernel's workers share the work.
void emit_merge(Emit& e, const GpuKernel& kernel, const Arguments& arguments, TileProgram& p);
// kMergeLast: all workers call this after each has stored its part of the tile at `position`. The workgroup
// that takes the last ticket merges the tile. The counters are numbered by the tile's x, y and batch.
llvm::LogicalResult merge_last(Emit& e, GpuKernel& kernel, const GpuStep& step, const GridPosition& position);

}  // namespace lathe::emit
