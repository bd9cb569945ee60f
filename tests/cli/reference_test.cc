// The tool's own judge: it must accept a right result and refuse each kind of wrong one.
#include "cli/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace lathe::cli {
namespace {

MatmulRequest request(int64_t m, int64_t n, int64_t k) {
  MatmulRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  return r;
}

// A plain float32 matmul with the epilogue, in an order of its own (K descending).
MatmulData compute(const MatmulRequest& r, Normal* random) {
  MatmulData data;
  data.a = Array(r.batch * r.m * r.k, r.dtype);
  data.b = Array(r.batch * r.k * r.n, r.dtype);
  data.c = Array(r.batch * r.m * r.n, r.out_dtype);
  data.bias = Array(r.n, r.out_dtype);
  data.residual = Array(r.batch * r.m * r.n, r.out_dtype);
  data.d = Array(r.batch * r.m * r.n, r.out_dtype);
  for (Array* array : {&data.a, &data.b, &data.c, &data.bias, &data.residual}) random->fill(array);
  for (int64_t batch = 0; batch < r.batch; ++batch) {
    for (int64_t i = 0; i < r.m; ++i) {
      for (int64_t j = 0; j < r.n; ++j) {
        float sum = 0;
        for (int64_t p = r.k; p-- > 0;) {
          sum += data.a.at(batch * r.m * r.k + (r.trans_a ? p * r.m + i : i * r.k + p)) *
                 data.b.at(batch * r.n * r.k + (r.trans_b ? j * r.k + p : p * r.n + j));
        }
        const int64_t at = (batch * r.m + i) * r.n + j;
        float x = r.alpha * sum + r.beta * data.c.at(at) + (r.bias ? data.bias.at(j) : 0);
        if (r.activation == LATHE_ACTIVATION_RELU) x = std::fmax(x, 0.0f);
        if (r.activation == LATHE_ACTIVATION_GELU) x = x * 0.5f * (1 + std::erf(x * 0.70710678f));
        if (r.activation == LATHE_ACTIVATION_GELU_TANH) {
          x = x * 0.5f * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
        }
        if (r.activation == LATHE_ACTIVATION_SILU) x = x / (1 + std::exp(-x));
        store(data.d.data(), r.out_dtype, at, x + (r.residual ? data.residual.at(at) : 0));
      }
    }
  }
  return data;
}

class Reference : public ::testing::Test {
 protected:
  Normal random{std::random_device{}()};
};

TEST_F(Reference, AcceptsRightResults) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    for (lathe_dtype out : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      for (int layout = 0; layout < 4; ++layout) {
        for (lathe_activation activation :
             {LATHE_ACTIVATION_NONE, LATHE_ACTIVATION_RELU, LATHE_ACTIVATION_GELU, LATHE_ACTIVATION_GELU_TANH,
              LATHE_ACTIVATION_SILU}) {
          MatmulRequest r = request(5, 7, 301);
          r.dtype = dtype;
          r.out_dtype = out;
          r.trans_a = layout & 1;
          r.trans_b = layout & 2;
          r.activation = activation;
          r.batch = 2;
          r.alpha = 0.25f;
          r.beta = -1.5f;
          r.bias = r.residual = true;
          const CheckResult result = check_matmul(r, compute(r, &random), &random);
          EXPECT_TRUE(result.ok) << result.what;
          EXPECT_EQ(result.checked, 2 * 5 * 7);
        }
      }
    }
  }
}

TEST_F(Reference, RefusesOneWrongElement) {
  const MatmulRequest r = request(4, 6, 1000);
  MatmulData data = compute(r, &random);
  ASSERT_TRUE(check_matmul(r, data, &random).ok);
  for (int64_t at = 0; at < data.d.count; ++at) {
    MatmulData wrong = data;
    // As much as one product left out, and no more.
    store(wrong.d.data(), LATHE_F32, at, data.d.at(at) + 0.05f);
    const CheckResult result = check_matmul(r, wrong, &random);
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.what.find(" row " + std::to_string(at / 6) + " column " + std::to_string(at % 6)),
              std::string::npos)
        << result.what;
  }
}

TEST_F(Reference, RefusesNaNAndUnwrittenElements) {
  const MatmulRequest r = request(3, 3, 3);
  MatmulData data = compute(r, &random);
  store(data.d.data(), LATHE_F32, 4, NAN);
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
  data.d.poison();
  const CheckResult result = check_matmul(r, data, &random);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.what, "9 of 9 elements were never written");
}

TEST_F(Reference, RefusesAForgottenEpilogue) {
  MatmulRequest r = request(8, 8, 8);
  const MatmulData data = compute(r, &random);
  for (int part = 0; part < 4; ++part) {
    MatmulRequest other = r;
    if (part == 0) other.bias = true;
    if (part == 1) other.residual = true;
    if (part == 2) other.activation = LATHE_ACTIVATION_SILU;
    if (part == 3) other.alpha = 1.01f;
    EXPECT_FALSE(check_matmul(other, data, &random).ok) << part;
  }
}

TEST_F(Reference, SamplesLargeShapesAndSaysSo) {
  const MatmulRequest r = request(600, 500, 700);  // 210 million products
  MatmulData data = compute(r, &random);
  const CheckResult result = check_matmul(r, data, &random);
  EXPECT_TRUE(result.ok) << result.what;
  EXPECT_LT(result.checked, result.total);
  EXPECT_NE(result.what.find("rows by"), std::string::npos) << result.what;
  // The corners are always among the samples.
  store(data.d.data(), LATHE_F32, 0, data.d.at(0) + 1);
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
}

TEST(ArgmaxReference, FirstMaximumAndItsValue) {
  ArgmaxRequest r;
  r.rows = 2;
  r.n = 4;
  r.values = true;
  Array x(8, LATHE_F32), indices(2, LATHE_I64), values(2, LATHE_F32);
  const float rows[8] = {1, 5, 5, 2, -3, -4, -1, -2};
  for (int i = 0; i < 8; ++i) store(x.data(), LATHE_F32, i, rows[i]);
  auto* index = static_cast<int64_t*>(indices.data());
  index[0] = 1;
  index[1] = 2;
  store(values.data(), LATHE_F32, 0, 5);
  store(values.data(), LATHE_F32, 1, -1);
  EXPECT_TRUE(check_argmax(r, x, indices, values).ok);
  index[0] = 2;  // a maximum, but not the first
  EXPECT_FALSE(check_argmax(r, x, indices, values).ok);
  index[0] = 1;
  store(values.data(), LATHE_F32, 1, -2);
  EXPECT_FALSE(check_argmax(r, x, indices, values).ok);
}

}  // namespace
}  // namespace lathe::cli
