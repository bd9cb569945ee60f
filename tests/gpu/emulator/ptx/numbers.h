// Narrow floating-point formats. Widening is exact; narrowing rounds once.
#pragma once

#include <cstdint>

namespace lathe::ptx {

enum class Rounding : uint8_t { nearest_even, zero, down, up, nearest_away };

// A binary format with `mantissa_bits` explicit bits. e4m3 has no infinities (0x7f is its NaN).
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  bool infinities;
};
inline constexpr FloatFormat kF16 = {5, 10, true}, kBf16 = {8, 7, true}, kE4m3 = {4, 3, false},
                             kE5m2 = {5, 2, true};

// With `saturate` (PTX's .satfinite), a value beyond the largest finite value becomes that value.
uint32_t narrow(double value, FloatFormat format, Rounding rounding = Rounding::nearest_even,
                bool saturate = false);
double widen(uint32_t bits, FloatFormat format);

float f16_to_float(uint16_t bits);
inline float bf16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  __builtin_memcpy(&value, &wide, 4);
  return value;
}
uint16_t float_to_f16(float value);
uint16_t float_to_bf16(float value);
float e4m3_to_float(uint8_t bits);
float e5m2_to_float(uint8_t bits);
// A tf32 operand: the hardware ignores the low 13 bits of the f32.
inline float tf32_operand(uint32_t bits) {
  bits &= ~0x1fffu;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// a + b with the last bit set if the sum is inexact (round to odd), so that rounding again to a narrower format is
// still correct.
double add_round_to_odd(double a, double b);

}  // namespace lathe::ptx
