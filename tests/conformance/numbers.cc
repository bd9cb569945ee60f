#include "numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/numbers.h"

namespace lathe::conformance {
namespace {

struct Format {
  int significand_bits;  // including the hidden bit
  int exponent_bits;
  bool has_infinity;     // else all ones is NaN, and the codes below it are numbers
  bool is_fnuz = false;  // FNUZ: the bias is larger by one, and the code of -0 is the only NaN
};

Format format_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F16: return {11, 5, true};
    case LATHE_BF16: return {8, 8, true};
    case LATHE_F8_E4M3: return {4, 4, false};
    case LATHE_F8_E5M2: return {3, 5, true};
    case LATHE_F8_E4M3_FNUZ: return {4, 4, false, true};
    case LATHE_F8_E5M2_FNUZ: return {3, 5, false, true};
    default: return {24, 8, true};
  }
}

int bias_of(Format f) { return (1 << (f.exponent_bits - 1)) - (f.is_fnuz ? 0 : 1); }

uint32_t encode(Format f, double value) {
  const uint32_t sign_bit = 1u << (f.significand_bits - 1 + f.exponent_bits);
  if (f.is_fnuz && (value == 0 || !std::isfinite(value))) return value == 0 ? 0 : sign_bit;
  const uint32_t sign = std::signbit(value) ? sign_bit : 0;
  const int fraction_bits = f.significand_bits - 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  if (!f.has_infinity && !std::isfinite(value)) return sign | ((1u << (fraction_bits + f.exponent_bits)) - 1);
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
  if (f.is_fnuz && bits == 1u << (fraction_bits + f.exponent_bits))
    return std::numeric_limits<double>::quiet_NaN();
  const double sign = bits >> (fraction_bits + f.exponent_bits) & 1 ? -1 : 1;
  const bool all_ones = exponent == exponent_mask && fraction == (1u << fraction_bits) - 1;
  if (f.has_infinity ? exponent == exponent_mask : all_ones && !f.is_fnuz) {
    if (!f.has_infinity) return std::numeric_limits<double>::quiet_NaN();
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias_of(f) - fraction_bits);
  return sign *
         std::ldexp(fraction | 1u << fraction_bits, static_cast<int>(exponent) - bias_of(f) - fraction_bits);
}

std::vector<double> decode_all(lathe_dtype dtype) {
  std::vector<double> values(size_t{1} << (8 * bytes_of(dtype)));
  for (uint32_t bits = 0; bits < values.size(); ++bits) values[bits] = decode(format_of(dtype), bits);
  return values;
}

}  // namespace

size_t bytes_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    case LATHE_I8:
    case LATHE_F8_E4M3:
    case LATHE_F8_E5M2:
    case LATHE_F8_E4M3_FNUZ:
    case LATHE_F8_E5M2_FNUZ: return 1;
    case LATHE_F32:
    case LATHE_I32: return 4;
    default: break;
  }
  const cli::BlockFormat* blocks = cli::block_format(dtype);
  return blocks == nullptr ? 4 : blocks->bytes;
}

const char* name_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F32: return "f32";
    case LATHE_F16: return "f16";
    case LATHE_BF16: return "bf16";
    case LATHE_I32: return "i32";
    case LATHE_I64: return "i64";
    case LATHE_I8: return "i8";
    case LATHE_F8_E4M3: return "f8e4m3";
    case LATHE_F8_E5M2: return "f8e5m2";
    case LATHE_F8_E4M3_FNUZ: return "f8e4m3fnuz";
    case LATHE_F8_E5M2_FNUZ: return "f8e5m2fnuz";
    default: break;
  }
  const cli::BlockFormat* blocks = cli::block_format(dtype);
  return blocks == nullptr ? "none" : blocks->name;
}

int64_t elements_of(lathe_dtype dtype) {
  const cli::BlockFormat* blocks = cli::block_format(dtype);
  return blocks == nullptr ? 1 : blocks->elements;
}
bool is_integer(lathe_dtype dtype) { return dtype == LATHE_I8 || dtype == LATHE_I32 || dtype == LATHE_I64; }

double largest(lathe_dtype dtype) {
  const Format f = format_of(dtype);
  const double unit = std::ldexp(1.0, 1 - f.significand_bits);
  if (f.is_fnuz) return std::ldexp(2 - unit, bias_of(f) - 1);
  return f.has_infinity ? std::ldexp(2 - unit, bias_of(f)) : std::ldexp(2 - 2 * unit, bias_of(f) + 1);
}

double round_to(lathe_dtype dtype, double x) {
  if (is_integer(dtype)) return x;
  if (dtype == LATHE_F32) return static_cast<float>(x);
  const Format f = format_of(dtype);
  const double beyond = f.has_infinity ? std::copysign(std::numeric_limits<double>::infinity(), x)
                                       : std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return beyond;
  if (std::isnan(x) || x == 0) return x;
  const int smallest = 1 - bias_of(f);
  const int exponent = std::ilogb(x);
  const int unit = (exponent < smallest ? smallest : exponent) - (f.significand_bits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::fabs(rounded) > largest(dtype) ? beyond : rounded;
}

void store(lathe_dtype dtype, double value, void* at) {
  const auto put = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (dtype) {
    case LATHE_F32: return put(static_cast<float>(value));
    case LATHE_I8: return put(std::isnan(value) ? int8_t{-128} : static_cast<int8_t>(value));
    case LATHE_I32: return put(std::isnan(value) ? INT32_MIN : static_cast<int32_t>(value));
    case LATHE_F8_E4M3:
    case LATHE_F8_E5M2:
    case LATHE_F8_E4M3_FNUZ:
    case LATHE_F8_E5M2_FNUZ: return put(static_cast<uint8_t>(encode(format_of(dtype), value)));
    default: return put(static_cast<uint16_t>(encode(format_of(dtype), value)));
  }
}

double load(lathe_dtype dtype, const void* at) {
  const auto get = [at](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return zero;
  };
  static const std::vector<double> f16 = decode_all(LATHE_F16), bf16 = decode_all(LATHE_BF16),
                                   e4m3 = decode_all(LATHE_F8_E4M3), e5m2 = decode_all(LATHE_F8_E5M2),
                                   e4m3_fnuz = decode_all(LATHE_F8_E4M3_FNUZ),
                                   e5m2_fnuz = decode_all(LATHE_F8_E5M2_FNUZ);
  switch (dtype) {
    case LATHE_F32: return get(0.0f);
    case LATHE_I8: return get(int8_t{0});
    case LATHE_I32: return get(int32_t{0});
    case LATHE_F16: return f16[get(uint16_t{0})];
    case LATHE_BF16: return bf16[get(uint16_t{0})];
    case LATHE_F8_E4M3: return e4m3[get(uint8_t{0})];
    case LATHE_F8_E5M2: return e5m2[get(uint8_t{0})];
    case LATHE_F8_E4M3_FNUZ: return e4m3_fnuz[get(uint8_t{0})];
    case LATHE_F8_E5M2_FNUZ: return e5m2_fnuz[get(uint8_t{0})];
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) {  // splitmix64, the seeding that the authors of the generator recommend
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
