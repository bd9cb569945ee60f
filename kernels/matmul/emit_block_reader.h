// Decodes weights in a block format, for emit_blocks.cc and emit_pieces.cc.
#pragma once

#include <cmath>
#include <numeric>

#include "compiler/dialect.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {
using namespace mlir;

constexpr int64_t kZmmLanes = 16, kYmmLanes = 8;
constexpr int64_t kHalves = 16;  // values of 4 bits

// The scale of some elements in all lanes, and if the format has it, their minimum or the code that stands for 0 (both
// f32).
struct Scale {
  Value scale, minimum = nullptr, zero = nullptr;
};

// GPUs: where the scales of a block are that are stored apart. `k`: the block's first element, of the tile's K.
struct ScalesOfBlock {
  const ScalePlaces& places;
  Value line, k;
};

// Decodes a vector of elements. `byte` is the first byte of a block, `inside` the first element in it, both
// indices. LLVM shares what several vectors of a block have in common.
struct BlockReader {
  Emit& e;
  int64_t lanes;
  const View& v;
  const BlockLayout& layout;
  GpuBlocks::Loads* ahead = nullptr;            // GPUs: the loads are issued before their values are used
  const ScalesOfBlock* scales_apart = nullptr;  // GPUs, while the loads are issued

  VectorType f32s() const { return e.vec(lanes, e.f32()); }
  VectorType i32s() const { return e.vec(lanes, e.b.getI32Type()); }
  Value all(VectorType type, int64_t value) const {
    return arith::ConstantOp::create(
        e.b, e.loc, SplatElementsAttr::get(type, e.b.getIntegerAttr(type.getElementType(), value)));
  }
  Value select(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(e.b, e.loc, condition, x, y);
  }

  // --- scalars of i32, and vectors with one in all lanes
  Value load(Value byte, Type type, int64_t alignment = 1) const {
    const auto read = [&]() -> Value {
      return LLVM::LoadOp::create(e.b, e.loc, type, pointer_to(e, v.memory, byte),
                                  static_cast<unsigned>(alignment));
    };
    return ahead ? ahead->value(read) : read();
  }
  // Aligned like every multiple of `distance` bytes from the start of a block.
  int64_t alignment_of(int64_t distance) const {
    return ahead ? std::gcd(std::gcd(ahead->alignment, int64_t{row_of(layout.dtype).bytes}), distance) : 1;
  }
  Value byte_at(Value byte) const {
    return arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), load(byte, e.b.getI8Type()));
  }
  Value bits(Value x, Value shift, int64_t mask) const {
    Value down = arith::ShRUIOp::create(e.b, e.loc, x, shift);
    return arith::AndIOp::create(e.b, e.loc, down, e.i32(mask));
  }
  Value bits(Value x, int64_t shift, int64_t mask) const { return bits(x, e.i32(shift), mask); }
  Value either(Value x, Value y) const { return arith::OrIOp::create(e.b, e.loc, x, y); }
  Value up1(Value x) const { return arith::ShLIOp::create(e.b, e.loc, x, e.i32(1)); }
  Value up4(Value x) const { return arith::ShLIOp::create(e.b, e.loc, x, e.i32(4)); }
  // A GPU converts one number, and not one for each lane.
  Value as_f32(Value word) const {
    if (ahead) return e.broadcast(arith::SIToFPOp::create(e.b, e.loc, e.f32(), word), lanes);
    return arith::SIToFPOp::create(e.b, e.loc, f32s(), e.broadcast(word, lanes));
  }
  Value times(Value x, Value y) const { return arith::MulFOp::create(e.b, e.loc, x, y); }
  // The f16 at `byte` in all lanes. Broadcast before it is widened: two instructions on x86, while a scalar
  // takes four.
  Value half_at(Value byte) const {
    Value half = load(byte, e.b.getF16Type(), alignment_of(2));
    return ahead ? e.broadcast(e.to_f32(half), lanes) : e.to_f32(e.broadcast(half, lanes));
  }

  // --- scales
  Scale scales_of(Value byte, Value inside) const {
    switch (layout.scales) {
      case BlockScales::kF16: return {half_at(byte), nullptr};
      case BlockScales::kF16AndMin: return {half_at(byte), half_at(e.add(byte, 2))};
      case BlockScales::kPower: return {power_at(byte), nullptr};
      case BlockScales::kSixBits: return six_bits(byte, e.div(inside, e.idx(32)));
      case BlockScales::kBytes: {
        Value scale = load(e.add(e.add(byte, 192), e.div(inside, e.idx(16))), e.b.getI8Type());
        Value word = arith::ExtSIOp::create(e.b, e.loc, e.b.getI32Type(), scale);
        return {times(half_at(e.add(byte, 208)), as_f32(word)), nullptr};
      }
      case BlockScales::kSixBitsOf32: return six_bits_of_32(byte, e.div(inside, e.idx(32)));
      case BlockScales::kF16AndZero: return {half_at(byte), nullptr, as_f32(byte_at(e.add(byte, 2)))};
      case BlockScales::kApartF32: return {e.broadcast(load_apart(e.f32(), byte, inside), lanes)};
      case BlockScales::kApartPower: return {power_apart(byte, inside)};
      case BlockScales::kApartF8: {
        Value scale = e4m3_in_units(load_apart(e.b.getI8Type(), byte, inside));
        return {ahead ? times(scale, splat(kF8Unit / 2)) : scale};
      }
    }
    llvm::report_fatal_error("unknown scales of a block format");
  }
  // A scale of an array of its own. GPUs: f32 are aligned unless the class is kByte.
  Value load_apart(Type type, Value byte, Value inside) const {
    const unsigned alignment = ahead && ahead->alignment > 1 ? type.getIntOrFloatBitWidth() / 8 : 1;
    const auto read = [&]() -> Value {
      return LLVM::LoadOp::create(e.b, e.loc, type, apart(byte, inside), alignment);
    };
    return ahead ? ahead->value(read) : read();
  }
  // The address of the scale of element `inside` of a block.
  Value apart(Value byte, Value inside) const {
    if (scales_apart) {
      const auto& [places, line, k] = *scales_apart;
      return places.at(e, layout.dtype, line, e.add(k, inside));
    }
    const DTypeRow& row = row_of(layout.dtype);
    Value own = e.mul(e.div(byte, e.idx(row.bytes)), row.apart);
    if (layout.scales == BlockScales::kApartF8) own = e.add(own, e.div(inside, e.idx(16)));
    return pointer_to(e, v.scales, own);
  }
  Value splat(float value) const { return e.splat(f32s(), value); }
  Value power_apart(Value byte, Value inside) const {
    Value power =
        arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), load_apart(e.b.getI8Type(), byte, inside));
    Value scale = layout.table ? power_of(power) : whole_power_of(power);
    Value is_nan = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, power, e.i32(255));
    Value word = select(is_nan, e.i32(0x7fc00000), scale);
    return arith::BitcastOp::create(e.b, e.loc, f32s(), e.broadcast(word, lanes));
  }
  // The bits of 2^(power - 127). The smallest is subnormal.
  Value whole_power_of(Value power) const {
    Value normal = arith::ShLIOp::create(e.b, e.loc, power, e.i32(23));
    return select(e.equal(power, e.i32(0)), e.i32(0x00400000), normal);
  }
  Value power_at(Value byte) const {
    return arith::BitcastOp::create(e.b, e.loc, f32s(), e.broadcast(power_of(byte_at(byte)), lanes));
  }
  // The bits of 2^(power - 128). The two smallest are subnormal.
  Value power_of(Value power) const {
    Value normal =
        arith::ShLIOp::create(e.b, e.loc, arith::SubIOp::create(e.b, e.loc, power, e.i32(1)), e.i32(23));
    Value small = arith::ShLIOp::create(e.b, e.loc, e.i32(0x00200000), bits(power, int64_t{0}, 1));
    Value is_small = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult, power, e.i32(2));
    return select(is_small, small, normal);
  }
  // Groups 0 to 3 have their 6 bits in one byte. The others have the upper two in those bytes.
  Scale six_bits(Value byte, Value group) const {
    Value first = e.less(group, e.idx(4)), at = e.add(e.add(byte, 4), group);
    Value low = byte_at(at), next = byte_at(e.add(at, 4));
    Value before = byte_at(select(first, at, e.sub(at, e.idx(4))));
    Value scale =
        select(first, bits(low, int64_t{0}, 63), either(bits(next, int64_t{0}, 15), up4(bits(before, 6, 3))));
    Value minimum =
        select(first, bits(next, int64_t{0}, 63), either(bits(next, 4, 15), up4(bits(low, 6, 3))));
    Value negated = arith::NegFOp::create(e.b, e.loc, times(half_at(e.add(byte, 2)), as_f32(minimum)));
    return {times(half_at(byte), as_f32(scale)), negated};
  }
  Scale six_bits_of_32(Value byte, Value group) const {
    Value odd = e.to_i32(e.rem(group, e.idx(2))), shift = e.to_i32(e.mul(group, 2));
    Value low = bits(byte_at(e.add(e.add(byte, 4), e.div(group, e.idx(2)))),
                     arith::ShLIOp::create(e.b, e.loc, odd, e.i32(2)), 15);
    Value upper =
        arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), load(e.add(byte, 2), e.b.getI16Type()));
    Value word = arith::SubIOp::create(e.b, e.loc, either(low, up4(bits(upper, shift, 3))), e.i32(32));
    return {times(half_at(byte), as_f32(word)), nullptr};
  }

  // --- codes
  // The bytes from `byte` on, which is a multiple of the lanes from byte `first` of a block. A GPU loads them as a word.
  Value bytes_at(Value byte, int64_t first = 0) const {
    if (!ahead) return e.load_vector(v.memory, byte, lanes);
    return LLVM::BitcastOp::create(e.b, e.loc, e.vec(lanes, e.b.getI8Type()), word_at(byte, first));
  }
  // Four bytes; `byte` is a multiple of four from byte `first` of a block.
  Value word_at(Value byte, int64_t first) const {
    return load(byte, e.b.getI32Type(), alignment_of(std::gcd(first, int64_t{4})));
  }
  Value widened(Value bytes) const { return arith::ExtUIOp::create(e.b, e.loc, i32s(), bytes); }
  Value shifted(Value words, Value shift) const {
    return arith::ShRUIOp::create(e.b, e.loc, words, e.broadcast(shift, lanes));
  }
  Value masked(Value words, int64_t mask) const {
    return arith::AndIOp::create(e.b, e.loc, words, all(cast<VectorType>(words.getType()), mask));
  }
  // Where the lower 4 bits of the elements are: their bytes, and the shift in each.
  std::pair<Value, Value> halves_at(Value byte, Value inside) const {
    Value group = e.div(inside, e.idx(layout.group)), in = e.rem(inside, e.idx(layout.group));
    const int64_t half = layout.group / 2;
    Value at = e.add(e.add(byte, layout.first()), e.add(e.mul(group, half), e.rem(in, e.idx(half))));
    return {at, e.mul(e.div(in, e.idx(half)), 4)};
  }
  // The upper bits, in place above the lower 4.
  Value upper_bits(Value byte, Value inside) const {
    if (layout.planes == 0) {
      Value word = load(e.add(byte, layout.upper_first), e.b.getI32Type());
      word = e.broadcast(arith::ShRUIOp::create(e.b, e.loc, word, e.to_i32(inside)), lanes);
      SmallVector<int32_t> lane_bits;
      for (int64_t l = 0; l < lanes; ++l) lane_bits.push_back(int32_t{1} << l);
      Value own =
          arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i32s(), llvm::ArrayRef(lane_bits)));
      Value set = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne,
                                        arith::AndIOp::create(e.b, e.loc, word, own), all(i32s(), 0));
      return select(set, all(i32s(), 16), all(i32s(), 0));
    }
    Value group = e.div(inside, e.idx(layout.planes)), in = e.rem(inside, e.idx(layout.planes));
    Value at = e.add(e.add(byte, layout.upper_first), e.add(e.mul(group, 32), e.rem(in, e.idx(32))));
    Value shift = e.to_i32(e.mul(e.div(in, e.idx(32)), layout.upper_bits));
    Value words =
        masked(shifted(widened(bytes_at(at, layout.upper_first)), shift), (1 << layout.upper_bits) - 1);
    return arith::ShLIOp::create(e.b, e.loc, words, all(i32s(), 4));
  }
  // --- bytes of fp8, by way of f16: on Intel a multiplication of subnormal f32 is slow
  Value half_bits_as_f32(Value bits) const {
    return e.to_f32(arith::BitcastOp::create(e.b, e.loc, e.vec(lanes, e.b.getF16Type()), bits));
  }
  Value e5m2(Value bytes) const {
    VectorType i16s = e.vec(lanes, e.b.getI16Type());
    Value wide = arith::ExtUIOp::create(e.b, e.loc, i16s, bytes);
    return half_bits_as_f32(arith::ShLIOp::create(e.b, e.loc, wide, all(i16s, 8)));
  }
  // The bits of an f16 with the sign, exponent and mantissa of an e4m3 (sign-extended to i16), whose value is thus less by
  // kF8Unit. Where e4m3 has NaN, adding 1 to the mantissa carries into the exponent's upper bit; that makes it NaN, too.
  static constexpr float kF8Unit = 256;
  Value half_bits_of_e4m3(Value wide) const {
    const auto constant = [&](int16_t value) {
      auto type = dyn_cast<VectorType>(wide.getType());
      return type ? all(type, value) : e.constant(wide.getType(), value);
    };
    Value moved = arith::ShLIOp::create(e.b, e.loc, wide, constant(7));
    Value bits = arith::AndIOp::create(e.b, e.loc, moved, constant(static_cast<int16_t>(0xbf80)));
    Value carried = arith::AddIOp::create(e.b, e.loc, bits, constant(0x80));
    return either(bits, arith::AndIOp::create(e.b, e.loc, carried, constant(0x4000)));
  }
  Value e4m3(Value bytes) const {
    if (ahead) return e4m3_by_words(bytes);
    Value wide = arith::ExtSIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI16Type()), bytes);
    return times(half_bits_as_f32(half_bits_of_e4m3(wide)), splat(kF8Unit));
  }
  // GPUs have few instructions for vectors of i16. An f32 with the bits of an e4m3 is 2^120 times too small, because
  // the exponent's bias is 127 and not 7.
  Value e4m3_by_words(Value bytes) const {
    Value words = widened(bytes), magnitudes = masked(words, 127);
    Value values = times(arith::BitcastOp::create(e.b, e.loc, f32s(), up(magnitudes, 20)), splat(0x1p120f));
    Value is_nan = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, magnitudes, all(i32s(), 127));
    values = select(is_nan, splat(NAN), values);
    Value signs = up(masked(words, 128), 24);
    Value bits = arith::BitcastOp::create(e.b, e.loc, i32s(), values);
    return arith::BitcastOp::create(e.b, e.loc, f32s(), arith::XOrIOp::create(e.b, e.loc, bits, signs));
  }
  // An e4m3 less by kF8Unit in all lanes. It is widened as a scalar, so that LLVM sees that all lanes are equal.
  Value e4m3_in_units(Value byte) const {
    Value bits = half_bits_of_e4m3(arith::ExtSIOp::create(e.b, e.loc, e.b.getI16Type(), byte));
    Value half = arith::BitcastOp::create(e.b, e.loc, e.b.getF16Type(), bits);
    return e.broadcast(e.to_f32(half), lanes);
  }

  // --- pairs of codes
  // Words whose lower four bits are the codes of `lanes` elements. Eight codes come in one word.
  Value pair_words(Value byte, Value inside) const {
    Value at = e.add(e.add(byte, layout.first()), e.div(inside, e.idx(2)));
    Value words;
    if (lanes > 8) {
      Value stored = load(at, e.vec(lanes / 8, e.b.getI32Type()));
      SmallVector<int64_t> word_of;
      for (int64_t l = 0; l < lanes; ++l) word_of.push_back(l / 8);
      words = vector::ShuffleOp::create(e.b, e.loc, stored, stored, word_of);
    } else {
      Type type = e.b.getIntegerType(static_cast<unsigned>(4 * lanes));
      Value stored = load(at, type, alignment_of(lanes / 2));
      if (lanes < 8) stored = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), stored);
      words = e.broadcast(stored, lanes);
    }
    SmallVector<int32_t> shifts;
    for (int64_t l = 0; l < lanes; ++l) shifts.push_back(static_cast<int32_t>(4 * (l % 8)));
    Value by = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i32s(), llvm::ArrayRef(shifts)));
    return arith::ShRUIOp::create(e.b, e.loc, words, by);
  }
  Value up(Value words, int64_t bits) const {
    return arith::ShLIOp::create(e.b, e.loc, words, all(i32s(), bits));
  }
  // The factor of the doubled values. On CPUs scales of e4m3 are decoded kF8Unit times too small; this makes up for
  // both. Other scales are decoded halved, so their factor is 1.
  float unit() const { return !ahead && layout.scales == BlockScales::kApartF8 ? kF8Unit / 2 : 1; }
  // Codes of e2m1 to their doubled values times unit(). AVX2 looks up the magnitudes. Other targets shift the bits into
  // an f16, which makes the value 2^14 times too small, because the exponent's bias is 15 and not 1.
  Value doubled_e2m1(Value words) const {
    if (lanes == kYmmLanes) {
      Value table = arith::ConstantOp::create(
          e.b, e.loc,
          DenseElementsAttr::get(f32s(), llvm::ArrayRef<float>({0, unit(), 2 * unit(), 3 * unit(), 4 * unit(),
                                                                6 * unit(), 8 * unit(), 12 * unit()})));
      Value found =
          LLVM::CallIntrinsicOp::create(e.b, e.loc, f32s(), e.b.getStringAttr("llvm.x86.avx2.permps"),
                                        ValueRange{table, words})
              .getResult(0);
      Value sign = masked(up(words, 28), INT32_MIN);
      Value bits =
          arith::XOrIOp::create(e.b, e.loc, arith::BitcastOp::create(e.b, e.loc, i32s(), found), sign);
      return arith::BitcastOp::create(e.b, e.loc, f32s(), bits);
    }
    Value bits = either(up(masked(words, 7), 9), up(masked(words, 8), 12));
    Value halves = arith::TruncIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI16Type()), bits);
    return times(half_bits_as_f32(halves), splat(unit() * 0x1p15f));
  }

  Value numbers(Value byte, Value inside) const {
    if (layout.group == 0)
      return arith::ExtSIOp::create(e.b, e.loc, i32s(),
                                    bytes_at(e.add(e.add(byte, layout.first()), inside), layout.first()));
    const auto [at, shift] = halves_at(byte, inside);
    if (layout.table) return looked_up(bytes_at(at), shift);
    Value words = masked(shifted(widened(bytes_at(at, layout.first())), e.to_i32(shift)), 15);
    if (layout.upper_bits) words = arith::OrIOp::create(e.b, e.loc, words, upper_bits(byte, inside));
    return layout.zero ? Value(arith::SubIOp::create(e.b, e.loc, words, all(i32s(), layout.zero))) : words;
  }
  // Looks up the table's values, as i32, with a permutation of 16 bytes if there is one.
  Value looked_up(Value bytes, Value shift) const {
    auto type = cast<VectorType>(bytes.getType());
    Value down = arith::IndexCastOp::create(e.b, e.loc, type.getElementType(), shift);
    bytes = masked(arith::ShRUIOp::create(e.b, e.loc, bytes, e.broadcast(down, lanes)), 15);
    auto features = e.symbols->getAttrOfType<StringAttr>(ir::kFeaturesAttr);
    const bool neon = features && llvm::is_contained(llvm::split(features.getValue(), ','), "+neon");
    auto sixteen = e.vec(kHalves, e.b.getI8Type());
    Value table = arith::ConstantOp::create(
        e.b, e.loc, DenseElementsAttr::get(sixteen, llvm::ArrayRef(layout.table, kHalves)));
    if (lanes != kYmmLanes && !neon) return extracted(bytes, table);
    SmallVector<int64_t> widen(kHalves, 0), first;
    for (int64_t l = 0; l < lanes; ++l) widen[l] = l, first.push_back(l);
    Value indices = vector::ShuffleOp::create(e.b, e.loc, bytes, bytes, widen);
    const char* name = neon ? "llvm.aarch64.neon.tbl1.v16i8" : "llvm.x86.ssse3.pshuf.b.128";
    Value found = LLVM::CallIntrinsicOp::create(e.b, e.loc, sixteen, e.b.getStringAttr(name),
                                                ValueRange{table, indices})
                      .getResult(0);
    found = vector::ShuffleOp::create(e.b, e.loc, found, found, first);
    return arith::ExtSIOp::create(e.b, e.loc, i32s(), found);
  }
  // Without a permutation (SSE2): lane by lane.
  Value extracted(Value bytes, Value table) const {
    Value found = e.zero(bytes.getType());
    for (int64_t l = 0; l < lanes; ++l) {
      Value index = vector::ExtractOp::create(e.b, e.loc, bytes, l);
      index = arith::IndexCastUIOp::create(e.b, e.loc, e.index(), index);
      Value value = vector::ExtractOp::create(e.b, e.loc, table, OpFoldResult(index));
      found = vector::InsertOp::create(e.b, e.loc, value, found, l);
    }
    return arith::ExtSIOp::create(e.b, e.loc, i32s(), found);
  }

  // --- elements
  // With sixteen lanes a register holds the values of all codes of 4 bits, and a permutation looks them up.
  // Decoding four blocks per vector is not faster, because shifts and permutations share two units.
  Value permuted(Value byte, Value inside, const Scale& s) const {
    SmallVector<float> values;
    for (int32_t code = 0; code < kHalves; ++code)
      values.push_back(unit() * static_cast<float>(layout.table ? layout.table[code] : code - layout.zero));
    Value table =
        arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(f32s(), llvm::ArrayRef(values)));
    // A scale for each vector costs less after the permutation.
    const bool scales_last = layout.scales == BlockScales::kApartF8;
    if (!scales_last) table = applied(table, s);
    Value words;
    if (layout.codes == BlockCodes::kPairs) {
      words = pair_words(byte, inside);
    } else {
      const auto [at, shift] = halves_at(byte, inside);
      words = shifted(widened(bytes_at(at)), e.to_i32(shift));
    }
    Value found =
        LLVM::CallIntrinsicOp::create(e.b, e.loc, f32s(), e.b.getStringAttr("llvm.x86.avx512.permvar.sf.512"),
                                      ValueRange{table, words})
            .getResult(0);
    return scales_last ? times(found, s.scale) : found;
  }
  // The product of scale and number is exact, so fused and separate additions of the minimum agree.
  Value applied(Value numbers, const Scale& s) const {
    if (s.zero) numbers = arith::SubFOp::create(e.b, e.loc, numbers, s.zero);
    return s.minimum ? e.fma(numbers, s.scale, s.minimum) : times(numbers, s.scale);
  }
  Value elements(Value byte, Value inside) const {
    const Scale s = scales_of(byte, inside);
    if (layout.codes == BlockCodes::kE4M3 || layout.codes == BlockCodes::kE5M2) {
      Value bytes = bytes_at(e.add(byte, inside));
      return times(layout.codes == BlockCodes::kE4M3 ? e4m3(bytes) : e5m2(bytes), s.scale);
    }
    const bool in_pairs = layout.codes == BlockCodes::kPairs;
    if (lanes == kZmmLanes && (layout.group > 0 || in_pairs) && layout.upper_bits == 0)
      return permuted(byte, inside, s);
    if (in_pairs) return times(doubled_e2m1(pair_words(byte, inside)), s.scale);
    if (ahead && layout.table) {  // no table in registers, so only e2m1
      const auto [at, shift] = halves_at(byte, inside);
      Value words = shifted(widened(bytes_at(at, layout.first())), e.to_i32(shift));
      return times(doubled_e2m1(words), s.scale);
    }
    return applied(arith::SIToFPOp::create(e.b, e.loc, f32s(), numbers(byte, inside)), s);
  }
};

}  // namespace lathe::emit
