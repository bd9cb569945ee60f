// The end of a warp-level matmul. Accumulators pass through shared memory, so that adjacent threads write
// whole vectors of D's rows and the epilogue's code is emitted once per slab, not once per accumulator.
#pragma once

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {

class MmaStore {
 public:
  MmaStore(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p, const GridPosition& position)
      : e_(e), kernel_(kernel), step_(step), p_(p), position_(position) {}

  // `sums`: as MmaTile::emit returns them. `shared`: the shape's shared_bytes, no longer used by the main
  // loop.
  mlir::LogicalResult store(const MmaShape& shape, const MmaWarp& warp, llvm::ArrayRef<Value> sums,
                            Value shared);

 private:
  void to_shared(const MmaShape& shape, const MmaWarp& warp, llvm::ArrayRef<Value> sums, Value shared,
                 int64_t first);
  void from_shared(const MmaShape& shape, Type sum, Value shared, int64_t first);
  void to_sink(const MmaShape& shape, const MmaWarp& warp, llvm::ArrayRef<Value> sums, OutputSink& sink);
  Value joined(llvm::ArrayRef<Value> values);
  // i32: row and column of the lane's first accumulator in the warp's part of the tile.
  Value row_of(const MmaWarp& warp, const SumLayout& layout);
  Value column_of(const MmaWarp& warp, const SumLayout& layout);
  int64_t vector() const;

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  TileProgram& p_;
  const GridPosition& position_;
};

}  // namespace lathe::emit
