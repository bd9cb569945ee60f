// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, dp4a, carries, bit counts.
#include <algorithm>

#include "tests/gpu/emulator/ptx/floating.h"
#include "tests/gpu/emulator/ptx/scalar.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
// The type of twice the width, for products.
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct AddSaturated {
  template <class T>
  T operator()(T a, T b) const {
    const int64_t sum = static_cast<int64_t>(a) + static_cast<int64_t>(b);
    return static_cast<T>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct SubSaturated {
  template <class T>
  T operator()(T a, T b) const {
    const int64_t sum = static_cast<int64_t>(a) - static_cast<int64_t>(b);
    return static_cast<T>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct MulLow {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHigh {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <class T>
  auto operator()(T a, T b) const {
    return static_cast<std::conditional_t<sizeof(T) == 8, T, Wide<T>>>(static_cast<Wide<T>>(a) *
                                                                       static_cast<Wide<T>>(b));
  }
};
struct MadLow {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(MulLow()(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(MulHigh()(a, b), c);
  }
};
// Division by zero gives all ones, and the remainder is the dividend, as on the hardware.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub()(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Abs {
  template <class T>
  T operator()(T a) const {
    return a < T{0} ? Sub()(T{0}, a) : a;
  }
};
struct Neg {
  template <class T>
  T operator()(T a) const {
    return Sub()(T{0}, a);
  }
};
struct Sad {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(a < b ? Sub()(b, a) : Sub()(a, b), c);
  }
};
struct PopCount {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(__builtin_popcountll(static_cast<Unsigned<T>>(a)));
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return a == 0
               ? 8 * sizeof(T)
               : static_cast<uint32_t>(__builtin_clzll(static_cast<Unsigned<T>>(a))) - (64 - 8 * sizeof(T));
  }
};

// mad.wide: the addend is twice as wide as the factors.
template <class T>
Step mad_wide(Thread& t, const Instruction& i) {
  using W = Wide<T>;
  const W product = static_cast<W>(from_bits<T>(t.r[i.a])) * static_cast<W>(from_bits<T>(t.r[i.b]));
  t.r[i.d] = to_bits(Add()(product, from_bits<W>(t.r[i.c])));
  return Step::next;
}

// The most significant bit that differs from the sign bit. flags 1: as a shift amount.
template <class T>
Step find_bit(Thread& t, const Instruction& i) {
  T a = from_bits<T>(t.r[i.a]);
  if (std::is_signed_v<T> && a < T{0}) a = static_cast<T>(~a);
  const uint32_t zeros = LeadingZeros()(a), width = 8 * sizeof(T);
  t.r[i.d] = a == 0 ? 0xffffffffu : i.flags != 0 ? zeros : width - 1 - zeros;
  return Step::next;
}

// d = c + the sum of four byte products. flags: 1 a is signed, 2 b is signed.
Step dot4(Thread& t, const Instruction& i) {
  uint32_t sum = static_cast<uint32_t>(t.r[i.c]);
  for (int byte = 0; byte < 4; ++byte) {
    const uint8_t a = static_cast<uint8_t>(t.r[i.a] >> (8 * byte)),
                  b = static_cast<uint8_t>(t.r[i.b] >> (8 * byte));
    const int32_t x = (i.flags & 1) != 0 ? static_cast<int8_t>(a) : a,
                  y = (i.flags & 2) != 0 ? static_cast<int8_t>(b) : b;
    sum += static_cast<uint32_t>(x * y);
  }
  t.r[i.d] = sum;
  return Step::next;
}

// flags: 1 reads the carry, 2 writes it, 4 subtracts. c: the carry's slot when read; imm: when written.
template <class T>
Step add_with_carry(Thread& t, const Instruction& i) {
  const uint64_t carry = (i.flags & 1) != 0 ? t.r[i.c] & 1 : 0;
  unsigned __int128 sum;
  const unsigned __int128 a = from_bits<T>(t.r[i.a]), b = from_bits<T>(t.r[i.b]);
  if ((i.flags & 4) != 0) {
    sum = a - b - carry;
  } else {
    sum = a + b + carry;
  }
  t.r[i.d] = static_cast<T>(sum);
  if ((i.flags & 2) != 0) t.r[i.c] = static_cast<uint64_t>(sum >> (8 * sizeof(T))) & 1;
  return Step::next;
}

bool decode_carry(Decoder& d, bool reads, bool subtracts) {
  const bool writes = d.take("cc");
  if (!reads && !writes) return false;
  const Type type = d.take_type();
  d.binary(type_size(type) == 8 ? add_with_carry<uint64_t> : add_with_carry<uint32_t>, type);
  KernelBuilder& builder = d.builder();
  if (builder.carry == 0) builder.carry = builder.new_register();
  d.out().c = builder.carry;
  d.out().flags = static_cast<uint16_t>((reads ? 1 : 0) | (writes ? 2 : 0) | (subtracts ? 4 : 0));
  return true;
}

}  // namespace

void decode_add(Decoder& d) {
  if (decode_carry(d, false, false)) return;
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::add, type);
  d.binary(d.take("sat") ? run_binary<int32_t, AddSaturated> : pick_binary<Add>(type), type);
}
void decode_addc(Decoder& d) { decode_carry(d, true, false); }
void decode_sub(Decoder& d) {
  if (decode_carry(d, false, true)) return;
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::sub, type);
  d.binary(d.take("sat") ? run_binary<int32_t, SubSaturated> : pick_binary<Sub>(type), type);
}
void decode_subc(Decoder& d) { decode_carry(d, true, true); }

void decode_mul(Decoder& d) {
  const int half = d.take_one_of({"lo", "hi", "wide"});
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::mul, type);
  d.binary(half == 1   ? pick_binary<MulHigh>(type)
           : half == 2 ? pick_binary<MulWide>(type)
                       : pick_binary<MulLow>(type),
           type);
}

void decode_mad(Decoder& d) {
  const int half = d.take_one_of({"lo", "hi", "wide"});
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_ternary(d, type);
  if (half != 2) return d.ternary(half == 1 ? pick_ternary<MadHigh>(type) : pick_ternary<MadLow>(type), type);
  d.ternary(type == Type::s32   ? mad_wide<int32_t>
            : type == Type::u32 ? mad_wide<uint32_t>
            : type == Type::s16 ? mad_wide<int16_t>
            : type == Type::u16 ? mad_wide<uint16_t>
                                : nullptr,
            type);
}

void decode_div(Decoder& d) {
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::div, type);
  d.binary(pick_binary<Div>(type), type);
}
void decode_rem(Decoder& d) {
  const Type type = d.take_type();
  d.binary(pick_binary<Rem>(type), type);
}
void decode_min(Decoder& d) {
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::min, type);
  d.binary(pick_binary<Min>(type), type);
}
void decode_max(Decoder& d) {
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_binary(d, FloatOp::max, type);
  d.binary(pick_binary<Max>(type), type);
}
void decode_abs(Decoder& d) {
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_unary(d, FloatOp::abs, type);
  d.unary(pick_unary<Abs>(type), type);
}
void decode_neg(Decoder& d) {
  const Type type = d.take_type();
  if (is_floating(type)) return decode_float_unary(d, FloatOp::neg, type);
  d.unary(pick_unary<Neg>(type), type);
}
void decode_sad(Decoder& d) {
  const Type type = d.take_type();
  d.ternary(pick_ternary<Sad>(type), type);
}
void decode_popc(Decoder& d) {
  const Type type = d.take_type();
  d.unary(pick_unary<PopCount>(type), type);
}
void decode_clz(Decoder& d) {
  const Type type = d.take_type();
  d.unary(pick_unary<LeadingZeros>(type), type);
}
void decode_bfind(Decoder& d) {
  d.out().flags = d.take("shiftamt") ? 1 : 0;
  const Type type = d.take_type();
  d.unary(type == Type::u32   ? find_bit<uint32_t>
          : type == Type::s32 ? find_bit<int32_t>
          : type == Type::u64 ? find_bit<uint64_t>
          : type == Type::s64 ? find_bit<int64_t>
                              : nullptr,
          type);
}
void decode_dp4a(Decoder& d) {
  const Type a = d.take_type(), b = d.take_type();
  d.ternary(dot4, Type::b32);
  d.out().flags = static_cast<uint16_t>((a == Type::s32 ? 1 : 0) | (b == Type::s32 ? 2 : 0));
}

}  // namespace lathe::ptx
