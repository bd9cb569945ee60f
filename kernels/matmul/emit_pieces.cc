#include "kernels/matmul/emit_pieces.h"

#include "kernels/matmul/emit_block_reader.h"

namespace lathe::emit {
namespace {

// Reads the codes of a piece, four in a word.
struct PieceReader : BlockReader {
  // The codes of GpuPieces::kElements from element `inside` on, before zero_code() is subtracted. Signed bytes become
  // unsigned ones.
  static constexpr int32_t kSignedZero = 128;
  Values code_words(Value byte, Value inside) const {
    Values stored, words;
    for (int64_t at = 0; at < GpuPieces::kElements; at += 4) {
      Value from = e.add(inside, at);
      if (layout.codes == BlockCodes::kPairs) {
        if (at % 8 == 0) stored.push_back(word_at(e.add(byte, e.div(from, e.idx(2))), 0));
        words.push_back(spread(bits(stored.back(), at % 8 * 4, 0xffff)));
        continue;
      }
      if (is_f8()) {
        words.push_back(word_at(e.add(byte, from), 0));
        continue;
      }
      if (layout.group == 0) {
        Value word = word_at(e.add(e.add(byte, layout.first()), from), layout.first());
        words.push_back(arith::XOrIOp::create(e.b, e.loc, word, e.i32(static_cast<int32_t>(0x80808080u))));
        continue;
      }
      const auto [place, shift] = halves_at(byte, from);
      const bool again = at >= layout.group / 2;  // its lower halves were loaded before
      stored.push_back(again ? stored[stored.size() - static_cast<size_t>(layout.group / 8)]
                             : word_at(place, layout.first()));
      Value word = bits(stored.back(), e.to_i32(shift), 0x0f0f0f0f);
      words.push_back(layout.upper_bits ? either(word, upper_word(byte, from)) : word);
    }
    return words;
  }
  bool is_f8() const { return layout.codes == BlockCodes::kE4M3 || layout.codes == BlockCodes::kE5M2; }
  // Four codes of 4 bits in a byte each.
  Value spread(Value x) const {
    const auto apart = [&](Value y, int64_t by, int64_t mask) {
      return arith::AndIOp::create(e.b, e.loc, either(y, arith::ShLIOp::create(e.b, e.loc, y, e.i32(by))),
                                   e.i32(mask));
    };
    return apart(apart(x, 8, 0x00ff00ff), 4, 0x0f0f0f0f);
  }
  // The upper bits of four elements of a format with planes of two bits, in place.
  Value upper_word(Value byte, Value inside) const {
    Value group = e.div(inside, e.idx(layout.planes)), in = e.rem(inside, e.idx(layout.planes));
    Value at = e.add(e.add(byte, layout.upper_first), e.add(e.mul(group, 32), e.rem(in, e.idx(32))));
    Value shift = e.to_i32(e.mul(e.div(in, e.idx(32)), layout.upper_bits));
    return up4(bits(word_at(at, layout.upper_first), shift, 0x03030303));
  }
  Value as(Type type, Value x) const { return LLVM::BitcastOp::create(e.b, e.loc, type, x); }
  Value all_of_two(Value f32) const {
    return e.broadcast(arith::TruncFOp::create(e.b, e.loc, e.b.getF16Type(), f32), 2);
  }
  // What becomes of a code: code * factor + added, or without `added` (code - zero) * factor. `zero` may be null.
  // They are f32 that f16 holds exactly.
  struct Factor {
    Value factor, added = nullptr, zero = nullptr;
  };
  // `convert` makes the operands from f32.
  Value applied(Value x, const Factor& f, llvm::function_ref<Value(Value)> convert) const {
    if (f.zero) x = arith::SubFOp::create(e.b, e.loc, x, convert(f.zero));
    return f.added ? e.fma(x, convert(f.factor), convert(f.added)) : times(x, convert(f.factor));
  }
  // Codes `first` and `first` + 1 of a word as two f16. The upper byte of 1024 + a code is that of 1024.
  Value two_halves(Value word, int64_t first) const {
    VectorType halves = e.vec(2, e.b.getF16Type());
    Value above = first == 0 ? Value(arith::ShLIOp::create(e.b, e.loc, word, e.i32(8)))
                             : Value(arith::ShRUIOp::create(e.b, e.loc, word, e.i32(8)));
    Value pair =
        either(bits(word, 8 * first, 0xff), arith::AndIOp::create(e.b, e.loc, above, e.i32(0xff0000)));
    const auto moved = [&](int32_t mask, int64_t by) -> Value {
      return arith::ShLIOp::create(e.b, e.loc, arith::AndIOp::create(e.b, e.loc, pair, e.i32(mask)),
                                   e.i32(by));
    };
    if (layout.codes == BlockCodes::kE5M2) return as(halves, moved(0x00ff00ff, 8));
    if (layout.codes == BlockCodes::kE4M3) {  // as half_bits_of_e4m3(), two at a time
      Value magnitudes = moved(0x007f007f, 7);
      Value carried = arith::AddIOp::create(e.b, e.loc, magnitudes, e.i32(0x00800080));
      Value nan = arith::AndIOp::create(e.b, e.loc, carried, e.i32(0x40004000));
      return times(as(halves, either(either(moved(0x00800080, 8), magnitudes), nan)),
                   e.splat(halves, kF8Unit));
    }
    if (!layout.table) {
      Value shifted = as(halves, either(pair, e.i32(0x64006400)));
      return arith::SubFOp::create(e.b, e.loc, shifted, e.splat(halves, 1024 + zero_code()));
    }
    return times(as(halves, either(moved(0x00070007, 9), moved(0x00080008, 12))), e.splat(halves, 0x1p15));
  }
  int32_t zero_code() const { return layout.group == 0 ? kSignedZero : layout.zero; }
  // The same as two f32.
  Values two_floats(Value word, int64_t first) const {
    Values floats;
    if (layout.table || is_f8()) {
      Value both = e.to_f32(two_halves(word, first));
      for (int64_t i = 0; i < 2; ++i)
        floats.push_back(vector::ExtractOp::create(e.b, e.loc, both, ArrayRef<int64_t>{i}));
      return floats;
    }
    for (int64_t i = first; i < first + 2; ++i) {
      Value moved = either(bits(word, 8 * i, 0xff), e.i32(0x4b000000));  // 2^23 + the code
      Value shifted = arith::BitcastOp::create(e.b, e.loc, e.f32(), moved);
      floats.push_back(arith::SubFOp::create(e.b, e.loc, shifted,
                                             e.constant_f32(0x1p23f + static_cast<float>(zero_code()))));
    }
    return floats;
  }
  // The same as elements of 16 bits, with a factor applied, in an i32. The upper half of an f32 is its bf16, if that is
  // exact.
  Value two_elements(Value word, int64_t first, Type element, const Factor& f) const {
    if (element.isF16())
      return as(e.b.getI32Type(),
                applied(two_halves(word, first), f, [&](Value f32) { return all_of_two(f32); }));
    Values words;
    for (Value x : two_floats(word, first))
      words.push_back(arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(),
                                               applied(x, f, [](Value f32) { return f32; })));
    return either(bits(words[0], 16, 0xffff),
                  arith::AndIOp::create(e.b, e.loc, words[1], e.i32(static_cast<int32_t>(0xffff0000u))));
  }
};

constexpr int32_t kInfinity = 0x7f800000;

// A group of codes as matrix instructions multiply them, and what their sums are multiplied by.
struct SplitScale {
  PieceReader::Factor codes;
  Value scale, minimum;  // minimum: null if the format has none
};

// Splits the scales of a piece. Where a scale, a minimum or a weight is not finite in f32, the codes become the weights
// themselves, so that sums of their products are what sums of weights would be.
struct ScaleSplitter {
  Emit& e;
  const PieceReader& reader;
  Type element;

  Value scalar(Value x) const { return vector::ExtractOp::create(e.b, e.loc, x, ArrayRef<int64_t>{0}); }
  Value f32(float x) const { return e.constant_f32(x); }
  Value select(Value condition, Value x, Value y) const { return reader.select(condition, x, y); }
  Value word(Value x) const { return arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), x); }
  Value is_below(Value x, int32_t bits) const {
    return e.less(arith::AndIOp::create(e.b, e.loc, word(x), e.i32(0x7fffffff)), e.i32(bits));
  }
  Value is_zero(Value x) const { return e.equal(reader.up1(word(x)), e.i32(0)); }

  SplitScale split(const Scale& s) const {
    Value scale = scalar(s.scale);
    const bool is_power =
        reader.layout.scales == BlockScales::kPower || reader.layout.scales == BlockScales::kApartPower;
    if (is_power) return of_power(scale);
    Value finite = is_below(scale, kInfinity);
    if (!s.minimum)
      return {{select(finite, f32(1), scale), nullptr, s.zero ? scalar(s.zero) : Value()},
              select(finite, scale, f32(1)),
              nullptr};
    return with_minimum(scale, scalar(s.minimum), finite);
  }
  // A large power of two times a code may overflow. That of f16 then does so at the same code.
  SplitScale of_power(Value scale) const {
    constexpr float kLarge = 0x1p112f;
    Value small = is_below(scale, 0x77800000);  // below kLarge
    const bool half = element.isF16();
    Value factor = half ? reader.times(scale, f32(1 / kLarge)) : scale;
    return {{select(small, f32(1), factor), nullptr}, select(small, scale, f32(half ? kLarge : 1)), nullptr};
  }
  // A weight is (2 code - center) * scale / 2 + rest. The center is twice the code whose weight is 0, if there is one,
  // and else the odd number between the codes where the sign of the weight changes. So the first term is 0 only if the
  // weight is, and has its sign. It alone gives the product by an infinity, and the terms cancel only in weights below
  // scale / 2.
  SplitScale with_minimum(Value scale, Value minimum, Value finite) const {
    constexpr float kRounding = 0x1.8p23f, kMostCode = 15;  // formats with minima have codes of 4 bits
    Value zero_at = arith::DivFOp::create(e.b, e.loc, arith::NegFOp::create(e.b, e.loc, minimum), scale);
    zero_at = arith::MinNumFOp::create(e.b, e.loc, arith::MaxNumFOp::create(e.b, e.loc, zero_at, f32(0)),
                                       f32(kMostCode));
    Value code = arith::SubFOp::create(e.b, e.loc, arith::AddFOp::create(e.b, e.loc, zero_at, f32(kRounding)),
                                       f32(kRounding));
    Value weight = e.fma(scale, code, minimum);
    Value signs = arith::XOrIOp::create(e.b, e.loc, word(weight), word(scale));
    Value is_same = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::sge, signs, e.i32(0));
    Value half = select(is_zero(weight), code,
                        arith::AddFOp::create(e.b, e.loc, code, select(is_same, f32(-0.5f), f32(0.5f))));
    Value rest = e.fma(scale, half, minimum), center = reader.times(half, f32(-2));
    // Without a scale all weights are the minimum.
    Value none = is_zero(scale), has_end = is_below(minimum, kInfinity);
    Value both = arith::AndIOp::create(e.b, e.loc, finite, has_end);
    SplitScale s;
    s.codes.factor = select(both, select(none, f32(0), f32(2)), select(finite, f32(1), scale));
    s.codes.added = select(both, select(none, f32(1), center), select(has_end, f32(-0.0f), minimum));
    s.scale = select(both, select(none, minimum, reader.times(scale, f32(0.5f))), f32(1));
    s.minimum = select(both, select(none, f32(0), rest), f32(0));
    return s;
  }
};

}  // namespace

int64_t alignment_of_rows(Alignment alignment) {
  return alignment == Alignment::k16 ? 16 : alignment == Alignment::kElement ? 2 : 1;
}

Values GpuPieces::load(const GpuBlockLine& line, Value k) const {
  GpuBlocks::Loads loads{alignment_, {}, false, 0};
  Value in = inside(k), byte = byte_of_block(e_, v_, line.byte, k);
  const ScalesOfBlock scales{places_, line.scales, e_.sub(k, in)};
  const PieceReader reader{{e_, 1, v_, block_layout(v_.blocks), &loads, &scales}};
  reader.code_words(byte, in);
  for (int64_t at = 0; at < kElements; at += scaled_) reader.scales_of(byte, e_.add(in, at));
  return loads.values;
}
GpuPieces::Decoded GpuPieces::decode(llvm::ArrayRef<Value> loaded, Value k) const {
  GpuBlocks::Loads loads{alignment_, Values(loaded), true, 0};
  const PieceReader reader{{e_, 1, v_, block_layout(v_.blocks), &loads}};
  Value in = inside(k);
  const Values words = reader.code_words(e_.idx(0), in);
  Decoded d;
  for (int64_t at = 0; at < kElements; at += scaled_) {
    const SplitScale s =
        ScaleSplitter{e_, reader, element_}.split(reader.scales_of(e_.idx(0), e_.add(in, at)));
    d.scales.push_back(s.scale);
    if (s.minimum) d.minima.push_back(s.minimum);
    for (int64_t i = at; i < at + scaled_; i += 2)
      d.words.push_back(reader.two_elements(words[static_cast<size_t>(i / 4)], i % 4, element_, s.codes));
  }
  return d;
}

}  // namespace lathe::emit
