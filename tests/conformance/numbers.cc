#include "numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lathe::conformance {
namespace {

struct Format {
  int significand_bits;  // the hidden one included
  int exponent_bits;
};

Format format_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F16: return {11, 5};
    case LATHE_BF16: return {8, 8};
    default: return {24, 8};
  }
}

int bias_of(Format f) { return (1 << (f.exponent_bits - 1)) - 1; }

uint32_t encode(Format f, double value) {
  const uint32_t sign = std::signbit(value) ? 1u << (f.significand_bits - 1 + f.exponent_bits) : 0;
  const int fraction_bits = f.significand_bits - 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  if (std::isnan(value)) return sign | exponent_mask << fraction_bits | 1u << (fraction_bits - 1);
  if (std::isinf(value)) return sign | exponent_mask << fraction_bits;
  if (value == 0) return sign;
  const int smallest = 1 - bias_of(f);  // exponent of the smallest normal number
  const int exponent = std::ilogb(value);
  if (exponent < smallest) {
    return sign | static_cast<uint32_t>(std::ldexp(std::fabs(value), fraction_bits - smallest));
  }
  const double fraction = std::ldexp(std::fabs(value), fraction_bits - exponent);
  return sign | static_cast<uint32_t>(exponent + bias_of(f)) << fraction_bits |
         (static_cast<uint32_t>(fraction) & ((1u << fraction_bits) - 1));
}

double decode(Format f, uint32_t bits) {
  const int fraction_bits = f.significand_bits - 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent = bits >> fraction_bits & exponent_mask;
  const double sign = bits >> (fraction_bits + f.exponent_bits) & 1 ? -1 : 1;
  if (exponent == exponent_mask) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias_of(f) - fraction_bits);
  return sign *
         std::ldexp(fraction | 1u << fraction_bits, static_cast<int>(exponent) - bias_of(f) - fraction_bits);
}

std::vector<double> decode_all(lathe_dtype dtype) {
  std::vector<double> values(1 << 16);
  for (uint32_t bits = 0; bits < values.size(); ++bits) values[bits] = decode(format_of(dtype), bits);
  return values;
}

}  // namespace

size_t bytes_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    default: return 4;
  }
}

const char* name_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F32: return "f32";
    case LATHE_F16: return "f16";
    case LATHE_BF16: return "bf16";
    case LATHE_I32: return "i32";
    case LATHE_I64: return "i64";
    default: return "none";
  }
}

double largest(lathe_dtype dtype) {
  const Format f = format_of(dtype);
  return std::ldexp(2.0 - std::ldexp(1.0, 1 - f.significand_bits), bias_of(f));
}

double round_to(lathe_dtype dtype, double x) {
  if (dtype == LATHE_F32) return static_cast<float>(x);
  if (!std::isfinite(x) || x == 0) return x;
  const Format f = format_of(dtype);
  const int smallest = 1 - bias_of(f);
  const int exponent = std::ilogb(x);
  const int unit = (exponent < smallest ? smallest : exponent) - (f.significand_bits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  if (std::fabs(rounded) > largest(dtype)) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return rounded;
}

void store(lathe_dtype dtype, double value, void* at) {
  if (dtype == LATHE_F32) {
    const float f = static_cast<float>(value);
    std::memcpy(at, &f, sizeof f);
    return;
  }
  const auto bits = static_cast<uint16_t>(encode(format_of(dtype), value));
  std::memcpy(at, &bits, sizeof bits);
}

double load(lathe_dtype dtype, const void* at) {
  if (dtype == LATHE_F32) {
    float f;
    std::memcpy(&f, at, sizeof f);
    return f;
  }
  static const std::vector<double> f16 = decode_all(LATHE_F16);
  static const std::vector<double> bf16 = decode_all(LATHE_BF16);
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == LATHE_F16 ? f16[bits] : bf16[bits];
}

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) {  // splitmix64, the generator's recommended seeding
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    word = z ^ z >> 31;
  }
}

uint64_t Random::next() {
  const auto rotate = [](uint64_t x, int by) { return x << by | x >> (64 - by); };
  const uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return result;
}

double Random::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  const double angle = 2 * 3.14159265358979323846 * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace lathe::conformance
