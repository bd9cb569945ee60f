#include "kernels/matmul/cpu/emit_lanes.h"

namespace lathe::emit {
using namespace mlir;

namespace {

template <typename OfFloats, typename OfIntegers>
Value of_numbers(Emit& e, Value x, Value y) {
  if (isa<FloatType>(getElementTypeOrSelf(x.getType()))) return OfFloats::create(e.b, e.loc, x, y);
  return OfIntegers::create(e.b, e.loc, x, y);
}

}  // namespace

Value Lanes::all(VectorType type, int64_t value) const {
  Attribute number = e.b.getIntegerAttr(type.getElementType(), value);
  return arith::ConstantOp::create(e.b, e.loc, SplatElementsAttr::get(type, number));
}
Value Lanes::as(VectorType type, Value x) const {
  const auto from = cast<VectorType>(x.getType());
  if (from == type) return x;
  if (from.getShape() == type.getShape()) return arith::BitcastOp::create(e.b, e.loc, type, x);
  return vector::BitCastOp::create(e.b, e.loc, type, x);
}

Value Lanes::add(Value x, Value y) const { return of_numbers<arith::AddFOp, arith::AddIOp>(e, x, y); }
Value Lanes::sub(Value x, Value y) const { return of_numbers<arith::SubFOp, arith::SubIOp>(e, x, y); }
Value Lanes::mul(Value x, Value y) const { return of_numbers<arith::MulFOp, arith::MulIOp>(e, x, y); }

Value Lanes::masked(Value x, int64_t mask) const {
  return arith::AndIOp::create(e.b, e.loc, x, all_like(x, mask));
}
Value Lanes::flipped(Value x, int64_t mask) const {
  return arith::XOrIOp::create(e.b, e.loc, x, all_like(x, mask));
}
Value Lanes::up(Value x, int64_t bits) const {
  return bits == 0 ? x : Value(arith::ShLIOp::create(e.b, e.loc, x, all_like(x, bits)));
}
Value Lanes::down(Value x, int64_t bits) const {
  return bits == 0 ? x : Value(arith::ShRUIOp::create(e.b, e.loc, x, all_like(x, bits)));
}
Value Lanes::down_signed(Value x, int64_t bits) const {
  return arith::ShRSIOp::create(e.b, e.loc, x, all_like(x, bits));
}

Value Lanes::call(const char* name, Type type, ValueRange operands) const {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, type, e.b.getStringAttr(name), operands).getResult(0);
}

}  // namespace lathe::emit
