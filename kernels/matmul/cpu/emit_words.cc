#include "kernels/matmul/cpu/emit_words.h"

#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kZmmLanes = 16, kYmmLanes = 8, kNeonLanes = 4;
constexpr char kZmmPairs[] = "llvm.x86.avx512bf16.dpbf16ps.512";
// Of f32; the first elements come from the second operand.
constexpr char kZmmRound[] = "llvm.x86.avx512bf16.cvtneps2bf16.512",
               kZmmRoundBoth[] = "llvm.x86.avx512bf16.cvtne2ps2bf16.512";
constexpr char kNeonPairs[] = "llvm.aarch64.neon.bfdot.v4f32.v8bf16";
// Multiplies two pairs of 16 bits per lane and adds the products.
constexpr char kZmmWords[] = "llvm.x86.avx512.pmaddw.d.512", kYmmWords[] = "llvm.x86.avx2.pmadd.wd";

}  // namespace

CpuWords::CpuWords(Emit& e, Type element, int64_t lanes, llvm::StringRef features)
    : Lanes{e, lanes}, kind_(kFloats) {
  const auto has = [&](int64_t of_lanes, llvm::StringRef feature) {
    return lanes == of_lanes && llvm::is_contained(llvm::split(features, ','), feature);
  };
  if (element.isInteger(8)) {
    kind_ = kBytes;
    vnni_ = has(kZmmLanes, "+avx512vnni");
    sdot_ = has(kNeonLanes, "+dotprod");
    if (has(kYmmLanes, "+avx2")) words16_ = kYmmWords;
    if (has(kZmmLanes, "+avx512bw")) words16_ = kZmmWords;
  }
  if (element.isBF16() && (has(kZmmLanes, "+avx512bf16") || has(kNeonLanes, "+bf16"))) kind_ = kPairs;
}

Value CpuWords::zero_words() const { return e.splat(word_type(), 0); }
Value CpuWords::zero_sums() const { return e.splat(sum_type(), 0); }

bool CpuWords::are_stored(const View& v) const {
  return !CpuBlocks::holds(v) && (kind_ == kFloats ? v.element.isF32() : !rounds(v));
}
Value CpuWords::word_at(const View& v, Value at) const {
  if (kind_ == kFloats) return e.load(v.memory, at);
  Value pointer = pointer_to(e, v.memory, at);
  return LLVM::LoadOp::create(e.b, e.loc, e.f32(), pointer, /*alignment=*/1);
}

Value CpuWords::along_k(const View& v, Value at, Value left) const {
  if (CpuBlocks::holds(v)) return CpuBlocks(e, lanes, v).along_k(at);
  Value x = left ? e.load_masked(v.memory, at, width(), left) : e.load_vector(v.memory, at, width());
  if (kind_ == kFloats) return e.to_f32(x);
  return as(word_type(), rounded(x));
}

Value CpuWords::rounded(Value x) const {
  auto type = cast<VectorType>(x.getType());
  if (kind_ != kPairs || !type.getElementType().isF32()) return x;
  VectorType bf16 = type.clone(e.b.getBF16Type());
  if (lanes != kZmmLanes) return arith::TruncFOp::create(e.b, e.loc, bf16, x);
  // Subnormal numbers become 0, as the products treat them. (LLVM would keep them, with nine instructions
  // per vector.)
  if (type.getNumElements() == lanes) return call(kZmmRound, bf16, {x});
  const auto half = [&](int64_t from) -> Value {
    return vector::ExtractStridedSliceOp::create(e.b, e.loc, x, llvm::ArrayRef(from), llvm::ArrayRef(lanes),
                                                 llvm::ArrayRef<int64_t>(1));
  };
  return call(kZmmRoundBoth, bf16, {half(lanes), half(0)});
}

std::pair<Value, Value> CpuWords::halves(const View& v, Value at) const {
  constexpr int32_t kUpper = INT32_C(-0x10000);  // the bits of f32 that bf16 has
  Value pairs = as(i32s(), e.load_vector(v.memory, at, 2 * lanes));
  return {as(f32s(), up(pairs, 16)), as(f32s(), masked(pairs, kUpper))};
}

Value CpuWords::across_k(const View& v, const Values& lines, Value at, Value left) const {
  const auto read = [&](Value line) {
    Value from = e.add(line, at);
    return rounded(left ? e.load_masked(v.memory, from, lanes, left) : e.load_vector(v.memory, from, lanes));
  };
  if (kind_ == kFloats) return e.to_f32(read(lines[0]));
  const int64_t bits = 32 / per_lane();
  Value words;
  for (int64_t q = 0; q < per_lane(); ++q) {
    VectorType raw = e.vec(lanes, e.b.getIntegerType(static_cast<unsigned>(bits)));
    Value x = up(arith::ExtUIOp::create(e.b, e.loc, i32s(), as(raw, read(lines[q]))), bits * q);
    words = words ? either(words, x) : x;
  }
  return words;
}

Value CpuWords::first_elements(Value words, Value count) const {
  if (kind_ == kFloats) return words;
  Value bits = e.to_i32(e.mul(e.min(count, e.idx(per_lane())), 32 / per_lane()));
  // In 64 bits, since shifting 32 bits by 32 is undefined.
  Type i64 = e.b.getI64Type();
  Value wide = arith::ExtUIOp::create(e.b, e.loc, i64, bits);
  Value past = arith::ShLIOp::create(e.b, e.loc, e.constant(i64, -1), wide);
  Value mask = arith::TruncIOp::create(e.b, e.loc, e.b.getI32Type(), past);
  mask = arith::XOrIOp::create(e.b, e.loc, mask, e.i32(-1));
  return arith::AndIOp::create(e.b, e.loc, words, e.broadcast(mask, lanes));
}

Value CpuWords::shifted(Value b) const { return vnni_ ? flipped(b, INT32_C(-0x7F7F7F80)) : b; }

Value CpuWords::multiply_add(Value a, Value b, Value sum) const {
  if (kind_ == kFloats) return e.fma(a, b, sum);
  const auto product = [&](const char* name, Value x, Value y) {
    const VectorType type = kind_ == kBytes ? i8s() : e.vec(width(), e.b.getBF16Type());
    return call(name, sum_type(), {sum, as(type, x), as(type, y)});
  };
  if (kind_ == kPairs) return product(lanes == kNeonLanes ? kNeonPairs : kZmmPairs, a, b);
  if (sdot_) return product("llvm.aarch64.neon.sdot.v4i32.v16i8", a, b);
  if (vnni_) return product("llvm.x86.avx512.vpdpbusd.512", b, a);
  if (words16_) return add_words16(a, b, sum);
  // Byte by byte, as i32.
  const auto byte = [&](Value words, int64_t q) { return down_signed(up(words, 24 - 8 * q), 24); };
  for (int64_t q = 0; q < per_lane(); ++q) sum = e.fma(byte(a, q), byte(b, q), sum);
  return sum;
}

// Widens even and odd bytes to 16 bits and multiplies pairs of them, which cannot overflow; vpmaddubsw, of
// unsigned by signed bytes, would saturate. The widened words of an operand serve the whole register tile.
Value CpuWords::add_words16(Value a, Value b, Value sum) const {
  const auto odd = [&](Value x) { return down_signed(x, 8); };
  const auto even = [&](Value x) { return odd(up(x, 8)); };
  Value x = as(i16s(), a), y = as(i16s(), b);
  for (Value products :
       {call(words16_, sum_type(), {even(x), even(y)}), call(words16_, sum_type(), {odd(x), odd(y)})})
    sum = add(sum, products);
  return sum;
}

Value CpuWords::add_a(Value a, Value sum) const { return multiply_add(a, all(INT32_C(0x01010101)), sum); }
Value CpuWords::unshift(Value of_a) const { return mul(of_a, all(-128)); }

Value CpuWords::add_b(Value b, Value sum) const { return multiply_add(all(INT32_C(0x01010101)), b, sum); }
Value CpuWords::shift_of(Value elements) const { return e.mul(elements, vnni_ ? 128 : 0); }

Value CpuWords::reduce(Value sums) const {
  return vector::ReductionOp::create(
      e.b, e.loc, vector::CombiningKind::ADD, sums,
      kind_ == kBytes ? arith::FastMathFlags::none : arith::FastMathFlags::reassoc);
}

}  // namespace lathe::emit
