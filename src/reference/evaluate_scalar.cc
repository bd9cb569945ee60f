#include "reference/evaluate_scalar.h"

#include <algorithm>
#include <cmath>

namespace lathe::reference {
namespace {

// Half a unit in f32's last place, relative.
constexpr double kUnit = 0x1p-24;

enum Code {
  kAddF,
  kSubF,
  kMulF,
  kDivF,
  kNegF,
  kMaximumF,
  kMinimumF,
  kMaxNumF,
  kMinNumF,
  kAddI,
  kSubI,
  kMulI,
  kAndI,
  kOrI,
  kMaxSI,
  kMinSI,
  kExtF,
  kTruncF,
  kExtSI,
  kExtUI,
  kTruncI,
  kSIToFP,
  kIndexCast,
  kSelect,
  kCmpF,
  kCmpI,
  kExp,
  kErf,
  kTanh,
  kAbsF,
  kSqrt
};
constexpr const char* kNames[] = {
    "arith.addf",     "arith.subf",    "arith.mulf",    "arith.divf",   "arith.negf",       "arith.maximumf",
    "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.addi",   "arith.subi",       "arith.muli",
    "arith.andi",     "arith.ori",     "arith.maxsi",   "arith.minsi",  "arith.extf",       "arith.truncf",
    "arith.extsi",    "arith.extui",   "arith.trunci",  "arith.sitofp", "arith.index_cast", "arith.select",
    "arith.cmpf",     "arith.cmpi",    "math.exp",      "math.erf",     "math.tanh",        "math.absf",
    "math.sqrt"};

// The error of rounding a result. Epilogues compute in f32 even where the text has another type, but elementwise
// kernels round to the type of the text.
double rounding(const Scalar& op, double v) {
  return op.unit * std::fabs(v) + (op.unit > kUnit ? 0x1p-24 : 0);
}
Number rounded(const Scalar& op, double v, double slack) { return {v, slack + rounding(op, v), 0}; }

double slack_of_product(double a, double a_slack, double b, double b_slack) {
  return a * b_slack + b * a_slack + a_slack * b_slack;
}

double fabs_of(int64_t i) { return std::fabs(static_cast<double>(i)); }

// Applies a function. Its slack comes from the function's values at both ends of the argument's range.
template <typename F>
Number smooth(const Scalar& op, const Number& a, F f) {
  const double v = f(a.v);
  const double spread =
      a.slack == 0 ? 0 : std::max(std::fabs(f(a.v + a.slack) - v), std::fabs(f(a.v - a.slack) - v));
  return {v, spread + 16 * kUnit * std::fabs(v) + rounding(op, v), 0};
}

// Half a unit in the last place of f16 and bf16; f32's for all other types. Nothing computes in 8-bit floats.
double unit_of(const std::string& type) { return type == "f16" ? 0x1p-11 : type == "bf16" ? 0x1p-8 : kUnit; }

bool is_float_type(const std::string& type) { return !type.empty() && (type[0] == 'f' || type[0] == 'b'); }
int bits_of(const std::string& type) {
  return type.size() > 1 && type[0] == 'i' && type != "index" ? std::stoi(type.substr(1)) : 64;
}
int64_t wrapped(uint64_t x, int bits) {
  if (bits >= 64) return static_cast<int64_t>(x);
  const uint64_t sign = uint64_t{1} << (bits - 1), mask = (uint64_t{1} << bits) - 1;
  return static_cast<int64_t>(((x & mask) ^ sign) - sign);
}

// The possible outcomes of a comparison. A predicate is a set of them.
enum Outcome { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8, kUnsigned = 16 };
struct Predicate {
  const char* name;
  int outcomes;
};
constexpr Predicate kOfFloats[] = {{"false", 0},
                                   {"oeq", kEqual},
                                   {"ogt", kGreater},
                                   {"oge", kGreater | kEqual},
                                   {"olt", kLess},
                                   {"ole", kLess | kEqual},
                                   {"one", kLess | kGreater},
                                   {"ord", kLess | kEqual | kGreater},
                                   {"ueq", kUnordered | kEqual},
                                   {"ugt", kUnordered | kGreater},
                                   {"uge", kUnordered | kGreater | kEqual},
                                   {"ult", kUnordered | kLess},
                                   {"ule", kUnordered | kLess | kEqual},
                                   {"une", kUnordered | kLess | kGreater},
                                   {"uno", kUnordered},
                                   {"true", kUnordered | kLess | kEqual | kGreater}};
constexpr Predicate kOfIntegers[] = {{"eq", kEqual},
                                     {"ne", kLess | kGreater},
                                     {"slt", kLess},
                                     {"sle", kLess | kEqual},
                                     {"sgt", kGreater},
                                     {"sge", kGreater | kEqual},
                                     {"ult", kUnsigned | kLess},
                                     {"ule", kUnsigned | kLess | kEqual},
                                     {"ugt", kUnsigned | kGreater},
                                     {"uge", kUnsigned | kGreater | kEqual}};
template <size_t kCount>
int outcomes_of(const Predicate (&predicates)[kCount], const std::string& name) {
  for (const Predicate& p : predicates)
    if (name == p.name) return p.outcomes;
  return 0;
}
template <typename T>
int outcome(T a, T b) {
  return a < b ? kLess : a == b ? kEqual : a > b ? kGreater : kUnordered;
}
bool holds(const Scalar& op, int64_t a, int64_t b) {
  // Unsigned comparisons may use sign-extended numbers, because sign extension keeps their order.
  const int is =
      op.outcomes & kUnsigned ? outcome(static_cast<uint64_t>(a), static_cast<uint64_t>(b)) : outcome(a, b);
  return (op.outcomes & is) != 0;
}
Number condition(bool holds, bool close) { return {0, close ? 1.0 : 0.0, holds ? -1 : 0}; }
Number compare_integers(const Scalar& op, const Number& a, const Number& b) {
  const double slack = a.slack + b.slack;
  const bool close = slack > 0 && (op.outcomes & kUnsigned || distance(a.i, b.i) <= slack);
  return condition(holds(op, a.i, b.i), close);
}

Number greatest(int code, const Number& a, const Number& b) {
  const bool least = code == kMinimumF || code == kMinNumF,
             keeps_nan = code == kMaximumF || code == kMinimumF;
  const double slack = std::max(a.slack, b.slack);
  if (std::isnan(a.v) || std::isnan(b.v))
    return {keeps_nan ? std::nan("") : std::isnan(a.v) ? b.v : a.v, slack, 0};
  return {least ? std::min(a.v, b.v) : std::max(a.v, b.v), slack, 0};
}

Number chosen(const Scalar& op, const Number& condition, const Number& yes, const Number& no) {
  Number n = condition.i ? yes : no;
  if (condition.slack == 0) return n;
  n.slack = std::max(yes.slack, no.slack);
  if (!op.is_float) n.slack += distance(yes.i, no.i);
  if (op.is_float && std::isfinite(yes.v - no.v)) n.slack += std::fabs(yes.v - no.v);
  return n;
}

// Makes an integer with an error of up to `slack`. If the error can make it wrap around, the slack covers all values.
Number integer(const Scalar& op, uint64_t x, double slack) {
  const int64_t i = wrapped(x, op.bits);
  const double end = std::ldexp(0.5, op.bits);
  const auto v = static_cast<double>(i);
  const bool wraps = slack > 0 && (v - slack < -end || v + slack >= end);
  return {0, wraps ? 2 * end - 1 : slack, i};
}

Number extended_unsigned(const Scalar& op, const Number& a) {
  const auto x = static_cast<uint64_t>(a.i);
  const uint64_t mask = op.from_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << op.from_bits) - 1;
  const auto v = static_cast<double>(a.i);
  const bool changes_sign = a.slack > 0 && (v - a.slack < 0) != (v + a.slack < 0);
  return integer(op, x & mask, changes_sign ? static_cast<double>(mask) : a.slack);
}

Number on_integers(const Scalar& op, const Number& a, const Number& b) {
  const auto x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
  const double slack = a.slack + b.slack;
  const double anything = slack > 0 ? std::ldexp(1, op.bits) - 1 : 0;
  switch (op.code) {
    case kAddI: return integer(op, x + y, slack);
    case kSubI: return integer(op, x - y, slack);
    case kMulI: return integer(op, x * y, slack_of_product(fabs_of(a.i), a.slack, fabs_of(b.i), b.slack));
    case kAndI: return integer(op, x & y, anything);
    case kOrI: return integer(op, x | y, anything);
    case kMaxSI: return {0, std::max(a.slack, b.slack), std::max(a.i, b.i)};
    case kMinSI: return {0, std::max(a.slack, b.slack), std::min(a.i, b.i)};
    case kExtUI: return extended_unsigned(op, a);
    default: return integer(op, x, a.slack);  // casts that keep the sign or drop bits
  }
}

// Converts to double so that a later rounding to nearest gives the same result as rounding the integer itself
// (round to odd): if bits do not fit, the last bit is set.
double with_sticky_bit(int64_t i) {
  uint64_t kept = i < 0 ? 0 - static_cast<uint64_t>(i) : static_cast<uint64_t>(i), lost = 0;
  int shift = 0;
  for (; kept >> 53 != 0; kept >>= 1, ++shift) lost |= kept & 1;
  const double magnitude = std::ldexp(static_cast<double>(kept | lost), shift);
  return i < 0 ? -magnitude : magnitude;
}

}  // namespace

double distance(int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(std::max(a, b)), y = static_cast<uint64_t>(std::min(a, b));
  return static_cast<double>(x - y);
}

Scalar scalar_named(const std::string& name, const std::string& type, const std::string& word) {
  Scalar op;
  const auto* at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at != std::end(kNames)) op.code = static_cast<int>(at - std::begin(kNames));
  op.is_float = is_float_type(type);
  op.is_f64 = type == "f64";
  op.bits = bits_of(type);
  op.unit = unit_of(type);
  if (op.code == kCmpF) {
    op.outcomes = outcomes_of(kOfFloats, word);
  } else if (op.code == kCmpI) {
    op.outcomes = outcomes_of(kOfIntegers, word);
  } else {
    op.from_bits = bits_of(word);
  }
  return op;
}

Number scalar(const Scalar& op, const Number& a, const Number& b, const Number& c) {
  switch (op.code) {
    case kAddF: return rounded(op, a.v + b.v, a.slack + b.slack);
    case kSubF: return rounded(op, a.v - b.v, a.slack + b.slack);
    case kMulF:
      return rounded(op, a.v * b.v, slack_of_product(std::fabs(a.v), a.slack, std::fabs(b.v), b.slack));
    case kDivF: {
      const double v = a.v / b.v, least = std::max(std::fabs(b.v) - b.slack, 0x1p-126);
      return rounded(op, v, (a.slack + std::fabs(v) * b.slack) / least);
    }
    case kNegF: return {-a.v, a.slack, 0};
    case kAbsF: return {std::fabs(a.v), a.slack, 0};
    case kMaximumF:
    case kMinimumF:
    case kMaxNumF:
    case kMinNumF: return greatest(op.code, a, b);
    case kExp: return smooth(op, a, [](double x) { return std::exp(x); });
    case kErf: return smooth(op, a, [](double x) { return std::erf(x); });
    case kTanh: return smooth(op, a, [](double x) { return std::tanh(x); });
    case kSqrt: return smooth(op, a, [](double x) { return std::sqrt(std::max(x, 0.0)); });
    case kExtF: return a;
    case kTruncF: return {a.v, a.slack + op.unit * std::fabs(a.v) + 0x1p-24, 0};
    case kSIToFP: return rounded(op, op.is_f64 ? static_cast<double>(a.i) : with_sticky_bit(a.i), a.slack);
    case kSelect: return chosen(op, a, b, c);
    case kCmpF: {
      // Predicates that only test for NaN do not depend on how close the numbers are.
      const int of_numbers = op.outcomes & (kLess | kEqual | kGreater);
      const bool tells = of_numbers != 0 && of_numbers != (kLess | kEqual | kGreater);
      const bool close = tells && std::fabs(a.v - b.v) <= a.slack + b.slack && a.slack + b.slack > 0;
      return condition((op.outcomes & outcome(a.v, b.v)) != 0, close);
    }
    case kCmpI: return compare_integers(op, a, b);
    default: return on_integers(op, a, b);
  }
}

}  // namespace lathe::reference
