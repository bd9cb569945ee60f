#include "scalar_argmax.h"

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

template <typename T>
int64_t loop(const T* x, int64_t n) {
  int64_t best = 0;
  float maximum = widen(x[0]);
  for (int64_t j = 1; j < n; ++j) {
    if (widen(x[j]) > maximum) {
      maximum = widen(x[j]);
      best = j;
    }
  }
  return best;
}

}  // namespace

int64_t scalar_argmax(const float* x, int64_t n) { return loop(x, n); }
int64_t scalar_argmax(const _Float16* x, int64_t n) { return loop(x, n); }
int64_t scalar_argmax(const uint16_t* x, int64_t n) { return loop(x, n); }

}  // namespace lathe::bench
