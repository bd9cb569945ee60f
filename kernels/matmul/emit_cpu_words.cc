#include "kernels/matmul/emit_cpu_words.h"

namespace lathe::emit {
using namespace mlir;

CpuWords::CpuWords(Emit& e, Type element, int64_t lanes, llvm::StringRef features)
    : e_(e),
      lanes_(lanes),
      bytes_(element.isInteger()),
      vnni_(bytes_ && lanes == 16 && features.contains("+avx512vnni")) {}

Value CpuWords::all(int64_t word) const {
  Attribute value = e_.b.getI32IntegerAttr(static_cast<int32_t>(word));
  return arith::ConstantOp::create(e_.b, e_.loc, SplatElementsAttr::get(type(), value));
}
Value CpuWords::zero() const { return bytes_ ? all(0) : e_.splat(type(), 0.0); }

Value CpuWords::along_k(const View& v, Value at, Value left) const {
  Value x = left ? e_.load_masked(v.memory, at, width(), left) : e_.load_vector(v.memory, at, width());
  return bytes_ ? Value(vector::BitCastOp::create(e_.b, e_.loc, type(), x)) : e_.to_f32(x);
}

Value CpuWords::across_k(const View& v, const Values& lines, Value at, Value left) const {
  const auto read = [&](Value line) {
    Value from = e_.add(line, at);
    return left ? e_.load_masked(v.memory, from, lanes_, left) : e_.load_vector(v.memory, from, lanes_);
  };
  if (!bytes_) return lines[0] ? e_.to_f32(read(lines[0])) : zero();
  Value words;
  for (int64_t q = 0; q < per_lane(); ++q) {
    if (!lines[q]) continue;
    Value x = arith::ExtUIOp::create(e_.b, e_.loc, type(), read(lines[q]));
    if (q) x = arith::ShLIOp::create(e_.b, e_.loc, x, all(8 * q));
    words = words ? Value(arith::OrIOp::create(e_.b, e_.loc, words, x)) : x;
  }
  return words ? words : zero();
}

Value CpuWords::first_bytes(Value words, Value count) const {
  Value bits = e_.to_i32(e_.mul(e_.min(count, e_.idx(4)), 8));
  // A shift by 32 would be none.
  Value wide = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI64Type(), bits);
  Value past = arith::ShLIOp::create(e_.b, e_.loc, e_.constant(e_.b.getI64Type(), -1), wide);
  Value mask = arith::TruncIOp::create(e_.b, e_.loc, e_.b.getI32Type(), past);
  mask = arith::XOrIOp::create(e_.b, e_.loc, mask, e_.i32(-1));
  return arith::AndIOp::create(e_.b, e_.loc, words, e_.broadcast(mask, lanes_));
}

Value CpuWords::shifted(Value b) const {
  return vnni_ ? Value(arith::XOrIOp::create(e_.b, e_.loc, b, all(INT32_C(-0x7F7F7F80)))) : b;
}

Value CpuWords::bytes_of(Value words) const {
  return vector::BitCastOp::create(e_.b, e_.loc, e_.vec(width(), e_.b.getI8Type()), words);
}

Value CpuWords::multiply_add(Value a, Value b, Value sum) const {
  if (!bytes_) return e_.fma(a, b, sum);
  if (vnni_)
    return LLVM::CallIntrinsicOp::create(e_.b, e_.loc, type(),
                                         e_.b.getStringAttr("llvm.x86.avx512.vpdpbusd.512"),
                                         ValueRange{sum, bytes_of(b), bytes_of(a)})
        .getResult(0);
  // Byte by byte, as i32. LLVM multiplies what fits 16 bits by vpmaddwd.
  const auto byte = [&](Value words, int64_t q) {
    Value high = q == 3 ? words : Value(arith::ShLIOp::create(e_.b, e_.loc, words, all(24 - 8 * q)));
    return arith::ShRSIOp::create(e_.b, e_.loc, high, all(24));
  };
  for (int64_t q = 0; q < per_lane(); ++q) sum = e_.fma(byte(a, q), byte(b, q), sum);
  return sum;
}

Value CpuWords::add_a(Value a, Value sum) const { return multiply_add(a, all(INT32_C(0x01010101)), sum); }
Value CpuWords::unshift(Value of_a) const {
  return arith::MulIOp::create(e_.b, e_.loc, of_a, all(-128));
}

Value CpuWords::add(Value x, Value y) const {
  if (bytes_) return arith::AddIOp::create(e_.b, e_.loc, x, y);
  return arith::AddFOp::create(e_.b, e_.loc, x, y);
}

Value CpuWords::reduce(Value sums) const {
  return vector::ReductionOp::create(e_.b, e_.loc, vector::CombiningKind::ADD, sums,
                                     bytes_ ? arith::FastMathFlags::none : arith::FastMathFlags::reassoc);
}

Value CpuWords::to_scratch(Value words) const {
  return bytes_ ? Value(arith::BitcastOp::create(e_.b, e_.loc, e_.vec(lanes_, e_.f32()), words)) : words;
}
Value CpuWords::from_scratch(Value f32) const {
  return bytes_ ? Value(arith::BitcastOp::create(e_.b, e_.loc, type(), f32)) : f32;
}

}  // namespace lathe::emit
