#include "softmax.h"

#include <cmath>
#include <cstring>
#include <limits>

// One copy of a function for each instruction set; the loader chooses.
#if defined(__x86_64__)
#define LATHE_GGML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LATHE_GGML_CLONES
#endif

namespace lathe_ggml {
namespace {

constexpr int64_t kLanes = 16, kVectors = kKeys / kLanes;
typedef float Floats __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef float Half __attribute__((vector_size(2 * kLanes), aligned(4)));
typedef float Quarter __attribute__((vector_size(kLanes), aligned(4)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes), aligned(4)));

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Below this, 2^x is 0 in a sum of weights whose largest is 1.
constexpr float kLeastExponent = -120;

// x becomes 2^x, for x <= 0 and NaN: 2^n from the exponent bits, and the Taylor series of the rest.
inline __attribute__((always_inline)) void raise_two(Floats& x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kSeries[] = {1.540353039e-4f,
                               1.333355815e-3f,
                               9.618129108e-3f,
                               5.550410866e-2f,
                               2.402265070e-1f,
                               6.931471806e-1f,
                               1.0f};
  const Ints tiny = x < kLeastExponent;
  const Floats bounded = tiny ? Floats{} + kLeastExponent : x;
  const Floats whole = (bounded + kRound) - kRound;
  const Floats rest = bounded - whole;
  Floats power = Floats{} + kSeries[0];
  for (int i = 1; i < 7; ++i) power = power * rest + kSeries[i];
  const Ints bits = (__builtin_convertvector(whole, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  x = tiny ? Floats{} : power * scale;
}

// The sum or the largest of all lanes, joined pairwise.
enum class Join { kSum, kLargest };
template <Join join, typename T>
inline __attribute__((always_inline)) void join_to(T& a, const T& b) {
  if constexpr (join == Join::kSum) {
    a += b;
  } else {
    a = a > b ? a : b;
  }
}
template <Join join>
inline __attribute__((always_inline)) float reduce(const Floats& x) {
  Half halves[2];
  std::memcpy(halves, &x, sizeof(x));
  join_to<join>(halves[0], halves[1]);
  Quarter quarters[2];
  std::memcpy(quarters, halves, sizeof(quarters));
  join_to<join>(quarters[0], quarters[1]);
  float lanes[4];
  std::memcpy(lanes, quarters, sizeof(lanes));
  join_to<join>(lanes[0], lanes[1]);
  join_to<join>(lanes[2], lanes[3]);
  join_to<join>(lanes[0], lanes[2]);
  return lanes[0];
}

}  // namespace

LATHE_GGML_CLONES void take_weights(const SoftmaxRows& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    float* const row = block.scores + r * kKeys;
    Floats x[kVectors];
    std::memcpy(x, row, sizeof(x));
    if (block.mask != nullptr) {
      Floats mask[kVectors];
      std::memcpy(mask, block.mask + r % block.mask_rows * kKeys, sizeof(mask));
      for (int64_t i = 0; i < kVectors; ++i) x[i] += mask[i];
    }
    Floats most = x[0];
    for (int64_t i = 1; i < kVectors; ++i) most = x[i] > most ? x[i] : most;
    const float before = block.largest[r];
    const float row_largest = reduce<Join::kLargest>(most);
    const float largest = row_largest > before ? row_largest : before;
    // Nothing is visible yet: every weight is 2^-infinity.
    const float base = largest == -kInfinity ? 0 : largest;
    Floats sum = {};
    for (int64_t i = 0; i < kVectors; ++i) {
      x[i] -= base;
      raise_two(x[i]);
      sum += x[i];
    }
    std::memcpy(row, x, sizeof(x));
    if (largest > before) {
      const float scale = std::exp2(before - largest);
      float* const sums = block.sums + r * block.width;
      for (int64_t i = 0; i < block.width; ++i) sums[i] *= scale;
      block.weight_sum[r] *= scale;
      block.largest[r] = largest;
    }
    block.weight_sum[r] += reduce<Join::kSum>(sum);
  }
}

LATHE_GGML_CLONES MaskKind read_mask(const uint16_t* mask, int64_t count, float factor, float* out) {
  constexpr uint32_t kSign = 0x8000, kInfinite = 0x7c00, kMinusInfinity = kSign | kInfinite;
  constexpr float kExponents = 0x1p112f;  // between the exponents of f16 and f32
  uint32_t any = 0, hidden = 0xffffffff;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t half = mask[i];
    any |= half;
    hidden &= half == kMinusInfinity ? 0xffffffff : 0;
    const uint32_t bits = (half & 0x7fff) << 13 | (half & kSign) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    value *= kExponents;
    const uint32_t infinite = bits | 0x7f800000;
    float special;
    std::memcpy(&special, &infinite, sizeof(special));
    out[i] = ((half & kInfinite) == kInfinite ? special : value) * factor;
  }
  if (hidden != 0) return MaskKind::kHidesAll;
  return (any & 0x7fff) != 0 ? MaskKind::kAdds : MaskKind::kNothing;
}

}  // namespace lathe_ggml
