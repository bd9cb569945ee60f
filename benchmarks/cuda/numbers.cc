#include "cuda/numbers.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

namespace lathe::bench {
namespace {

template <typename T>
T as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// OCP e4m3: 4 exponent bits with bias 7, 3 fraction bits, subnormals below 2^-6, NaN 0x7f.
std::array<double, 256> e4m3_values() {
  std::array<double, 256> values;
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double magnitude = (code & 0x7f) == 0x7f ? NAN
                             : exponent == 0       ? std::ldexp(fraction, -9)
                                                   : std::ldexp(8 + fraction, exponent - 10);
    values[static_cast<size_t>(code)] = code & 0x80 ? -magnitude : magnitude;
  }
  return values;
}

uint8_t e4m3_of(float value) {  // for finite values below 448
  const auto bits = as<uint32_t>(&value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (std::fabs(value) < 0x1p-6f) return sign | static_cast<uint8_t>(std::lrint(std::fabs(value) * 0x1p9f));
  return sign |
         static_cast<uint8_t>(((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - ((127u - 7u) << 3));
}

uint16_t half_of(float value, lathe_dtype dtype) {
  if (dtype == LATHE_F16) {
    const auto x = static_cast<_Float16>(value);
    return as<uint16_t>(&x);
  }
  const auto wide = as<uint32_t>(&value);
  return static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);  // for finite values
}

}  // namespace

lathe_dtype result_of(lathe_dtype operands) {
  return operands == LATHE_F8_E4M3 ? LATHE_BF16 : operands == LATHE_I8 ? LATHE_I32 : operands;
}

double half_ulp(lathe_dtype dtype) { return dtype == LATHE_BF16 ? 0x1p-8 : dtype == LATHE_F16 ? 0x1p-11 : 0; }

double value_of(const uint8_t* at, lathe_dtype dtype) {
  static const std::array<double, 256> kE4m3 = e4m3_values();
  switch (dtype) {
    case LATHE_F16: return static_cast<double>(as<_Float16>(at));
    case LATHE_F8_E4M3: return kE4m3[*at];
    case LATHE_I8: return as<int8_t>(at);
    case LATHE_I32: return as<int32_t>(at);
    default: {
      const uint32_t wide = uint32_t{as<uint16_t>(at)} << 16;
      return as<float>(&wide);
    }
  }
}

std::vector<uint8_t> random_numbers(size_t count, lathe_dtype dtype, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> uniform(-127, 127);
  std::vector<uint8_t> numbers(count * size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    if (dtype == LATHE_I8) {
      numbers[i] = static_cast<uint8_t>(uniform(engine));
    } else if (dtype == LATHE_F8_E4M3) {
      numbers[i] = e4m3_of(normal(engine));
    } else {
      const uint16_t half = half_of(normal(engine), dtype);
      std::memcpy(&numbers[2 * i], &half, sizeof half);
    }
  }
  return numbers;
}

}  // namespace lathe::bench
