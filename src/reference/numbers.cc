#include "reference/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace lathe::reference {
namespace {

template <typename To, typename From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void write(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Converts to float so that a later rounding to 16 bits gives the same result as rounding the double itself
// (round to odd): if the value is inexact, the last bit is set.
float with_sticky_bit(double value) {
  float kept = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(kept) == value) return kept;
  if (std::fabs(static_cast<double>(kept)) > std::fabs(value)) kept = std::nextafter(kept, 0.0f);
  return bit_cast<float>(bit_cast<uint32_t>(kept) | 1);
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

struct DtypeRow {
  lathe_dtype dtype;
  const char* name;
};
constexpr DtypeRow kDtypes[] = {{LATHE_F32, "f32"},
                                {LATHE_F16, "f16"},
                                {LATHE_BF16, "bf16"},
                                {LATHE_I32, "i32"},
                                {LATHE_I64, "i64"},
                                {LATHE_I8, "i8"},
                                {LATHE_F8_E4M3, "f8e4m3"},
                                {LATHE_F8_E5M2, "f8e5m2"},
                                {LATHE_F8_E4M3_FNUZ, "f8e4m3fnuz"},
                                {LATHE_F8_E5M2_FNUZ, "f8e5m2fnuz"}};

// The formats of the OCP 8-bit Floating Point Specification (OFP8), revision 1.0, and FNUZ as in LLVM's APFloat
// (Float8E4M3FNUZ, Float8E5M2FNUZ). The only NaN of FNUZ has the code that would be -0.
struct F8Format {
  int fraction_bits, lowest_exponent;  // for normal numbers
  uint8_t largest, overflow, nan;      // the codes of these values
};
constexpr F8Format kE4M3 = {3, -6, 0x7e, 0x7f, 0x7f}, kE5M2 = {2, -14, 0x7b, 0x7c, 0x7e};
constexpr uint8_t kFnuzNan = 0x80;
constexpr F8Format kE4M3Fnuz = {3, -7, 0x7f, kFnuzNan, kFnuzNan},
                   kE5M2Fnuz = {2, -15, 0x7f, kFnuzNan, kFnuzNan};

double from_f8(uint8_t code, const F8Format& f) {
  const int magnitude = code & 0x7f, exponent = magnitude >> f.fraction_bits;
  const int fraction = magnitude & ((1 << f.fraction_bits) - 1);
  double value;
  if (code == kFnuzNan && f.nan == kFnuzNan) return NAN;
  if (magnitude > f.largest) {
    value = magnitude == f.overflow && f.overflow != f.nan ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, f.lowest_exponent - f.fraction_bits);
  } else {
    value = std::ldexp(fraction + (1 << f.fraction_bits), f.lowest_exponent + exponent - 1 - f.fraction_bits);
  }
  return code & 0x80 ? -value : value;
}

uint8_t to_f8(double value, const F8Format& f) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | f.nan;
  if (std::isinf(value)) return sign | f.overflow;
  const int exponent =
      magnitude == 0 ? f.lowest_exponent : std::max(std::ilogb(magnitude), f.lowest_exponent);
  // The magnitude in units of the last place. If rounding gives the next power of two, the sum below carries into the
  // exponent.
  const double units = std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent));
  const double code = units + std::ldexp(exponent - f.lowest_exponent, f.fraction_bits);
  if (f.nan == kFnuzNan && code == 0) return 0;
  return sign | (code > f.largest ? f.overflow : static_cast<uint8_t>(code));
}

using F8Values = std::array<double, 256>;
F8Values values_of(const F8Format& f) {
  F8Values values;
  for (int code = 0; code < 256; ++code) values[code] = from_f8(static_cast<uint8_t>(code), f);
  return values;
}

// The ziggurat of Marsaglia and Tsang with 128 layers ("The Ziggurat Method for Generating Random Variables", 2000).
constexpr int kLayers = 128;
constexpr double kTail = 3.442619855899;       // start of the tail in the bottom layer
constexpr double kArea = 9.91256303526217e-3;  // area of each layer
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

struct FloatLimits {
  lathe_dtype dtype;
  double rounding, smallest_rounding, largest;
  bool has_infinity;
};
// bf16 and f32 kernels may flush subnormals. The error is then below the smallest normal number.
constexpr FloatLimits kFloatLimits[] = {
    {LATHE_F32, 0x1p-24, 0x1p-126, 0x1.fffffep127, true}, {LATHE_F16, 0x1p-11, 0x1p-25, 65504, true},
    {LATHE_BF16, 0x1p-8, 0x1p-126, 0x1.fep127, true},     {LATHE_F8_E4M3, 0x1p-4, 0x1p-10, 448, false},
    {LATHE_F8_E5M2, 0x1p-3, 0x1p-17, 57344, true},        {LATHE_F8_E4M3_FNUZ, 0x1p-4, 0x1p-11, 240, false},
    {LATHE_F8_E5M2_FNUZ, 0x1p-3, 0x1p-18, 57344, false}};
const FloatLimits& limits_of(lathe_dtype dtype) {
  for (const FloatLimits& limits : kFloatLimits)
    if (limits.dtype == dtype) return limits;
  return kFloatLimits[0];
}

double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

const char* name_of(lathe_dtype dtype) {
  for (const DtypeRow& row : kDtypes)
    if (row.dtype == dtype) return row.name;
  const BlockFormat* blocks = block_format(dtype);
  return blocks == nullptr ? "none" : blocks->name;
}

lathe_dtype dtype_named(const std::string& name) {
  for (const DtypeRow& row : kDtypes)
    if (row.name == name) return row.dtype;
  for (const BlockFormat& f : block_formats())
    if (f.name == name) return f.dtype;
  return LATHE_DTYPE_NONE;
}

const std::vector<std::string>& float_names() {
  static const std::vector<std::string> names = {"f32", "f16", "bf16"};
  return names;
}

const std::vector<std::string>& factor_names() {
  static const std::vector<std::string> names = {"f32",    "f16",    "bf16",       "i8",
                                                 "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};
  return names;
}

const std::vector<std::string>& weight_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = factor_names();
    for (const BlockFormat& f : block_formats()) all.push_back(f.name);
    return all;
  }();
  return names;
}
const std::vector<std::string>& result_names() {
  static const std::vector<std::string> names = {"f32", "f16", "bf16", "i32"};
  return names;
}

bool is_integer(lathe_dtype dtype) { return dtype == LATHE_I8 || dtype == LATHE_I32 || dtype == LATHE_I64; }
bool is_fnuz(lathe_dtype dtype) { return dtype == LATHE_F8_E4M3_FNUZ || dtype == LATHE_F8_E5M2_FNUZ; }
bool is_f8(lathe_dtype dtype) { return dtype == LATHE_F8_E4M3 || dtype == LATHE_F8_E5M2 || is_fnuz(dtype); }

namespace {

uint8_t* block_at(void* data, const BlockFormat& f, int64_t index) {
  return static_cast<uint8_t*>(data) + index / f.elements * static_cast<int64_t>(f.bytes);
}

}  // namespace

size_t bytes_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F32:
    case LATHE_I32: return 4;
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    case LATHE_I8:
    case LATHE_F8_E4M3:
    case LATHE_F8_E5M2:
    case LATHE_F8_E4M3_FNUZ:
    case LATHE_F8_E5M2_FNUZ: return 1;
    default: break;
  }
  const BlockFormat* f = block_format(dtype);
  return f == nullptr ? 0 : f->bytes;
}

int64_t block_elements(lathe_dtype dtype) {
  const BlockFormat* f = block_format(dtype);
  return f == nullptr ? 1 : f->elements;
}

int64_t whole_blocks(lathe_dtype dtype, int64_t elements) {
  const int64_t block = block_elements(dtype);
  return (elements + block - 1) / block * block;
}

void store_scales(void* data, lathe_dtype dtype, int64_t index, double scale, uint64_t bits, bool whole) {
  const BlockFormat& f = *block_format(dtype);
  f.store_scales(block_at(data, f, index), scale, bits, whole);
}

double load(const void* data, lathe_dtype dtype, int64_t index) {
  const auto* at = static_cast<const uint8_t*>(data) + index * static_cast<int64_t>(bytes_of(dtype));
  switch (dtype) {
    case LATHE_F32: return read<float>(at);
    case LATHE_F16: return from_f16(read<uint16_t>(at));
    case LATHE_BF16: return bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(at)) << 16);
    case LATHE_I8: return read<int8_t>(at);
    case LATHE_I32: return read<int32_t>(at);
    case LATHE_I64: return static_cast<double>(read<int64_t>(at));
    case LATHE_F8_E4M3: {
      static const F8Values values = values_of(kE4M3);
      return values[*at];
    }
    case LATHE_F8_E5M2: {
      static const F8Values values = values_of(kE5M2);
      return values[*at];
    }
    case LATHE_F8_E4M3_FNUZ: {
      static const F8Values values = values_of(kE4M3Fnuz);
      return values[*at];
    }
    case LATHE_F8_E5M2_FNUZ: {
      static const F8Values values = values_of(kE5M2Fnuz);
      return values[*at];
    }
    default: break;
  }
  const BlockFormat* f = block_format(dtype);
  if (f == nullptr) return NAN;
  return f->load(static_cast<const uint8_t*>(data) + index / f->elements * static_cast<int64_t>(f->bytes),
                 index % f->elements);
}

void store(void* data, lathe_dtype dtype, int64_t index, double value) {
  auto* at = static_cast<uint8_t*>(data) + index * static_cast<int64_t>(bytes_of(dtype));
  switch (dtype) {
    case LATHE_F32: return write(at, static_cast<float>(value));
    case LATHE_F16: return write(at, to_f16(with_sticky_bit(value)));
    case LATHE_BF16: return write(at, to_bf16(with_sticky_bit(value)));
    case LATHE_I8: return write(at, static_cast<int8_t>(value));
    case LATHE_I32: return write(at, static_cast<int32_t>(value));
    case LATHE_I64: return write(at, static_cast<int64_t>(value));
    case LATHE_F8_E4M3: return write(at, to_f8(value, kE4M3));
    case LATHE_F8_E5M2: return write(at, to_f8(value, kE5M2));
    case LATHE_F8_E4M3_FNUZ: return write(at, to_f8(value, kE4M3Fnuz));
    case LATHE_F8_E5M2_FNUZ: return write(at, to_f8(value, kE5M2Fnuz));
    default: break;
  }
  if (const BlockFormat* f = block_format(dtype))
    f->store(block_at(data, *f, index), index % f->elements, static_cast<int64_t>(value));
}

int64_t load_integer(const void* data, lathe_dtype dtype, int64_t index) {
  const auto* at = static_cast<const uint8_t*>(data) + index * static_cast<int64_t>(bytes_of(dtype));
  return dtype == LATHE_I8 ? read<int8_t>(at) : dtype == LATHE_I32 ? read<int32_t>(at) : read<int64_t>(at);
}

void store_integer(void* data, lathe_dtype dtype, int64_t index, int64_t value) {
  auto* at = static_cast<uint8_t*>(data) + index * static_cast<int64_t>(bytes_of(dtype));
  if (dtype == LATHE_I8) return write(at, static_cast<int8_t>(value));
  if (dtype == LATHE_I32) return write(at, static_cast<int32_t>(value));
  write(at, value);
}

double rounding(lathe_dtype dtype) { return limits_of(dtype).rounding; }
double smallest_rounding(lathe_dtype dtype) { return limits_of(dtype).smallest_rounding; }
double largest(lathe_dtype dtype) { return limits_of(dtype).largest; }
double overflow_of(lathe_dtype dtype, double value) {
  return limits_of(dtype).has_infinity ? std::copysign(INFINITY, value) : NAN;
}

uint8_t poison_of(lathe_dtype dtype) {
  return dtype == LATHE_I32 || dtype == LATHE_I64 || is_fnuz(dtype) ? 0x80 : 0xff;
}

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

}  // namespace lathe::reference
