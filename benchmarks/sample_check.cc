#include "sample_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

namespace lathe::bench {
namespace {

double value_at(const void* data, Element element, int64_t i) {
  switch (element) {
    case Element::kF32: return static_cast<const float*>(data)[i];
    case Element::kF16:
    case Element::kF16Weights: return static_cast<double>(static_cast<const _Float16*>(data)[i]);
    case Element::kI8: return static_cast<const int8_t*>(data)[i];
    case Element::kBF16:
    case Element::kBF16Weights:
    case Element::kBF16Rounded: break;
    case Element::kQ4:
    case Element::kQ4Int8: {
      const uint8_t* block = static_cast<const uint8_t*>(data) + i / 32 * 18;
      _Float16 scale;
      std::memcpy(&scale, block, 2);
      const int byte = block[2 + i % 16];
      return static_cast<double>(scale) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
    }
  }
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[i]} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

}  // namespace

bool is_right(const Gemm& p, const std::string& name, const void* a, const void* b, const void* d,
              uint64_t seed) {
  std::mt19937_64 engine(seed);
  for (int sample = 0; sample < 64; ++sample) {
    const int64_t i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
    const int64_t j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
    double sum = 0, magnitude = 0, largest = 0, weights = 0;
    const Element of_a = activations_of(p.element);
    for (int64_t q = 0; q < p.k; ++q) {
      const double x = value_at(a, of_a, i * p.k + q),
                   w = value_at(b, p.element, p.trans_b ? j * p.k + q : q * p.n + j);
      sum += x * w;
      magnitude += std::fabs(x * w);
      largest = std::max(largest, std::fabs(x));
      weights += std::fabs(w);
    }
    // Rounding A to int8 changes an element by at most half of 1/127 of its block's maximum, which is at most
    // the row's. Rounding it to bf16 changes it by at most 2^-9 of itself.
    const double rounded = p.element == Element::kQ4Int8        ? largest * weights * (0.5 / 127 + 0x1p-20)
                           : p.element == Element::kBF16Rounded ? magnitude * 0x1p-9
                                                                : 0;
    const bool exact = p.element == Element::kI8;
    const double bound =
        exact ? 0 : 6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 * magnitude + rounded;
    const int64_t at = i * p.n + j;
    const double got =
        exact ? static_cast<const int32_t*>(d)[at] : static_cast<double>(static_cast<const float*>(d)[at]);
    if (!(std::fabs(got - sum) <= bound)) {
      std::fprintf(stderr, "%s m=%ld: (%ld, %ld) is %g, expected %g within %g\n", name.c_str(),
                   static_cast<long>(p.m), static_cast<long>(i), static_cast<long>(j), got, sum, bound);
      return false;
    }
  }
  return true;
}

}  // namespace lathe::bench
