#include "reference/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "reference/operand.h"
#include "tests/sample.h"

namespace lathe::reference {
namespace {

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(Numbers, AQ4_0BlockIsAScaleAndThenHalves) {
  uint8_t block[18] = {0x00, 0x3c};  // f16 of 1
  block[2] = 0x90;
  block[17] = 0x0f;
  EXPECT_EQ(load(block, LATHE_Q4_0, 0), -8);
  EXPECT_EQ(load(block, LATHE_Q4_0, 16), 1);
  EXPECT_EQ(load(block, LATHE_Q4_0, 15), 7);
  EXPECT_EQ(load(block, LATHE_Q4_0, 31), -8);
}

// The compiler's _Float16 gives the expected values.
TEST(Numbers, LoadsEveryF16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    _Float16 expected;
    std::memcpy(&expected, &half, sizeof half);
    const double got = load(&half, LATHE_F16, 0);
    const float wanted = static_cast<float>(expected);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(got, wanted) << bits;
      EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << bits;
    }
  }
}

TEST(Numbers, StoresF16RoundedToNearestEven) {
  for (uint64_t bits = 0; bits < 0x100000000u;
       bits += 4093) {  // a prime step gives all exponents and odd fractions
    const float value = as_float(static_cast<uint32_t>(bits));
    uint16_t got = 0, wanted = 0;
    store(&got, LATHE_F16, 0, value);
    const _Float16 half = static_cast<_Float16>(value);
    std::memcpy(&wanted, &half, sizeof wanted);
    if (std::isnan(value)) {
      EXPECT_GT(got & 0x7fff, 0x7c00) << bits;
    } else {
      EXPECT_EQ(got, wanted) << value;
    }
  }
  // Ties between two f16 numbers.
  for (const auto& [value, wanted] : {std::pair{1 + 0x1p-11f, 0x3c00},
                                      {1 + 3 * 0x1p-11f, 0x3c02},
                                      {65519.0f, 0x7bff},
                                      {65520.0f, 0x7c00},
                                      {0x1p-25f, 0x0000},
                                      {3 * 0x1p-25f, 0x0002}}) {
    uint16_t got = 0;
    store(&got, LATHE_F16, 0, value);
    EXPECT_EQ(got, wanted) << value;
  }
}

TEST(Numbers, LoadsAndStoresEveryBF16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(load(&half, LATHE_BF16, 0));
    const float wanted = as_float(bits << 16);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    EXPECT_EQ(std::memcmp(&value, &wanted, sizeof value), 0) << bits;
    uint16_t back = 0;
    store(&back, LATHE_BF16, 0, value);
    EXPECT_EQ(back, half);
  }
  // A tie rounds to the even neighbour. A slightly larger value rounds up.
  for (const auto& [bits, wanted] :
       {std::pair{0x3f808000u, 0x3f80}, {0x3f818000u, 0x3f82}, {0x3f808001u, 0x3f81}}) {
    uint16_t got = 0;
    store(&got, LATHE_BF16, 0, as_float(bits));
    EXPECT_EQ(got, wanted);
  }
}

// All finite non-negative values of an 8-bit format, computed from its definition, in the order of their codes.
std::vector<double> f8_values(int exponent_bits, int fraction_bits, int bias, int largest_code) {
  std::vector<double> values;
  for (int code = 0; code <= largest_code; ++code) {
    const int exponent = code >> fraction_bits;
    EXPECT_LT(exponent, 1 << exponent_bits);
    const double fraction = std::ldexp(code & ((1 << fraction_bits) - 1), -fraction_bits);
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                   : std::ldexp(1 + fraction, exponent - bias));
  }
  return values;
}

struct F8 {
  lathe_dtype dtype;
  std::vector<double> values;
  bool has_infinity;
  bool is_fnuz;
};
// OCP OFP8: the largest value of e4m3 is 448 (0x7e), and it has no infinity; that of e5m2 is 57344 (0x7b). FNUZ: 0x80
// is the only NaN, and all other codes are numbers.
std::vector<F8> f8_formats() {
  return {{LATHE_F8_E4M3, f8_values(4, 3, 7, 0x7e), false, false},
          {LATHE_F8_E5M2, f8_values(5, 2, 15, 0x7b), true, false},
          {LATHE_F8_E4M3_FNUZ, f8_values(4, 3, 8, 0x7f), false, true},
          {LATHE_F8_E5M2_FNUZ, f8_values(5, 2, 16, 0x7f), false, true}};
}

TEST(Numbers, LoadsEveryF8) {
  EXPECT_EQ(f8_formats()[0].values.back(), 448);
  EXPECT_EQ(f8_formats()[1].values.back(), 57344);
  EXPECT_EQ(f8_formats()[2].values.back(), 240);
  EXPECT_EQ(f8_formats()[3].values.back(), 57344);
  for (const F8& f : f8_formats()) {
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      const double got = load(&byte, f.dtype, 0);
      const size_t magnitude = code & 0x7f;
      if (f.is_fnuz && code == 0x80) {
        EXPECT_TRUE(std::isnan(got));
        continue;
      }
      EXPECT_EQ(std::signbit(got), code >= 128) << code;
      if (magnitude < f.values.size()) {
        EXPECT_EQ(std::fabs(got), f.values[magnitude]) << code;
      } else if (f.has_infinity && magnitude == f.values.size()) {
        EXPECT_TRUE(std::isinf(got)) << code;
      } else {
        EXPECT_TRUE(std::isnan(got)) << code;
      }
    }
  }
}

TEST(Numbers, StoresF8RoundedToNearestEven) {
  for (const F8& f : f8_formats()) {
    const auto stored = [&](double value) {
      uint8_t code = 0;
      store(&code, f.dtype, 0, value);
      return int{code};
    };
    const auto largest = static_cast<int>(f.values.size()) - 1;
    for (int code = 0; code < largest; ++code) {
      const double low = f.values[code], high = f.values[code + 1], middle = (low + high) / 2;
      for (int sign : {0, 0x80}) {
        const double s = sign ? -1 : 1;
        const auto signed_code = [&](int magnitude) {
          return f.is_fnuz && magnitude == 0 ? 0 : magnitude | sign;
        };
        EXPECT_EQ(stored(s * low), signed_code(code));
        EXPECT_EQ(stored(s * middle), signed_code(code % 2 ? code + 1 : code)) << middle;
        EXPECT_EQ(stored(s * std::nextafter(middle, 0.0)), signed_code(code));
        EXPECT_EQ(stored(s * std::nextafter(middle, 1e9)), (code + 1) | sign);
      }
    }
    const double top = f.values[largest], step = top - f.values[largest - 1];
    EXPECT_EQ(stored(top + step * 0.49), largest);
    const uint8_t beyond = static_cast<uint8_t>(stored(top + step * 0.51)),
                  nan = static_cast<uint8_t>(stored(NAN));
    EXPECT_EQ(std::isinf(load(&beyond, f.dtype, 0)), f.has_infinity);
    EXPECT_EQ(std::isnan(load(&beyond, f.dtype, 0)), !f.has_infinity);
    EXPECT_TRUE(std::isnan(load(&nan, f.dtype, 0)));
    EXPECT_EQ(stored(INFINITY), int{beyond});
    EXPECT_EQ(stored(-INFINITY), beyond | 0x80);
  }
}

TEST(Numbers, LoadsAndStoresIntegersAtAnyAlignment) {
  uint8_t bytes[24] = {};
  for (const auto& [dtype, value] : {std::pair{LATHE_I8, -128.0},
                                     {LATHE_I8, 127.0},
                                     {LATHE_I32, -2147483648.0},
                                     {LATHE_I32, 2147483647.0},
                                     {LATHE_I64, 1099511627776.0}}) {
    store(bytes + 3, dtype, 1, value);
    EXPECT_EQ(load(bytes + 3, dtype, 1), value);
    EXPECT_EQ(bytes[2], 0);
  }
}

TEST(Numbers, KeepsEveryBitOfIntegers) {
  uint8_t bytes[24] = {};
  for (int64_t value : {(int64_t{1} << 53) + 1, -(int64_t{1} << 53) - 1, INT64_MAX, INT64_MIN, int64_t{-1}}) {
    store_integer(bytes + 3, LATHE_I64, 1, value);
    EXPECT_EQ(load_integer(bytes + 3, LATHE_I64, 1), value);
    // Only the low bits are stored.
    store_integer(bytes + 3, LATHE_I32, 1, value);
    EXPECT_EQ(load_integer(bytes + 3, LATHE_I32, 1), static_cast<int32_t>(value));
    store_integer(bytes + 3, LATHE_I8, 1, value);
    EXPECT_EQ(load_integer(bytes + 3, LATHE_I8, 1), static_cast<int8_t>(value));
    EXPECT_EQ(bytes[2], 0);
  }
}

// The values are so close to a tie between 16-bit numbers that rounding them to float first would give the tie.
TEST(Numbers, RoundsADoubleOnce) {
  const auto stored = [](lathe_dtype dtype, double value) {
    uint16_t code = 0;
    store(&code, dtype, 0, value);
    return load(&code, dtype, 0);
  };
  constexpr double kLittle = 0x1p-40;
  for (double sign : {1, -1}) {
    EXPECT_EQ(stored(LATHE_BF16, sign * (1 + 0x1p-8)), sign);
    EXPECT_EQ(stored(LATHE_BF16, sign * (1 + 0x1p-8 + kLittle)), sign * (1 + 0x1p-7));
    EXPECT_EQ(stored(LATHE_BF16, sign * (1 + 3 * 0x1p-8 - kLittle)), sign * (1 + 0x1p-7));
    EXPECT_EQ(stored(LATHE_F16, sign * (1 + 0x1p-11)), sign);
    EXPECT_EQ(stored(LATHE_F16, sign * (1 + 0x1p-11 + kLittle)), sign * (1 + 0x1p-10));
    EXPECT_EQ(stored(LATHE_F16, sign * (1 + 3 * 0x1p-11 - kLittle)), sign * (1 + 0x1p-10));
    EXPECT_EQ(stored(LATHE_F16, sign * 1e300), sign * INFINITY);
    EXPECT_EQ(stored(LATHE_BF16, sign * 1e300), sign * INFINITY);
    EXPECT_EQ(stored(LATHE_BF16, sign * 1e-300), 0);
  }
  EXPECT_TRUE(std::isnan(stored(LATHE_F16, NAN)));
  EXPECT_TRUE(std::isnan(stored(LATHE_BF16, NAN)));
}

// Compares the limits with the list of all values of each 8-bit float.
TEST(Numbers, GivesTheLimitsOfF8) {
  for (const F8& f : f8_formats()) {
    const double one_ulp = *std::upper_bound(f.values.begin(), f.values.end(), 1.0) - 1;
    EXPECT_EQ(rounding(f.dtype), one_ulp / 2);
    EXPECT_EQ(smallest_rounding(f.dtype), f.values[1] / 2);
    EXPECT_EQ(largest(f.dtype), f.values.back());
    EXPECT_EQ(std::isnan(overflow_of(f.dtype, 1)), !f.has_infinity);
    if (f.has_infinity) EXPECT_EQ(overflow_of(f.dtype, -1), -INFINITY);
  }
}

TEST(Operand, RandomIntegersHaveAllMagnitudes) {
  Normal random(11);
  OperandSpec spec;
  spec.rows = 1;
  spec.columns = 4000;
  for (const auto& [dtype, width] : {std::pair{LATHE_I32, 32}, {LATHE_I64, 64}}) {
    spec.dtype = dtype;
    Operand operand(spec);
    operand.fill(Fill::kNormal, &random);
    const int64_t most = INT64_MAX >> (64 - width);
    int small = 0, large = 0, near_least = 0, near_most = 0;
    for (int64_t i = 0; i < spec.columns; ++i) {
      const int64_t x = operand.integer_at(0, 0, i);
      small += x >= -128 && x < 128;
      large += x >= most / 2 || x < -(most / 2);
      near_least += x < -most + 100;
      near_most += x > most - 100;
    }
    EXPECT_GT(small, 100);
    EXPECT_GT(large, 100);
    EXPECT_GT(near_least, 10);
    EXPECT_GT(near_most, 10);
  }
}

TEST(Numbers, ConvertsNamesBothWays) {
  for (const std::string& name :
       {"f32", "f16", "bf16", "i8", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "i32", "i64"}) {
    EXPECT_EQ(name_of(dtype_named(name)), name);
    EXPECT_GT(bytes_of(dtype_named(name)), 0u);
  }
  EXPECT_EQ(dtype_named("f64"), LATHE_DTYPE_NONE);
}

TEST(Numbers, PoisonIsNaNOrAnImpossibleResult) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_F8_E4M3, LATHE_F8_E5M2,
                            LATHE_F8_E4M3_FNUZ, LATHE_F8_E5M2_FNUZ}) {
    const std::vector<uint8_t> bytes(4, poison_of(dtype));
    EXPECT_TRUE(std::isnan(load(bytes.data(), dtype, 0))) << dtype;
  }
  const std::vector<uint8_t> bytes(8, poison_of(LATHE_I32));
  EXPECT_LT(load(bytes.data(), LATHE_I32, 0), -128.0 * 127 * 131071);
  EXPECT_LT(load(bytes.data(), LATHE_I64, 0), 0);  // not a valid index
}

// The moments must be those of a standard normal within seven standard errors, beyond which no seed comes by chance. So
// must the mass of the far tail, which the ziggurat draws by another method.
TEST(Normal, HasTheMomentsAndTailOfANormal) {
  constexpr int kCount = 1 << 21;
  Normal random(seed_of_test(sample_seed()));
  double sum = 0, square = 0, fourth = 0;
  int tail = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.next();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    tail += std::fabs(x) > 3.5;
  }
  const double error = 1 / std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0, 7 * error);
  EXPECT_NEAR(square / kCount, 1, 7 * std::sqrt(2.0) * error);
  EXPECT_NEAR(fourth / kCount, 3, 7 * std::sqrt(96.0) * error);
  const double expected = kCount * std::erfc(3.5 / std::sqrt(2.0));
  EXPECT_NEAR(tail, expected, 7 * std::sqrt(expected));
}

TEST(Normal, DependsOnlyOnTheSeed) {
  Normal a(7), b(7), c(8);
  EXPECT_EQ(a.bits(), b.bits());
  EXPECT_NE(a.bits(), c.bits());
}

}  // namespace
}  // namespace lathe::reference
