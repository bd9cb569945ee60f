#include "cuda/numbers.h"

#include <cmath>
#include <cstring>
#include <random>

namespace lathe::bench {

double value_of(uint16_t bits, lathe_dtype dtype) {
  if (dtype == LATHE_F16) {
    _Float16 x;
    std::memcpy(&x, &bits, sizeof x);
    return static_cast<double>(x);
  }
  const uint32_t wide = uint32_t{bits} << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

uint16_t rounded(float value, lathe_dtype dtype) {
  if (dtype == LATHE_F16) {
    const auto x = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  return static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);  // finite values only
}

std::vector<uint16_t> normal_numbers(size_t count, lathe_dtype dtype, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> numbers(count);
  for (uint16_t& x : numbers) x = rounded(normal(engine), dtype);
  return numbers;
}

}  // namespace lathe::bench
