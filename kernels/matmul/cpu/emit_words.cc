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

Value intrinsic(Emit& e, const char* name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, result, e.b.getStringAttr(name), operands).getResult(0);
}

}  // namespace

CpuWords::CpuWords(Emit& e, Type element, int64_t lanes, llvm::StringRef features)
    : e_(e), lanes_(lanes), kind_(kFloats) {
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

Value CpuWords::all(int64_t word) const {
  Attribute value = e_.b.getI32IntegerAttr(static_cast<int32_t>(word));
  return arith::ConstantOp::create(e_.b, e_.loc, SplatElementsAttr::get(e_.vec(lanes_, i32()), value));
}
Value CpuWords::as(VectorType type, Value x) const {
  return x.getType() == type ? x : Value(arith::BitcastOp::create(e_.b, e_.loc, type, x));
}
Value CpuWords::to_scratch(Value x) const { return as(e_.vec(lanes_, e_.f32()), x); }
Value CpuWords::zero_words() const { return e_.splat(word_type(), 0); }
Value CpuWords::zero_sums() const { return e_.splat(sum_type(), 0); }

bool CpuWords::are_stored(const View& v) const {
  return !CpuBlocks::holds(v) && (kind_ == kFloats ? v.element.isF32() : !rounds(v));
}
Value CpuWords::word_at(const View& v, Value at) const {
  if (kind_ == kFloats) return e_.load(v.memory, at);
  Value pointer = pointer_to(e_, v.memory, at);
  return LLVM::LoadOp::create(e_.b, e_.loc, e_.f32(), pointer, /*alignment=*/1);
}

Value CpuWords::along_k(const View& v, Value at, Value left) const {
  if (CpuBlocks::holds(v)) return CpuBlocks(e_, lanes_, v).along_k(at);
  Value x = left ? e_.load_masked(v.memory, at, width(), left) : e_.load_vector(v.memory, at, width());
  if (kind_ == kFloats) return e_.to_f32(x);
  return vector::BitCastOp::create(e_.b, e_.loc, word_type(), rounded(x));
}

Value CpuWords::rounded(Value x) const {
  auto type = cast<VectorType>(x.getType());
  if (kind_ != kPairs || !type.getElementType().isF32()) return x;
  VectorType bf16 = type.clone(e_.b.getBF16Type());
  if (lanes_ != kZmmLanes) return arith::TruncFOp::create(e_.b, e_.loc, bf16, x);
  // Subnormal numbers become 0, as the products treat them. (LLVM would keep them, with nine instructions
  // per vector.)
  if (type.getNumElements() == lanes_) return intrinsic(e_, kZmmRound, bf16, {x});
  const auto half = [&](int64_t from) -> Value {
    return vector::ExtractStridedSliceOp::create(e_.b, e_.loc, x, llvm::ArrayRef(from),
                                                 llvm::ArrayRef(lanes_), llvm::ArrayRef<int64_t>(1));
  };
  return intrinsic(e_, kZmmRoundBoth, bf16, {half(lanes_), half(0)});
}

std::pair<Value, Value> CpuWords::halves(const View& v, Value at) const {
  constexpr int32_t kUpper = INT32_C(-0x10000);  // the bits of f32 that bf16 has
  auto f32s = e_.vec(lanes_, e_.f32());
  Value pairs = vector::BitCastOp::create(e_.b, e_.loc, e_.vec(lanes_, i32()),
                                          e_.load_vector(v.memory, at, 2 * lanes_));
  return {as(f32s, arith::ShLIOp::create(e_.b, e_.loc, pairs, all(16))),
          as(f32s, arith::AndIOp::create(e_.b, e_.loc, pairs, all(kUpper)))};
}

Value CpuWords::across_k(const View& v, const Values& lines, Value at, Value left) const {
  const auto read = [&](Value line) {
    Value from = e_.add(line, at);
    return rounded(left ? e_.load_masked(v.memory, from, lanes_, left)
                        : e_.load_vector(v.memory, from, lanes_));
  };
  if (kind_ == kFloats) return e_.to_f32(read(lines[0]));
  const int64_t bits = 32 / per_lane();
  Value words;
  for (int64_t q = 0; q < per_lane(); ++q) {
    VectorType raw = e_.vec(lanes_, e_.b.getIntegerType(static_cast<unsigned>(bits)));
    Value x = arith::ExtUIOp::create(e_.b, e_.loc, word_type(), as(raw, read(lines[q])));
    if (q) x = arith::ShLIOp::create(e_.b, e_.loc, x, all(bits * q));
    words = words ? Value(arith::OrIOp::create(e_.b, e_.loc, words, x)) : x;
  }
  return words;
}

Value CpuWords::first_elements(Value words, Value count) const {
  if (kind_ == kFloats) return words;
  Value bits = e_.to_i32(e_.mul(e_.min(count, e_.idx(per_lane())), 32 / per_lane()));
  // In 64 bits, since shifting 32 bits by 32 is undefined.
  Type i64 = e_.b.getI64Type();
  Value wide = arith::ExtUIOp::create(e_.b, e_.loc, i64, bits);
  Value past = arith::ShLIOp::create(e_.b, e_.loc, e_.constant(i64, -1), wide);
  Value mask = arith::TruncIOp::create(e_.b, e_.loc, i32(), past);
  mask = arith::XOrIOp::create(e_.b, e_.loc, mask, e_.i32(-1));
  return arith::AndIOp::create(e_.b, e_.loc, words, e_.broadcast(mask, lanes_));
}

Value CpuWords::shifted(Value b) const {
  return vnni_ ? Value(arith::XOrIOp::create(e_.b, e_.loc, b, all(INT32_C(-0x7F7F7F80)))) : b;
}

Value CpuWords::elements_of(Value words, Type element) const {
  return vector::BitCastOp::create(e_.b, e_.loc, e_.vec(width(), element), words);
}

Value CpuWords::multiply_add(Value a, Value b, Value sum) const {
  if (kind_ == kFloats) return e_.fma(a, b, sum);
  Type element = kind_ == kPairs ? Type(e_.b.getBF16Type()) : Type(e_.b.getI8Type());
  if (kind_ == kPairs)
    return intrinsic(e_, lanes_ == kNeonLanes ? kNeonPairs : kZmmPairs, sum_type(),
                     {sum, elements_of(a, element), elements_of(b, element)});
  if (sdot_)
    return intrinsic(e_, "llvm.aarch64.neon.sdot.v4i32.v16i8", sum_type(),
                     {sum, elements_of(a, element), elements_of(b, element)});
  if (vnni_)
    return intrinsic(e_, "llvm.x86.avx512.vpdpbusd.512", sum_type(),
                     {sum, elements_of(b, element), elements_of(a, element)});
  if (words16_) return add_words16(a, b, sum);
  // Byte by byte, as i32.
  const auto byte = [&](Value words, int64_t q) {
    Value high = q == 3 ? words : Value(arith::ShLIOp::create(e_.b, e_.loc, words, all(24 - 8 * q)));
    return arith::ShRSIOp::create(e_.b, e_.loc, high, all(24));
  };
  for (int64_t q = 0; q < per_lane(); ++q) sum = e_.fma(byte(a, q), byte(b, q), sum);
  return sum;
}

// Widens even and odd bytes to 16 bits and multiplies pairs of them, which cannot overflow; vpmaddubsw, of
// unsigned by signed bytes, would saturate. The widened words of an operand serve the whole register tile.
Value CpuWords::add_words16(Value a, Value b, Value sum) const {
  Type i16 = e_.b.getIntegerType(16);
  Attribute eight = e_.b.getI16IntegerAttr(8);
  VectorType type = e_.vec(2 * lanes_, i16);
  Value bits = arith::ConstantOp::create(e_.b, e_.loc, SplatElementsAttr::get(type, eight));
  const auto odd = [&](Value x) -> Value { return arith::ShRSIOp::create(e_.b, e_.loc, x, bits); };
  const auto even = [&](Value x) { return odd(arith::ShLIOp::create(e_.b, e_.loc, x, bits)); };
  Value x = vector::BitCastOp::create(e_.b, e_.loc, type, a);
  Value y = vector::BitCastOp::create(e_.b, e_.loc, type, b);
  for (Value products : {intrinsic(e_, words16_, sum_type(), {even(x), even(y)}),
                         intrinsic(e_, words16_, sum_type(), {odd(x), odd(y)})})
    sum = arith::AddIOp::create(e_.b, e_.loc, sum, products);
  return sum;
}

Value CpuWords::add_a(Value a, Value sum) const { return multiply_add(a, all(INT32_C(0x01010101)), sum); }
Value CpuWords::unshift(Value of_a) const { return arith::MulIOp::create(e_.b, e_.loc, of_a, all(-128)); }

Value CpuWords::add_b(Value b, Value sum) const { return multiply_add(all(INT32_C(0x01010101)), b, sum); }
Value CpuWords::shift_of(Value elements) const { return e_.mul(elements, vnni_ ? 128 : 0); }

Value CpuWords::add(Value x, Value y) const {
  if (kind_ == kBytes) return arith::AddIOp::create(e_.b, e_.loc, x, y);
  return arith::AddFOp::create(e_.b, e_.loc, x, y);
}

Value CpuWords::reduce(Value sums) const {
  return vector::ReductionOp::create(
      e_.b, e_.loc, vector::CombiningKind::ADD, sums,
      kind_ == kBytes ? arith::FastMathFlags::none : arith::FastMathFlags::reassoc);
}

}  // namespace lathe::emit
