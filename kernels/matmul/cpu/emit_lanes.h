// Arithmetic on the vectors of CPU kernels.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

inline Value select(Emit& e, Value condition, Value x, Value y) {
  return mlir::arith::SelectOp::create(e.b, e.loc, condition, x, y);
}

// Vectors of so many words of 32 bits, as numbers of any width.
struct Lanes {
  Emit& e;
  int64_t lanes;

  mlir::VectorType f32s() const { return e.vec(lanes, e.f32()); }
  mlir::VectorType i32s() const { return e.vec(lanes, e.b.getI32Type()); }
  mlir::VectorType i16s() const { return e.vec(2 * lanes, e.b.getI16Type()); }
  mlir::VectorType i8s() const { return e.vec(4 * lanes, e.b.getI8Type()); }

  // An integer in every lane.
  Value all(mlir::VectorType type, int64_t value) const;
  Value all(int64_t word) const { return all(i32s(), word); }
  // The same bits as numbers of another type.
  Value as(mlir::VectorType type, Value x) const;
  Value to_f32(Value words) const { return mlir::arith::SIToFPOp::create(e.b, e.loc, f32s(), words); }

  // Of integers or of floats.
  Value add(Value x, Value y) const;
  Value sub(Value x, Value y) const;
  Value mul(Value x, Value y) const;

  // Of integers of any width; up: towards the highest bit.
  Value max(Value x, Value y) const { return mlir::arith::MaxSIOp::create(e.b, e.loc, x, y); }
  Value either(Value x, Value y) const { return mlir::arith::OrIOp::create(e.b, e.loc, x, y); }
  Value masked(Value x, int64_t mask) const;
  Value flipped(Value x, int64_t mask) const;
  Value up(Value x, int64_t bits) const;
  Value down(Value x, int64_t bits) const;
  Value down_signed(Value x, int64_t bits) const;

  Value shuffle(Value x, Value y, llvm::ArrayRef<int64_t> mask) const {
    return mlir::vector::ShuffleOp::create(e.b, e.loc, x, y, mask);
  }
  // The result of an LLVM intrinsic.
  Value call(const char* name, Type type, ValueRange operands) const;

 private:
  Value all_like(Value x, int64_t value) const {
    return all(mlir::cast<mlir::VectorType>(x.getType()), value);
  }
};

}  // namespace lathe::emit
