// Floating-point arithmetic. f16 and bf16 are computed in double, precisely enough to round only once.
#include "tests/gpu/emulator/ptx/floating.h"

#include <cfenv>
#include <cmath>
#include <optional>

#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/scalar.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

// Flags of the general handlers.
enum : uint16_t { kFlush = 1, kSaturate = 2, kNanForm = 4, kRelu = 8, kXorSign = 16, kRoundingShift = 8 };

template <class T>
T canonical_nan() {
  return sizeof(T) == 4 ? from_bits<T>(0x7fffffff) : from_bits<T>(0x7fffffffffffffff);
}

// One operation on float or double. The operands are volatile, so that the compiler computes under the rounding mode
// that is set at run time.
template <class T>
T compute(FloatOp op, T a, T b, T c) {
  volatile T x = a, y = b, z = c;
  volatile T result = 0;
  switch (op) {
    case FloatOp::add: result = x + y; break;
    case FloatOp::sub: result = x - y; break;
    case FloatOp::mul: result = x * y; break;
    case FloatOp::div: result = x / y; break;
    case FloatOp::fma: result = std::fma(static_cast<T>(x), static_cast<T>(y), static_cast<T>(z)); break;
    case FloatOp::neg: result = -x; break;
    case FloatOp::abs: result = std::fabs(static_cast<T>(x)); break;
    case FloatOp::min:
    case FloatOp::max: break;
  }
  return result;
}

// min and max. A NaN operand is ignored unless .NaN is set; -0 is less than +0.
template <class T>
T extremum(bool maximum, bool nan_form, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    if (nan_form || (std::isnan(a) && std::isnan(b))) return canonical_nan<T>();
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == maximum ? b : a;
  return (a < b) == maximum ? b : a;
}

template <class T>
T general(uint16_t flags, FloatOp op, T a, T b, T c) {
  if constexpr (sizeof(T) == 4) {
    if ((flags & kFlush) != 0) a = flush(a), b = flush(b), c = flush(c);
  }
  static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int rounding = flags >> kRoundingShift;
  T result;
  if (op == FloatOp::min || op == FloatOp::max) {
    result = extremum(op == FloatOp::max, (flags & kNanForm) != 0, a, b);
  } else if (rounding == 0) {
    result = compute(op, a, b, c);
  } else {
    std::fesetround(kModes[rounding]);
    result = compute(op, a, b, c);
    std::fesetround(FE_TONEAREST);
  }
  if constexpr (sizeof(T) == 4) {
    if ((flags & kFlush) != 0) result = flush(result);
  }
  if ((flags & kSaturate) != 0) result = result > 0 ? std::min<T>(result, 1) : T{0};  // NaN becomes 0
  if ((flags & kRelu) != 0 && result < 0) result = 0;
  if (std::isnan(result) && op != FloatOp::neg && op != FloatOp::abs) result = canonical_nan<T>();
  return result;
}

template <class T, FloatOp kOp>
Step run_general(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(
      general<T>(i.flags, kOp, from_bits<T>(t.r[i.a]), from_bits<T>(t.r[i.b]), from_bits<T>(t.r[i.c])));
  return Step::next;
}

// f16 or bf16 arithmetic on one value.
uint16_t half(uint16_t flags, FloatOp op, FloatFormat format, uint16_t a, uint16_t b, uint16_t c) {
  const auto wide = [&](uint16_t bits) {
    const double value = widen(bits, format);
    return (flags & kFlush) != 0 && std::fabs(value) < 6.103515625e-05 ? std::copysign(0.0, value) : value;
  };
  if (op == FloatOp::neg) return a ^ 0x8000;
  if (op == FloatOp::abs) return a & 0x7fff;
  const double x = wide(a), y = wide(b);
  double value = 0;
  switch (op) {
    case FloatOp::add: value = add_round_to_odd(x, y); break;
    case FloatOp::sub: value = add_round_to_odd(x, -y); break;
    case FloatOp::mul: value = x * y; break;  // exact
    case FloatOp::fma: value = add_round_to_odd(x * y, wide(c)); break;
    case FloatOp::min:
    case FloatOp::max: value = extremum(op == FloatOp::max, (flags & kNanForm) != 0, x, y); break;
    default: break;
  }
  if ((flags & kSaturate) != 0) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if ((flags & kRelu) != 0 && value < 0) value = 0;
  uint16_t bits = static_cast<uint16_t>(narrow(value, format));
  if ((flags & kFlush) != 0 && (bits & 0x7fff) < 0x400) bits &= 0x8000;
  return bits;
}

template <FloatOp kOp, bool kBrain, bool kPair>
Step run_half(Thread& t, const Instruction& i) {
  const FloatFormat format = kBrain ? kBf16 : kF16;
  const uint64_t a = t.r[i.a], b = t.r[i.b], c = t.r[i.c];
  uint32_t result = half(i.flags, kOp, format, static_cast<uint16_t>(a), static_cast<uint16_t>(b),
                         static_cast<uint16_t>(c));
  if (kPair) {
    result |= static_cast<uint32_t>(half(i.flags, kOp, format, static_cast<uint16_t>(a >> 16),
                                         static_cast<uint16_t>(b >> 16), static_cast<uint16_t>(c >> 16)))
              << 16;
  }
  t.r[i.d] = result;
  return Step::next;
}

template <FloatOp kOp>
Step run_f32_pair(Thread& t, const Instruction& i) {
  uint64_t result = 0;
  for (int shift : {0, 32}) {
    result |=
        to_bits(general<float>(i.flags, kOp, from_bits<float>(t.r[i.a] >> shift),
                               from_bits<float>(t.r[i.b] >> shift), from_bits<float>(t.r[i.c] >> shift)))
        << shift;
  }
  t.r[i.d] = result;
  return Step::next;
}

// Fast handlers for the plain f32 forms, which dominate kernels.
template <FloatOp kOp>
Step run_f32(Thread& t, const Instruction& i) {
  const float a = from_bits<float>(t.r[i.a]), b = from_bits<float>(t.r[i.b]);
  float result = 0;
  if constexpr (kOp == FloatOp::add) result = a + b;
  if constexpr (kOp == FloatOp::sub) result = a - b;
  if constexpr (kOp == FloatOp::mul) result = a * b;
  if constexpr (kOp == FloatOp::fma) result = std::fma(a, b, from_bits<float>(t.r[i.c]));
  if (result != result) result = canonical_nan<float>();
  t.r[i.d] = to_bits(result);
  return Step::next;
}

template <FloatOp kOp>
Handler pick_general(Type type) {
  switch (type) {
    case Type::f32: return run_general<float, kOp>;
    case Type::f64: return run_general<double, kOp>;
    case Type::f16: return run_half<kOp, false, false>;
    case Type::f16x2: return run_half<kOp, false, true>;
    case Type::bf16: return run_half<kOp, true, false>;
    case Type::bf16x2: return run_half<kOp, true, true>;
    case Type::f32x2: return run_f32_pair<kOp>;
    default: return nullptr;
  }
}

Handler pick_float(FloatOp op, Type type, uint16_t flags) {
  if (type == Type::f32 && flags == 0) {
    switch (op) {
      case FloatOp::add: return run_f32<FloatOp::add>;
      case FloatOp::sub: return run_f32<FloatOp::sub>;
      case FloatOp::mul: return run_f32<FloatOp::mul>;
      case FloatOp::fma: return run_f32<FloatOp::fma>;
      default: break;
    }
  }
  switch (op) {
    case FloatOp::add: return pick_general<FloatOp::add>(type);
    case FloatOp::sub: return pick_general<FloatOp::sub>(type);
    case FloatOp::mul: return pick_general<FloatOp::mul>(type);
    case FloatOp::div:
      return type == Type::f32 || type == Type::f64 ? pick_general<FloatOp::div>(type) : nullptr;
    case FloatOp::min: return pick_general<FloatOp::min>(type);
    case FloatOp::max: return pick_general<FloatOp::max>(type);
    case FloatOp::abs: return pick_general<FloatOp::abs>(type);
    case FloatOp::neg: return pick_general<FloatOp::neg>(type);
    case FloatOp::fma: return pick_general<FloatOp::fma>(type);
  }
  return nullptr;
}

// f32 arithmetic whose first operand (for fma also the second) is f16 or bf16: sm_100 and later.
template <FloatOp kOp, bool kBrain>
Step run_mixed(Thread& t, const Instruction& i) {
  const auto wide = [&](uint32_t slot) {
    return static_cast<float>(widen(static_cast<uint32_t>(t.r[slot] & 0xffff), kBrain ? kBf16 : kF16));
  };
  const float a = wide(i.a), b = kOp == FloatOp::fma ? wide(i.b) : from_bits<float>(t.r[i.b]);
  t.r[i.d] = to_bits(general<float>(i.flags, kOp, a, b, from_bits<float>(t.r[i.c])));
  return Step::next;
}

template <FloatOp kOp>
Handler pick_mixed(Type narrow) {
  return narrow == Type::f16 ? run_mixed<kOp, false> : narrow == Type::bf16 ? run_mixed<kOp, true> : nullptr;
}

// The type of the narrow operands, if a second type follows f32.
std::optional<Type> take_narrow_type(Decoder& d, Type type) {
  return type == Type::f32 ? d.take_optional_type() : std::nullopt;
}

uint16_t take_flags(Decoder& d) {
  const int rounding = d.take_one_of({"rn", "rz", "rm", "rp"});
  d.take_one_of({"approx", "full"});
  return static_cast<uint16_t>((d.take("ftz") ? kFlush : 0) | (d.take("sat") ? kSaturate : 0) |
                               (d.take("NaN") ? kNanForm : 0) | (d.take("relu") ? kRelu : 0) |
                               (rounding > 0 ? rounding << kRoundingShift : 0));
}

}  // namespace

float flush(float value) { return std::fabs(value) < 1.17549435e-38f ? std::copysign(0.0f, value) : value; }

void decode_float_unary(Decoder& d, FloatOp op, Type type) {
  d.out().flags = take_flags(d);
  d.unary(pick_float(op, type, d.out().flags), type);
}
void decode_float_binary(Decoder& d, FloatOp op, Type type) {
  d.out().flags = take_flags(d);
  const auto narrow = take_narrow_type(d, type);
  if (!narrow) return d.binary(pick_float(op, type, d.out().flags), type);
  d.expect_operands(3);
  d.out().d = d.destination(0);
  d.out().a = d.source(1, *narrow);
  d.out().b = d.source(2, type);
  d.run(op == FloatOp::add   ? pick_mixed<FloatOp::add>(*narrow)
        : op == FloatOp::sub ? pick_mixed<FloatOp::sub>(*narrow)
                             : nullptr);
}
void decode_float_ternary(Decoder& d, Type type) {
  d.out().flags = take_flags(d);
  const auto narrow = take_narrow_type(d, type);
  if (!narrow) return d.ternary(pick_float(FloatOp::fma, type, d.out().flags), type);
  d.expect_operands(4);
  d.out().d = d.destination(0);
  d.out().a = d.source(1, *narrow);
  d.out().b = d.source(2, *narrow);
  d.out().c = d.source(3, type);
  d.run(pick_mixed<FloatOp::fma>(*narrow));
}
void decode_fma(Decoder& d) { decode_float_ternary(d, d.take_type()); }

namespace {

// Elementary functions. The approximate forms are computed to full f32 precision, more precisely than the hardware.
template <class F>
Step run_function(Thread& t, const Instruction& i) {
  float a = from_bits<float>(t.r[i.a]);
  if ((i.flags & kFlush) != 0) a = flush(a);
  float result = static_cast<float>(F()(static_cast<double>(a)));
  if ((i.flags & kFlush) != 0) result = flush(result);
  t.r[i.d] = to_bits(result);
  return Step::next;
}
template <class F>
Step run_function64(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(F()(from_bits<double>(t.r[i.a])));
  return Step::next;
}
template <class F, bool kBrain, bool kPair>
Step run_function_half(Thread& t, const Instruction& i) {
  const FloatFormat format = kBrain ? kBf16 : kF16;
  const auto one = [&](uint64_t bits) {
    return narrow(F()(widen(static_cast<uint16_t>(bits), format)), format);
  };
  t.r[i.d] = one(t.r[i.a]) | (kPair ? one(t.r[i.a] >> 16) << 16 : 0);
  return Step::next;
}

struct Sqrt {
  double operator()(double x) const { return std::sqrt(x); }
};
struct Rsqrt {
  double operator()(double x) const { return 1.0 / std::sqrt(x); }
};
struct Rcp {
  double operator()(double x) const { return 1.0 / x; }
};
struct Sin {
  double operator()(double x) const { return std::sin(x); }
};
struct Cos {
  double operator()(double x) const { return std::cos(x); }
};
struct Log2 {
  double operator()(double x) const { return std::log2(x); }
};
struct Exp2 {
  double operator()(double x) const { return std::exp2(x); }
};
struct Tanh {
  double operator()(double x) const { return std::tanh(x); }
};

template <class F>
void decode_function(Decoder& d) {
  const Type type = d.take_type();
  d.out().flags = take_flags(d);
  if (d.out().flags > kFlush) return d.fail("only rounding to nearest is supported");
  switch (type) {
    case Type::f32: return d.unary(run_function<F>, type);
    case Type::f64: return d.unary(run_function64<F>, type);
    case Type::f16: return d.unary(run_function_half<F, false, false>, type);
    case Type::f16x2: return d.unary(run_function_half<F, false, true>, type);
    case Type::bf16: return d.unary(run_function_half<F, true, false>, type);
    case Type::bf16x2: return d.unary(run_function_half<F, true, true>, type);
    default: return d.fail("this type is not supported");
  }
}

template <class T>
Step copy_sign(Thread& t, const Instruction& i) {  // the sign of a, the magnitude of b
  t.r[i.d] = to_bits(std::copysign(from_bits<T>(t.r[i.b]), from_bits<T>(t.r[i.a])));
  return Step::next;
}

// testp. flags: the index of the property.
template <class T>
Step test_property(Thread& t, const Instruction& i) {
  const T a = from_bits<T>(t.r[i.a]);
  const int kind = std::fpclassify(a);
  const bool results[] = {
      kind != FP_NAN && kind != FP_INFINITE, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
      kind == FP_NORMAL || kind == FP_ZERO,  kind == FP_SUBNORMAL};
  t.r[i.d] = results[i.flags];
  return Step::next;
}

}  // namespace

void decode_sqrt(Decoder& d) { decode_function<Sqrt>(d); }
void decode_rsqrt(Decoder& d) { decode_function<Rsqrt>(d); }
void decode_rcp(Decoder& d) { decode_function<Rcp>(d); }
void decode_sin(Decoder& d) { decode_function<Sin>(d); }
void decode_cos(Decoder& d) { decode_function<Cos>(d); }
void decode_lg2(Decoder& d) { decode_function<Log2>(d); }
void decode_ex2(Decoder& d) { decode_function<Exp2>(d); }
void decode_tanh(Decoder& d) { decode_function<Tanh>(d); }
void decode_copysign(Decoder& d) {
  const Type type = d.take_type();
  d.binary(type == Type::f64 ? copy_sign<double> : copy_sign<float>, type);
}
void decode_testp(Decoder& d) {
  const int property = d.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = d.take_type();
  if (property < 0) return d.fail("the property to test is missing");
  d.unary(type == Type::f64 ? test_property<double> : test_property<float>, type);
  d.out().flags = static_cast<uint16_t>(property);
}

}  // namespace lathe::ptx
