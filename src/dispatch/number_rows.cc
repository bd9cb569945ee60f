#include "dispatch/number_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lathe {
namespace {

float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Not every supported compiler has _Float16, and the library's baseline has no F16C, so the conversions are
// written out.
float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return bits_to_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
  return sign != 0 ? -magnitude : magnitude;
}

// Round to nearest, ties to even.
uint16_t float_to_half(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint16_t sign = bits >> 16 & 0x8000u;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  // Below 2^-14 the spacing of halves is 2^-24: a subnormal, or the smallest normal after rounding up.
  if (magnitude < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  const uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + (bits >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace

float load_number(const void* base, int64_t index, DType type) {
  const char* element = static_cast<const char*>(base) + index * static_cast<int64_t>(size_of(type));
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return type == DType::kF16 ? half_to_float(bits) : bits_to_float(static_cast<uint32_t>(bits) << 16);
}

void store_number(void* base, int64_t index, DType type, float value) {
  char* element = static_cast<char*>(base) + index * static_cast<int64_t>(size_of(type));
  if (type == DType::kF32) {
    std::memcpy(element, &value, sizeof value);
    return;
  }
  if (type == DType::kI32) {
    const auto sum = static_cast<int32_t>(value);
    std::memcpy(element, &sum, sizeof sum);
    return;
  }
  const uint16_t bits = type == DType::kF16 ? float_to_half(value) : float_to_bf16(value);
  std::memcpy(element, &bits, sizeof bits);
}

void sum_rows(const WeightedRows& rows, DType type, void* out) {
  constexpr int64_t kColumns = 256;  // the sums of one pass stay in the L1 cache
  for (int64_t begin = 0; begin < rows.columns; begin += kColumns) {
    const int64_t width = std::min(kColumns, rows.columns - begin);
    float sums[kColumns] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      if (rows.row[i] < 0) continue;
      const float* const row = rows.base + rows.row[i] * rows.columns + begin;
      const float weight = rows.weight[i];
      for (int64_t j = 0; j < width; ++j) sums[j] += weight * row[j];
    }
    if (type == DType::kF32)
      std::memcpy(static_cast<char*>(out) + begin * 4, sums, static_cast<size_t>(width) * 4);
    else
      for (int64_t j = 0; j < width; ++j) store_number(out, begin + j, type, sums[j]);
  }
}

}  // namespace lathe
