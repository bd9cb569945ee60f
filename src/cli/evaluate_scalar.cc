#include "cli/evaluate_scalar.h"

#include <algorithm>
#include <cmath>

namespace lathe::cli {
namespace {

// Lathe computes in f32, whatever type the text computes in: half a unit in its last place, relative.
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

Number rounded(double v, double slack) { return {v, slack + kUnit * std::fabs(v), 0}; }

// A function's slack from what it makes of both ends.
template <typename F>
Number smooth(const Number& a, F f) {
  const double v = f(a.v);
  const double spread =
      a.slack == 0 ? 0 : std::max(std::fabs(f(a.v + a.slack) - v), std::fabs(f(a.v - a.slack) - v));
  return {v, spread + 16 * kUnit * std::fabs(v), 0};
}

// f16, bf16, f32 and f64 alone are rounded to; an 8-bit float is never computed in.
double unit_of(const std::string& type) { return type == "f16" ? 0x1p-11 : type == "bf16" ? 0x1p-8 : kUnit; }

int bits_of(const std::string& type) {
  if (type == "index") return 64;
  return type.size() > 1 && type[0] == 'i' ? std::stoi(type.substr(1)) : 64;
}
int64_t wrapped(uint64_t x, const std::string& type) {
  const int bits = bits_of(type);
  if (bits >= 64) return static_cast<int64_t>(x);
  if (bits == 1) return static_cast<int64_t>(x & 1);
  const uint64_t sign = uint64_t{1} << (bits - 1), mask = (uint64_t{1} << bits) - 1;
  return static_cast<int64_t>(((x & mask) ^ sign) - sign);
}
Number integer(uint64_t x, const std::string& type, double slack) { return {0, slack, wrapped(x, type)}; }

bool holds(const std::string& p, double a, double b) {
  if (p == "true" || p == "false") return p == "true";
  const bool unordered = std::isnan(a) || std::isnan(b);
  if (p == "ord" || p == "uno") return (p == "uno") == unordered;
  if (unordered) return p[0] == 'u';
  const std::string relation = p.substr(1);
  if (relation == "eq") return a == b;
  if (relation == "ne") return a != b;
  if (relation == "gt") return a > b;
  if (relation == "ge") return a >= b;
  return relation == "lt" ? a < b : a <= b;
}
bool holds(const std::string& p, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (p == "eq") return a == b;
  if (p == "ne") return a != b;
  if (p == "slt") return a < b;
  if (p == "sle") return a <= b;
  if (p == "sgt") return a > b;
  if (p == "sge") return a >= b;
  if (p == "ult") return ua < ub;
  if (p == "ule") return ua <= ub;
  return p == "ugt" ? ua > ub : ua >= ub;
}

Number greatest(int code, const Number& a, const Number& b) {
  const bool least = code == kMinimumF || code == kMinNumF,
             keeps_nan = code == kMaximumF || code == kMinimumF;
  const double slack = std::max(a.slack, b.slack);
  if (std::isnan(a.v) || std::isnan(b.v))
    return {keeps_nan ? std::nan("") : std::isnan(a.v) ? b.v : a.v, slack, 0};
  return {least ? std::min(a.v, b.v) : std::max(a.v, b.v), slack, 0};
}

Number chosen(const std::string& type, const Number& condition, const Number& yes, const Number& no) {
  Number n = condition.i ? yes : no;
  if (condition.slack == 0) return n;
  n.slack = std::max(yes.slack, no.slack);
  if (!is_float_type(type)) n.slack += std::fabs(static_cast<double>(yes.i) - static_cast<double>(no.i));
  if (is_float_type(type) && std::isfinite(yes.v - no.v)) n.slack += std::fabs(yes.v - no.v);
  return n;
}

Number on_integers(int code, const std::string& type, const std::string& from, const Number& a,
                   const Number& b) {
  const auto x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
  const double slack = a.slack + b.slack;
  switch (code) {
    case kAddI: return integer(x + y, type, slack);
    case kSubI: return integer(x - y, type, slack);
    case kMulI: return integer(x * y, type, slack);
    case kAndI: return integer(x & y, type, slack);
    case kOrI: return integer(x | y, type, slack);
    case kMaxSI: return a.i > b.i ? a : b;
    case kMinSI: return a.i < b.i ? a : b;
    // i1 is held as 0 or 1, and is -1 as a signed number.
    case kExtSI: return integer(from == "i1" ? 0 - x : x, type, a.slack);
    case kExtUI:
      return integer(bits_of(from) >= 64 ? x : x & ((uint64_t{1} << bits_of(from)) - 1), type, a.slack);
    default: return integer(x, type, a.slack);
  }
}

}  // namespace

bool is_float_type(const std::string& type) { return !type.empty() && (type[0] == 'f' || type[0] == 'b'); }

int scalar_code(const std::string& name) {
  const auto* at = std::find(std::begin(kNames), std::end(kNames), name);
  return at == std::end(kNames) ? -1 : static_cast<int>(at - std::begin(kNames));
}

Number scalar(int code, const std::string& type, const std::string& from, const std::string& predicate,
              const Number& a, const Number& b, const Number& c) {
  switch (code) {
    case kAddF: return rounded(a.v + b.v, a.slack + b.slack);
    case kSubF: return rounded(a.v - b.v, a.slack + b.slack);
    case kMulF:
      return rounded(a.v * b.v, std::fabs(a.v) * b.slack + std::fabs(b.v) * a.slack + a.slack * b.slack);
    case kDivF: {
      const double v = a.v / b.v, least = std::max(std::fabs(b.v) - b.slack, 0x1p-126);
      return rounded(v, (a.slack + std::fabs(v) * b.slack) / least);
    }
    case kNegF: return {-a.v, a.slack, 0};
    case kAbsF: return {std::fabs(a.v), a.slack, 0};
    case kMaximumF:
    case kMinimumF:
    case kMaxNumF:
    case kMinNumF: return greatest(code, a, b);
    case kExp: return smooth(a, [](double x) { return std::exp(x); });
    case kErf: return smooth(a, [](double x) { return std::erf(x); });
    case kTanh: return smooth(a, [](double x) { return std::tanh(x); });
    case kSqrt: return smooth(a, [](double x) { return std::sqrt(std::max(x, 0.0)); });
    case kExtF: return a;
    case kTruncF: return {a.v, a.slack + unit_of(type) * std::fabs(a.v) + 0x1p-24, 0};
    case kSIToFP: return rounded(static_cast<double>(a.i), a.slack);
    case kSelect: return chosen(type, a, b, c);
    case kCmpF: {
      const bool close = std::fabs(a.v - b.v) <= a.slack + b.slack && a.slack + b.slack > 0;
      return {0, close ? 1.0 : 0.0, holds(predicate, a.v, b.v) ? 1 : 0};
    }
    case kCmpI: return {0, a.slack + b.slack, holds(predicate, a.i, b.i) ? 1 : 0};
    default: return on_integers(code, type, from, a, b);
  }
}

}  // namespace lathe::cli
