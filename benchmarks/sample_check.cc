#include "sample_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "reference/numbers.h"

namespace lathe::bench {

bool is_right(const Gemm& p, const std::string& name, const void* a, const void* b, const void* d,
              uint64_t seed) {
  std::mt19937_64 engine(seed);
  for (int sample = 0; sample < 64; ++sample) {
    const int64_t i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
    const int64_t j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
    double sum = 0, magnitude = 0, largest = 0, weights = 0;
    const lathe_dtype of_a = dtype_of(activations_of(p.element)), of_b = dtype_of(p.element);
    for (int64_t q = 0; q < p.k; ++q) {
      const double x = reference::load(a, of_a, i * p.k + q),
                   w = reference::load(b, of_b, p.trans_b ? j * p.k + q : q * p.n + j);
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
