#include "dispatch/empty_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lathe {
namespace {

// The value of a half or bfloat16 as a double, from the definition of the format.
double value_of(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1 << fraction_bits) - 1);
  const double unit = std::ldexp(1.0, -fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * fraction * unit * std::ldexp(1.0, 1 - bias);
  return sign * (1.0 + fraction * unit) * std::ldexp(1.0, exponent - bias);
}

// Converts one row of elements from `in` to `out`, as beta * C with beta = 1.
template <typename In, typename Out>
std::vector<Out> convert(const std::vector<In>& in, DType in_type, DType out_type) {
  std::vector<Out> out(in.size());
  ProblemClass c;
  c.c = in_type;
  c.d = out_type;
  ArgumentBlock args;
  args.c = const_cast<In*>(in.data());
  args.d = out.data();
  args.m = 1;
  args.n = static_cast<int32_t>(in.size());
  args.ldc = args.ldd = args.n;
  args.batch = 1;
  args.alpha = 1.0f;
  args.beta = 1.0f;
  run_empty_product(c, args);
  return out;
}

TEST(EmptyProduct, WidensEveryHalfAndBfloat16) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const std::vector<float> half = convert<uint16_t, float>(all, DType::kF16, DType::kF32);
  const std::vector<float> bfloat = convert<uint16_t, float>(all, DType::kBF16, DType::kF32);
  for (size_t i = 0; i < all.size(); ++i) {
    const double h = value_of(all[i], 5, 10), b = value_of(all[i], 8, 7);
    if (std::isnan(h)) {
      ASSERT_TRUE(std::isnan(half[i])) << i;
    } else {
      ASSERT_EQ(half[i], h) << i;
    }
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(bfloat[i])) << i;
    } else {
      ASSERT_EQ(bfloat[i], b) << i;
    }
  }
}

// Tests every finite value, the midpoint to its neighbour, and the floats next to the midpoint. The result is the
// nearest value; in a tie, the one with the even fraction.
TEST(EmptyProduct, RoundsToNearestEven) {
  struct {
    DType type;
    int exponent_bits, fraction_bits;
    uint16_t infinity;
  } const formats[] = {{DType::kF16, 5, 10, 0x7c00}, {DType::kBF16, 8, 7, 0x7f80}};
  for (const auto& f : formats) {
    std::vector<float> in;
    std::vector<uint16_t> want;
    for (uint16_t bits = 0; bits < f.infinity; ++bits) {
      const double low = value_of(bits, f.exponent_bits, f.fraction_bits);
      // The value that would follow the largest finite one if the exponent were unbounded.
      const double high =
          bits + 1 < f.infinity
              ? value_of(static_cast<uint16_t>(bits + 1), f.exponent_bits, f.fraction_bits)
              : 2 * low - value_of(static_cast<uint16_t>(bits - 1), f.exponent_bits, f.fraction_bits);
      const double middle = (low + high) / 2;
      const float tie = static_cast<float>(middle);
      const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
      for (float sign : {1.0f, -1.0f}) {
        const uint16_t top = sign < 0 ? 0x8000 : 0;
        in.push_back(sign * static_cast<float>(low));
        want.push_back(bits == 0 ? 0 : bits | top);  // the product's +0 plus -0 is +0
        if (tie != middle) continue;  // subnormals of bfloat16: f32 cannot represent the midpoint
        in.push_back(sign * tie);
        want.push_back(even | top);
        in.push_back(sign * std::nextafter(tie, 0.0f));
        want.push_back(bits | top);
        in.push_back(sign * std::nextafter(tie, std::numeric_limits<float>::infinity()));
        want.push_back(static_cast<uint16_t>(bits + 1) | top);
      }
    }
    const std::vector<uint16_t> got = convert<float, uint16_t>(in, DType::kF32, f.type);
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << static_cast<int>(f.type) << " of " << in[i];
  }
}

TEST(EmptyProduct, KeepsNansAndInfinities) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (DType type : {DType::kF16, DType::kBF16}) {
    const std::vector<uint16_t> bits =
        convert<float, uint16_t>({inf, -inf, nan, 1e38f, -1e38f}, DType::kF32, type);
    const std::vector<float> back = convert<uint16_t, float>(bits, type, DType::kF32);
    EXPECT_EQ(back[0], inf);
    EXPECT_EQ(back[1], -inf);
    EXPECT_TRUE(std::isnan(back[2]));
    if (type == DType::kF16) {
      EXPECT_EQ(back[3], inf);
      EXPECT_EQ(back[4], -inf);
    }
  }
}

TEST(EmptyProduct, AppliesTheEpilogueInOrder) {
  constexpr int64_t kM = 3, kN = 5, kBatch = 2, kLdc = 6, kLdd = 8, kLdr = 7;
  const double kSqrt2OverPi = std::sqrt(2.0 / std::acos(-1.0));
  for (int activation = 0; activation <= 4; ++activation) {
    std::vector<float> c(kM * kLdc), bias(kN), residual(kBatch * kM * kLdr), d(kBatch * kM * kLdd, -77.0f);
    for (size_t i = 0; i < c.size(); ++i) c[i] = 0.3f * static_cast<float>(i) - 2.5f;
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.125f * static_cast<float>(i);
    for (size_t i = 0; i < residual.size(); ++i) residual[i] = 10.0f + static_cast<float>(i);
    ProblemClass p;
    p.c = p.d = p.bias = p.residual = DType::kF32;
    p.activation = static_cast<Activation>(activation);
    ArgumentBlock args;
    args.c = c.data();
    args.d = d.data();
    args.bias = bias.data();
    args.residual = residual.data();
    args.ldc = kLdc;
    args.ldd = kLdd;
    args.ldr = kLdr;
    args.stride_c = 0;
    args.stride_d = kM * kLdd;
    args.stride_r = kM * kLdr;
    args.m = kM;
    args.n = kN;
    args.batch = kBatch;
    args.alpha = 3.0f;
    args.beta = -0.75f;
    run_empty_product(p, args);
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kLdd; ++j) {
          const float got = d[static_cast<size_t>(b * kM * kLdd + i * kLdd + j)];
          if (j >= kN) {
            ASSERT_EQ(got, -77.0f) << "padding was written";
            continue;
          }
          const double x = -0.75 * c[static_cast<size_t>(i * kLdc + j)] + bias[static_cast<size_t>(j)];
          const double y[] = {x, std::max(x, 0.0), x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))),
                              x * 0.5 * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x))),
                              x / (1 + std::exp(-x))};
          const double want = y[activation] + residual[static_cast<size_t>(b * kM * kLdr + i * kLdr + j)];
          ASSERT_NEAR(got, want, 1e-5) << activation << " at " << b << "," << i << "," << j;
        }
      }
    }
  }
}

TEST(EmptyProduct, MultipliesByTheResidual) {
  std::vector<float> bias = {2.0f, 9.0f, -9.0f}, residual = {3.0f, -0.5f, 4.0f}, d(3);
  ProblemClass p;
  p.d = p.bias = p.residual = DType::kF32;
  p.activation = Activation::kClampPlusOne;
  p.combine = Combine::kMultiply;
  ArgumentBlock args;
  args.bias = bias.data();
  args.residual = residual.data();
  args.d = d.data();
  args.m = 1;
  args.n = 3;
  args.batch = 1;
  run_empty_product(p, args);
  EXPECT_EQ(d, (std::vector<float>{9.0f, -4.0f, -24.0f}));
}

TEST(EmptyProduct, ReluKeepsNan) {
  const float nan = std::nanf("");
  std::vector<float> c = {nan, -1.0f}, d(2);
  ProblemClass p;
  p.c = p.d = DType::kF32;
  p.activation = Activation::kRelu;
  ArgumentBlock args;
  args.c = c.data();
  args.d = d.data();
  args.m = 1;
  args.n = 2;
  args.batch = 1;
  args.alpha = args.beta = 1.0f;
  run_empty_product(p, args);
  EXPECT_TRUE(std::isnan(d[0]));
  EXPECT_EQ(d[1], 0.0f);
}

}  // namespace
}  // namespace lathe
