// The products of a warp's fragments in one step, added to the warp's accumulators, and the scaling of sums where
// operands are in blocks.
#pragma once

#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {

class MmaProducts {
 public:
  MmaProducts(Emit& e, const MmaShape& shape, const MmaWarp& warp, const MmaOperand& a, const MmaOperand& b)
      : e_(e), shape_(shape), warp_(warp), a_(a), b_(b) {}

  mlir::Type sum_type() const;
  // Adds the products of a step to `sums`. `registers`: the fragments of A and of B, those of each step in turn if
  // several steps have the same scale, and the scales unless parts are added (MmaShape::adds_parts).
  void multiply(Values& sums, const Values& registers) const;
  // Adds `parts` times their scales.
  void add_scaled(Values& sums, const Values& parts, const Values& scales) const;

 private:
  mlir::Type element() const { return a_.code ? a_.code : a_.view.element; }
  void multiply_warps(Values& sums, const Values& registers) const;
  void multiply_all_lanes(Values& sums, const Values& registers) const;
  void multiply_scaled(Values& sums, const Values& registers) const;
  void multiply_with_scales(Values& sums, const Values& registers) const;
  void multiply_and_scale_lanes(Values& sums, const Values& registers) const;
  Value scaled_sum(Value part, llvm::ArrayRef<Value> scales, int64_t i, int64_t j, Value sum) const;
  Values product(const llvm::SmallVector<llvm::ArrayRef<Value>>& a,
                 const llvm::SmallVector<llvm::ArrayRef<Value>>& b) const;
  Value finite_or_zero(Value x) const;
  int32_t two_ones() const { return element().isF16() ? 0x3c003c00 : 0x3f803f80; }

  Emit& e_;
  const MmaShape& shape_;
  const MmaWarp& warp_;
  const MmaOperand &a_, &b_;
};

}  // namespace lathe::emit
