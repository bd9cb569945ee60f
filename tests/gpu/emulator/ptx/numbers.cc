#include "tests/gpu/emulator/ptx/numbers.h"

#include <array>
#include <cmath>
#include <cstring>

namespace lathe::ptx {
namespace {

// Rounds an already scaled value to an integer.
double round_scaled(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even: return std::nearbyint(value);
    case Rounding::zero: return std::trunc(value);
    case Rounding::down: return std::floor(value);
    case Rounding::up: return std::ceil(value);
    case Rounding::nearest_away: return std::round(value);
  }
  return value;
}

template <size_t N>
std::array<float, N> table(FloatFormat format) {
  std::array<float, N> values;
  for (size_t i = 0; i < N; ++i) values[i] = static_cast<float>(widen(static_cast<uint32_t>(i), format));
  return values;
}

}  // namespace

uint32_t narrow(double value, FloatFormat format, Rounding rounding, bool saturate) {
  const int m = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (m + format.exponent_bits) : 0;
  const uint32_t all_exponent = ((1u << format.exponent_bits) - 1) << m;
  const uint32_t nan =
      format.infinities ? (all_exponent | ((1u << m) - 1)) : (all_exponent | ((1u << m) - 1));
  const uint32_t largest = format.infinities ? all_exponent - 1 : nan - 1;
  if (std::isnan(value)) return nan;  // PTX: the canonical NaN has all bits set except the sign
  const bool finite = std::isfinite(value);
  if (finite && value == 0) return sign;
  const uint32_t overflow = saturate || !format.infinities ? largest : all_exponent;
  if (!finite) return sign | (saturate ? largest : format.infinities ? all_exponent : nan);
  int exponent;
  std::frexp(value, &exponent);  // 2^(exponent-1) <= |value| < 2^exponent
  const int unit = std::max(exponent - 1, 1 - bias) - m;
  const double scaled = round_scaled(std::ldexp(value, -unit), rounding);
  const double magnitude = std::fabs(scaled);
  // If the mantissa rounds up to the next power of two, the addition carries into the exponent.
  const int64_t biased = unit + m + bias;  // for a normal number
  const int64_t bits = static_cast<int64_t>(magnitude) + ((biased - 1) << m);
  if (bits > static_cast<int64_t>(largest)) {
    const bool toward_zero = rounding == Rounding::zero || (rounding == Rounding::down && !sign) ||
                             (rounding == Rounding::up && sign);
    if (!format.infinities && !saturate) return sign | nan;
    return sign | (toward_zero ? largest : overflow);
  }
  return sign | static_cast<uint32_t>(bits);
}

double widen(uint32_t bits, FloatFormat format) {
  const int m = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << m) - 1);
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t exponent = (bits >> m) & top;
  const double sign = (bits >> (m + format.exponent_bits)) & 1 ? -1.0 : 1.0;
  if (exponent == top && (format.infinities || mantissa == (1u << m) - 1)) {
    return format.infinities && mantissa == 0 ? sign * HUGE_VAL : std::copysign(NAN, sign);
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - m);
  return sign * std::ldexp(mantissa + (1u << m), static_cast<int>(exponent) - bias - m);
}

float f16_to_float(uint16_t bits) {
  static const std::array<float, 65536> values = table<65536>(kF16);
  return values[bits];
}
float e4m3_to_float(uint8_t bits) {
  static const std::array<float, 256> values = table<256>(kE4m3);
  return values[bits];
}
float e5m2_to_float(uint8_t bits) {
  static const std::array<float, 256> values = table<256>(kE5m2);
  return values[bits];
}
uint16_t float_to_f16(float value) { return static_cast<uint16_t>(narrow(value, kF16)); }

uint16_t float_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double add_round_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a, error = (a - (sum - part)) + (b - part);  // exact: Knuth's two-sum
  if (error == 0) return sum;
  uint64_t bits;
  std::memcpy(&bits, &sum, 8);
  if (bits & 1) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

}  // namespace lathe::ptx
