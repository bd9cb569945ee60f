#include "cli/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

namespace lathe::cli {
namespace {

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The compiler's own half precision is the independent expectation.
TEST(Numbers, EveryF16Loads) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    _Float16 expected;
    std::memcpy(&expected, &half, sizeof half);
    const float got = load(&half, LATHE_F16, 0), wanted = static_cast<float>(expected);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(got, wanted) << bits;
      EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << bits;
    }
  }
}

TEST(Numbers, F16StoresRoundToNearestEven) {
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 4093) {  // a prime step: every exponent, odd fractions
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
  // Exact ties.
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

TEST(Numbers, BF16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = load(&half, LATHE_BF16, 0);
    const float wanted = as_float(bits << 16);
    EXPECT_EQ(std::memcmp(&value, &wanted, sizeof value), 0) << bits;
    if (std::isnan(value)) continue;
    uint16_t back = 0;
    store(&back, LATHE_BF16, 0, value);
    EXPECT_EQ(back, half);
  }
  // A tie goes to the even neighbour, a little more goes up.
  for (const auto& [bits, wanted] :
       {std::pair{0x3f808000u, 0x3f80}, {0x3f818000u, 0x3f82}, {0x3f808001u, 0x3f81}}) {
    uint16_t got = 0;
    store(&got, LATHE_BF16, 0, as_float(bits));
    EXPECT_EQ(got, wanted);
  }
}

TEST(Numbers, PoisonIsNaN) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    Array array(3, dtype);
    EXPECT_EQ(array.at(2), 0);
    array.poison();
    EXPECT_TRUE(std::isnan(array.at(2)));
  }
}

// Moments of a standard normal, each within five standard errors, and the mass of the far tail that a
// ziggurat draws by another method than the rest.
TEST(Normal, HasTheMomentsAndTailOfANormal) {
  constexpr int kCount = 1 << 21;
  Normal random(std::random_device{}());
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
  EXPECT_NEAR(sum / kCount, 0, 5 * error);
  EXPECT_NEAR(square / kCount, 1, 5 * std::sqrt(2.0) * error);
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0) * error);
  const double expected = kCount * std::erfc(3.5 / std::sqrt(2.0));
  EXPECT_NEAR(tail, expected, 5 * std::sqrt(expected));
}

TEST(Normal, SeedDecides) {
  Normal a(7), b(7), c(8);
  EXPECT_EQ(a.bits(), b.bits());
  EXPECT_NE(a.bits(), c.bits());
}

}  // namespace
}  // namespace lathe::cli
