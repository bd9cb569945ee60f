#include "cli/numbers.h"

#include <cmath>
#include <cstring>

namespace lathe::cli {
namespace {

template <typename To, typename From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

float from_f16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t to_f16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: a multiple of 2^-24
    const float scaled = bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

uint16_t to_bf16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

// Marsaglia and Tsang's ziggurat with 128 layers ("The Ziggurat Method for Generating Random Variables",
// 2000).
constexpr int kLayers = 128;
constexpr double kTail = 3.442619855899;       // where the bottom layer's tail begins
constexpr double kArea = 9.91256303526217e-3;  // of each layer
struct Ziggurat {
  double x[kLayers + 1], f[kLayers + 1];
  Ziggurat() {
    x[0] = kArea / std::exp(-0.5 * kTail * kTail);  // width of the bottom layer with its tail folded in
    x[1] = kTail;
    for (int i = 2; i < kLayers; ++i) {
      const double above = kArea / x[i - 1] + std::exp(-0.5 * x[i - 1] * x[i - 1]);
      x[i] = std::sqrt(-2 * std::log(above));
    }
    x[kLayers] = 0;
    for (int i = 0; i <= kLayers; ++i) f[i] = std::exp(-0.5 * x[i] * x[i]);
  }
};
const Ziggurat& ziggurat() {
  static const Ziggurat table;
  return table;
}

double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

const std::vector<std::string>& float_names() {
  static const std::vector<std::string> names = {"f32", "f16", "bf16"};
  return names;
}

lathe_dtype float_dtype(const std::string& name) {
  return name == "f16" ? LATHE_F16 : name == "bf16" ? LATHE_BF16 : LATHE_F32;
}

size_t bytes_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F32:
    case LATHE_I32: return 4;
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    default: return 0;
  }
}

float load(const void* data, lathe_dtype dtype, int64_t index) {
  if (dtype == LATHE_F32) return static_cast<const float*>(data)[index];
  const uint16_t half = static_cast<const uint16_t*>(data)[index];
  return dtype == LATHE_F16 ? from_f16(half) : bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

void store(void* data, lathe_dtype dtype, int64_t index, float value) {
  if (dtype == LATHE_F32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = dtype == LATHE_F16 ? to_f16(value) : to_bf16(value);
  }
}

double rounding(lathe_dtype dtype) {
  return dtype == LATHE_F32 ? 0x1p-24 : dtype == LATHE_F16 ? 0x1p-11 : 0x1p-8;
}

double smallest_rounding(lathe_dtype dtype) { return dtype == LATHE_F16 ? 0x1p-25 : 0x1p-126; }

void Array::poison() { std::memset(bytes.data(), 0xff, bytes.size()); }

Normal::Normal(uint64_t seed) {
  for (uint64_t& s : state_) {  // splitmix64
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    s = z ^ (z >> 31);
  }
}

uint64_t Normal::bits() {
  const auto rotate = [](uint64_t v, int by) { return v << by | v >> (64 - by); };
  const uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0], t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return result;
}

float Normal::next() {
  const Ziggurat& z = ziggurat();
  while (true) {
    const uint64_t random = bits();
    const int layer = random & (kLayers - 1);
    const double sign = random & kLayers ? -1 : 1, x = unit(random) * z.x[layer];
    if (x < z.x[layer + 1]) return static_cast<float>(sign * x);
    if (layer == 0) {  // the tail, by Marsaglia's method
      double a, b;
      do {
        a = -std::log(1 - unit(bits())) / kTail;
        b = -std::log(1 - unit(bits()));
      } while (2 * b < a * a);
      return static_cast<float>(sign * (kTail + a));
    }
    if (z.f[layer] + unit(bits()) * (z.f[layer + 1] - z.f[layer]) < std::exp(-0.5 * x * x)) {
      return static_cast<float>(sign * x);
    }
  }
}

void Normal::fill(Array* array) {
  for (int64_t i = 0; i < array->count; ++i) store(array->data(), array->dtype, i, next());
}

}  // namespace lathe::cli
