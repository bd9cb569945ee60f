#include "scalar_argmax.h"

#include <algorithm>
#include <cstring>

namespace lathe::bench {
namespace {

float widen(float x) { return x; }
float widen(_Float16 x) { return static_cast<float>(x); }
float widen(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// clang 22 does not vectorise one loop that keeps both value and index. These two loops are vectorised; the
// second one reads the row again, from the cache if it fits. n is at most 2^31.
template <typename T>
int64_t loop(const T* x, int64_t n) {
  float maximum = widen(x[0]);
#pragma clang loop vectorize(enable)
  for (int64_t j = 1; j < n; ++j) maximum = widen(x[j]) > maximum ? widen(x[j]) : maximum;
  auto best = static_cast<uint32_t>(n);
#pragma clang loop vectorize(enable)
  for (uint32_t j = 0; j < static_cast<uint32_t>(n); ++j)
    best = std::min(best, widen(x[j]) == maximum ? j : static_cast<uint32_t>(n));
  return best;
}

}  // namespace

int64_t scalar_argmax(const float* x, int64_t n) { return loop(x, n); }
int64_t scalar_argmax(const _Float16* x, int64_t n) { return loop(x, n); }
int64_t scalar_argmax(const uint16_t* x, int64_t n) { return loop(x, n); }

}  // namespace lathe::bench
