// cvt: between integers, floats, and packed narrow formats.
#include <cmath>
#include <limits>

#include "tests/gpu/emulator/ptx/floating.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/scalar.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

// Instruction::flags of cvt.
enum : uint16_t { kSaturate = 1, kFlush = 2, kRelu = 4, kFinite = 8 };
// imm: source type | target type << 8 | rounding << 16 | rounding to integers << 24 (0 none, else 1 + the index in
// rni, rzi, rmi, rpi).
int64_t describe(Type from, Type to, int rounding, int integer_rounding) {
  return static_cast<int64_t>(from) | static_cast<int64_t>(to) << 8 | static_cast<int64_t>(rounding) << 16 |
         static_cast<int64_t>(integer_rounding) << 24;
}
Type from_type(const Instruction& i) { return static_cast<Type>(i.imm & 0xff); }
Type to_type(const Instruction& i) { return static_cast<Type>((i.imm >> 8) & 0xff); }
Rounding rounding_of(const Instruction& i) { return static_cast<Rounding>((i.imm >> 16) & 0xff); }

FloatFormat format_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2: return kF16;
    case Type::bf16:
    case Type::bf16x2: return kBf16;
    case Type::e4m3:
    case Type::e4m3x2: return kE4m3;
    default: return kE5m2;
  }
}

template <class From, class To>
Step integer_to_integer(Thread& t, const Instruction& i) {
  // A result narrower than its register is sign- or zero-extended to 32 bits.
  using Register =
      std::conditional_t<(sizeof(To) < 4), std::conditional_t<std::is_signed_v<To>, int32_t, uint32_t>, To>;
  t.r[i.d] = to_bits(static_cast<Register>(static_cast<To>(from_bits<From>(t.r[i.a]))));
  return Step::next;
}

__int128 read_integer(Type type, uint64_t bits) {
  switch (type) {
    case Type::s8: return from_bits<int8_t>(bits);
    case Type::s16: return from_bits<int16_t>(bits);
    case Type::s32: return from_bits<int32_t>(bits);
    case Type::s64: return from_bits<int64_t>(bits);
    case Type::u8: return from_bits<uint8_t>(bits);
    case Type::u16: return from_bits<uint16_t>(bits);
    case Type::u32: return from_bits<uint32_t>(bits);
    default: return bits;
  }
}

struct Limits {
  __int128 low, high;
};
Limits limits_of(Type type) {
  const int bits = 8 * static_cast<int>(type_size(type));
  const __int128 one = 1;
  return is_signed(type) ? Limits{-(one << (bits - 1)), (one << (bits - 1)) - 1}
                         : Limits{0, (one << bits) - 1};
}

uint64_t write_integer(Type type, __int128 value) {
  const uint64_t mask = ~uint64_t{0} >> (64 - 8 * type_size(type));
  // A signed result narrower than its register is sign-extended to 32 bits.
  const uint64_t wide = is_signed(type) && type_size(type) < 4 ? 0xffffffff : mask;
  return static_cast<uint64_t>(value) & wide;
}

Step integer_saturated(Thread& t, const Instruction& i) {
  const Limits limits = limits_of(to_type(i));
  t.r[i.d] = write_integer(to_type(i),
                           std::min(std::max(read_integer(from_type(i), t.r[i.a]), limits.low), limits.high));
  return Step::next;
}

double read_float(Type type, uint64_t bits) {
  switch (type) {
    case Type::f16: return f16_to_float(static_cast<uint16_t>(bits));
    case Type::bf16: return bf16_to_float(static_cast<uint16_t>(bits));
    case Type::f32: return from_bits<float>(bits);
    default: return from_bits<double>(bits);
  }
}

double to_whole(double value, int mode) {
  switch (mode) {
    case 1: return std::nearbyint(value);
    case 2: return std::trunc(value);
    case 3: return std::floor(value);
    case 4: return std::ceil(value);
    default: return value;
  }
}

// Rounds a double to f32 in the given direction.
float narrow_to_float(double value, Rounding rounding) {
  float result = static_cast<float>(value);
  if (rounding == Rounding::nearest_even || std::isnan(value) || std::isinf(value)) return result;
  const double back = result;
  const bool away = std::fabs(back) > std::fabs(value);
  if (rounding == Rounding::zero && away) result = std::nextafter(result, 0.0f);
  if (rounding == Rounding::down && back > value) result = std::nextafter(result, -HUGE_VALF);
  if (rounding == Rounding::up && back < value) result = std::nextafter(result, HUGE_VALF);
  return result;
}

uint64_t write_float(Type type, double value, Rounding rounding, uint16_t flags) {
  if ((flags & kSaturate) != 0) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if ((flags & kRelu) != 0 && value < 0) value = 0;
  switch (type) {
    case Type::f32: {
      float result = narrow_to_float(value, rounding);
      if ((flags & kFlush) != 0) result = flush(result);
      return std::isnan(result) ? 0x7fffffff : to_bits(result);
    }
    case Type::f64: return to_bits(value);
    case Type::tf32: {
      if (std::isnan(value)) return 0x7fffffff;
      // tf32 keeps 10 of the 23 mantissa bits of an f32.
      uint32_t bits = from_bits<uint32_t>(to_bits(static_cast<float>(value)));
      if ((bits & 0x7f800000) == 0x7f800000) return bits;
      const uint32_t even = (bits >> 13) & 1;
      bits += rounding == Rounding::nearest_away ? 0x1000 : rounding == Rounding::zero ? 0 : 0xfff + even;
      return bits & ~0x1fffu;
    }
    default: return narrow(value, format_of(type), rounding, (flags & kFinite) != 0);
  }
}

Step float_to_float(Thread& t, const Instruction& i) {
  double value = read_float(from_type(i), t.r[i.a]);
  if ((i.flags & kFlush) != 0 && from_type(i) == Type::f32) value = flush(static_cast<float>(value));
  value = to_whole(value, static_cast<int>(i.imm >> 24));
  t.r[i.d] = write_float(to_type(i), value, rounding_of(i), i.flags);
  return Step::next;
}
Step half_to_f32(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(f16_to_float(static_cast<uint16_t>(t.r[i.a])));
  return Step::next;
}
Step brain_to_f32(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(bf16_to_float(static_cast<uint16_t>(t.r[i.a])));
  return Step::next;
}

Step float_to_integer(Thread& t, const Instruction& i) {
  double value = read_float(from_type(i), t.r[i.a]);
  if ((i.flags & kFlush) != 0 && from_type(i) == Type::f32) value = flush(static_cast<float>(value));
  const Type to = to_type(i);
  const Limits limits = limits_of(to);
  __int128 result;
  if (std::isnan(value)) {
    // Like the hardware: NaN gives 0 for f32 to 32 bits or fewer, else the "integer indefinite" value.
    result = type_size(to) == 8 || from_type(i) == Type::f64
                 ? (is_signed(to) ? limits.low : __int128{1} << (8 * type_size(to) - 1))
                 : 0;
  } else {
    value = to_whole(value, static_cast<int>(i.imm >> 24));
    result = value <= static_cast<double>(limits.low)    ? limits.low
             : value >= static_cast<double>(limits.high) ? limits.high
                                                         : static_cast<__int128>(value);
  }
  t.r[i.d] = write_integer(to, result);
  return Step::next;
}

Step integer_to_float(Thread& t, const Instruction& i) {
  const __int128 value = read_integer(from_type(i), t.r[i.a]);
  const Rounding rounding = rounding_of(i);
  // A 64-bit integer may be inexact as a double. Round to odd first, so that the second rounding is correct.
  double wide = static_cast<double>(value);
  if (static_cast<__int128>(wide) != value) {
    const __int128 rest = value - static_cast<__int128>(wide);
    wide = to_type(i) == Type::f64 ? wide : add_round_to_odd(wide, static_cast<double>(rest));
  }
  t.r[i.d] = write_float(to_type(i), wide, rounding, i.flags);
  return Step::next;
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. The same for pairs of 8-bit floats.
Step floats_to_pair(Thread& t, const Instruction& i) {
  const int width = to_type(i) == Type::e4m3x2 || to_type(i) == Type::e5m2x2 ? 8 : 16;
  const auto one = [&](uint64_t bits) {
    return write_float(to_type(i), from_bits<float>(bits), rounding_of(i), i.flags);
  };
  t.r[i.d] = one(t.r[i.b]) | one(t.r[i.a]) << width;
  return Step::next;
}
// Converts one packed pair to another.
Step pair_to_pair(Thread& t, const Instruction& i) {
  const int from_width = 4 * type_size(from_type(i)), to_width = 4 * type_size(to_type(i));
  uint64_t result = 0;
  for (int n = 0; n < 2; ++n) {
    const double value =
        widen(static_cast<uint32_t>((t.r[i.a] >> (n * from_width)) & ((1u << from_width) - 1)),
              format_of(from_type(i)));
    result |= write_float(to_type(i), value, rounding_of(i), i.flags) << (n * to_width);
  }
  t.r[i.d] = result;
  return Step::next;
}

template <class From>
Handler pick_to(Type to) {
  switch (to) {
    case Type::u8: return integer_to_integer<From, uint8_t>;
    case Type::s8: return integer_to_integer<From, int8_t>;
    case Type::u16: return integer_to_integer<From, uint16_t>;
    case Type::s16: return integer_to_integer<From, int16_t>;
    case Type::u32: return integer_to_integer<From, uint32_t>;
    case Type::s32: return integer_to_integer<From, int32_t>;
    case Type::u64: return integer_to_integer<From, uint64_t>;
    case Type::s64: return integer_to_integer<From, int64_t>;
    default: return nullptr;
  }
}
Handler pick_integer(Type from, Type to) {
  switch (from) {
    case Type::u8: return pick_to<uint8_t>(to);
    case Type::s8: return pick_to<int8_t>(to);
    case Type::u16: return pick_to<uint16_t>(to);
    case Type::s16: return pick_to<int16_t>(to);
    case Type::u32: return pick_to<uint32_t>(to);
    case Type::s32: return pick_to<int32_t>(to);
    case Type::u64: return pick_to<uint64_t>(to);
    case Type::s64: return pick_to<int64_t>(to);
    default: return nullptr;
  }
}

bool is_pair(Type t) {
  return t == Type::f16x2 || t == Type::bf16x2 || t == Type::e4m3x2 || t == Type::e5m2x2;
}

}  // namespace

void decode_cvt(Decoder& d) {
  const int whole = d.take_one_of({"rni", "rzi", "rmi", "rpi"}) + 1;
  const int rounding = d.take_one_of({"rn", "rz", "rm", "rp", "rna"});
  const bool sat = d.take("sat");
  d.out().flags = static_cast<uint16_t>((sat ? kSaturate : 0) | (d.take("ftz") ? kFlush : 0) |
                                        (d.take("relu") ? kRelu : 0) | (d.take("satfinite") ? kFinite : 0));
  const Type to = d.take_type(), from = d.take_type();
  const bool from_float = is_float(from), to_float = is_float(to);
  d.out().imm = describe(from, to, std::max(rounding, 0), whole);
  if (is_pair(to) && from == Type::f32) return d.binary(floats_to_pair, from);
  if (is_pair(to) && is_pair(from)) return d.unary(pair_to_pair, from);
  if (is_pair(to) || is_pair(from)) return d.fail("this conversion is not supported");
  if (!from_float && !to_float) return d.unary(sat ? integer_saturated : pick_integer(from, to), from);
  if (from_float && !to_float) {
    if (whole == 0) return d.fail("a rounding mode to integers is missing (.rni, .rzi, .rmi or .rpi)");
    return d.unary(float_to_integer, from);
  }
  if (!from_float) return d.unary(integer_to_float, from);
  if (type_size(to) < type_size(from) && rounding < 0) return d.fail("a rounding mode is missing");
  const bool plain = d.out().flags == 0 && to == Type::f32 && whole == 0;
  d.unary(plain && from == Type::f16    ? half_to_f32
          : plain && from == Type::bf16 ? brain_to_f32
                                        : float_to_float,
          from);
}

}  // namespace lathe::ptx
