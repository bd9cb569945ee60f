// Tests the float64 reference: it must accept right results and reject each kind of wrong result.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/ops.h"
#include "reference/argmax.h"
#include "reference/grouped_matmul.h"
#include "reference/matmul.h"
#include "reference/matmul_argmax.h"
#include "tests/sample.h"

namespace lathe::reference {
namespace {

MatmulRequest request(int64_t m, int64_t n, int64_t k) {
  MatmulRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  return r;
}

// Makes random operands, and computes D in f32 with the epilogue. K is summed in descending order, unlike in the
// reference.
MatmulData compute(const MatmulRequest& r, Normal* random) {
  const MatmulSpecs specs = specs_of(r);
  MatmulData data{Operand(specs.a), Operand(specs.b), {}, {}, {}, Operand(specs.d)};
  if (r.beta != 0) data.c = Operand(specs.c);
  if (r.bias) data.bias = Operand(specs.bias);
  if (r.residual) data.residual = Operand(specs.residual);
  for (Operand* operand : {&data.a, &data.b, &data.c, &data.bias, &data.residual}) {
    if (operand->exists()) operand->fill(r.fill, random);
  }
  for (int64_t batch = 0; batch < r.batch; ++batch) {
    for (int64_t i = 0; i < r.m; ++i) {
      for (int64_t j = 0; j < r.n; ++j) {
        float sum = 0;
        for (int64_t p = r.k; p-- > 0;) {
          sum += static_cast<float>(data.a.at(batch, i, p)) * static_cast<float>(data.b.at(batch, p, j));
        }
        float x = r.alpha * sum;
        if (r.beta != 0) x += r.beta * static_cast<float>(data.c.at(batch, i, j));
        if (r.bias) x += static_cast<float>(data.bias.at(0, 0, j));
        if (r.activation == LATHE_ACTIVATION_RELU) x = x < 0 ? 0 : x;
        if (r.activation == LATHE_ACTIVATION_GELU) x = x * 0.5f * (1 + std::erf(x * 0.70710678f));
        if (r.activation == LATHE_ACTIVATION_GELU_TANH) {
          x = x * 0.5f * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
        }
        if (r.activation == LATHE_ACTIVATION_SILU) x = x / (1 + std::exp(-x));
        data.d.set(batch, i, j, x + (r.residual ? static_cast<float>(data.residual.at(batch, i, j)) : 0));
      }
    }
  }
  return data;
}

class Reference : public ::testing::Test {
 protected:
  Normal random{seed_of_test(sample_seed())};
};

TEST_F(Reference, AcceptsRightResults) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8, LATHE_F8_E4M3, LATHE_F8_E5M2,
                            LATHE_F8_E4M3_FNUZ, LATHE_F8_E5M2_FNUZ}) {
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
          r.alpha = dtype == LATHE_I8 ? 1e-4f : 0.25f;
          r.beta = -1.5f;
          r.bias = r.residual = true;
          r.padding = layout;
          r.misalign = static_cast<size_t>(layout);
          r.broadcast_b = layout == 3;
          const CheckResult result = check_matmul(r, compute(r, &random), &random);
          EXPECT_TRUE(result.ok) << cli::command_of(r) << ": " << result.what;
          EXPECT_EQ(result.checked, 2 * 5 * 7);
        }
      }
    }
  }
}

TEST_F(Reference, AllowsNoErrorInSumsOfI8) {
  MatmulRequest r = request(5, 7, 301);
  r.dtype = LATHE_I8;
  r.out_dtype = LATHE_I32;
  MatmulData data = compute(r, &random);
  EXPECT_TRUE(check_matmul(r, data, &random).ok);
  data.d.set(0, 4, 6, data.d.at(0, 4, 6) + 1);
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
}

TEST_F(Reference, AllowsNoErrorInSumsOfIntegers) {
  MatmulRequest r = request(3, 5, 400);
  r.fill = Fill::kIntegers;
  MatmulData data = compute(r, &random);
  EXPECT_TRUE(check_matmul(r, data, &random).ok);
  data.d.set(0, 1, 2, data.d.at(0, 1, 2) + 1);  // as if the smallest possible product were missing
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
  r.fill = Fill::kNormal;  // the same error is allowed in a sum of fp8 numbers that are not integers
  r.dtype = LATHE_F8_E5M2;
  EXPECT_TRUE(check_matmul(r, data, &random).ok);
}

TEST_F(Reference, AllowsRoundingOfSumsWithScales) {
  MatmulRequest r = request(3, 5, 128);
  r.fill = Fill::kIntegers;
  EXPECT_EQ(sum_bound(r, 100), 0);
  r.b_format = "f8_128";
  EXPECT_GT(sum_bound(r, 100), 0) << "B is not filled with integers";
}

// `math` allows rounding of f32 operands, which needs a larger bound.
TEST_F(Reference, AllowsTheRoundingThatMathPermits) {
  for (const auto& [math, b_dtype] : {std::pair{LATHE_MATH_TF32, LATHE_F32}, {LATHE_MATH_BF16, LATHE_BF16}}) {
    MatmulRequest r = request(4, 4, 1000);
    r.b_dtype = b_dtype;
    MatmulData data = compute(r, &random);
    data.d.set(0, 0, 0, data.d.at(0, 0, 0) + 0.5);  // S is about 640
    EXPECT_FALSE(check_matmul(r, data, &random).ok) << math;
    r.math = math;
    EXPECT_TRUE(check_matmul(r, data, &random).ok) << math;
    data.d.set(0, 0, 0, data.d.at(0, 0, 0) + 5);
    EXPECT_FALSE(check_matmul(r, data, &random).ok) << math;
  }
}

TEST_F(Reference, AllowsNaNForAnInfinityRoundedToInt8) {
  MatmulRequest r = request(4, 4, 64);
  r.b_dtype = LATHE_Q4_0;
  r.trans_b = true;
  MatmulData data = compute(r, &random);
  data.a.set(0, 1, 0, INFINITY);
  for (int64_t j = 0; j < 4; ++j) data.d.set(0, 1, j, std::nan(""));
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
  r.math = LATHE_MATH_INT8;
  EXPECT_TRUE(check_matmul(r, data, &random).ok);
  data.d.set(0, 2, 0, std::nan(""));
  EXPECT_FALSE(check_matmul(r, data, &random).ok) << "NaN in a row whose inputs are finite";
}

TEST_F(Reference, ChecksNaNAndInfinity) {
  MatmulRequest r = request(6, 5, 20);
  r.fill = Fill::kSpecial;
  r.bias = true;
  for (int repeat = 0; repeat < 50; ++repeat) {
    for (lathe_activation activation :
         {LATHE_ACTIVATION_NONE, LATHE_ACTIVATION_RELU, LATHE_ACTIVATION_SILU}) {
      r.activation = activation;
      const MatmulData data = compute(r, &random);
      const CheckResult result = check_matmul(r, data, &random);
      ASSERT_TRUE(result.ok) << result.what;
      for (double wrong : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.123}) {
        MatmulData changed = data;
        const double right = data.d.at(0, 2, 3);
        if (std::isnan(right) || right == wrong || std::fabs(right - wrong) < 0.01) continue;
        changed.d.set(0, 2, 3, wrong);
        EXPECT_FALSE(check_matmul(r, changed, &random).ok) << right << " became " << wrong;
      }
    }
  }
}

TEST_F(Reference, RefusesOneWrongElement) {
  const MatmulRequest r = request(4, 6, 1000);
  MatmulData data = compute(r, &random);
  ASSERT_TRUE(check_matmul(r, data, &random).ok);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t column = 0; column < 6; ++column) {
      MatmulData wrong = data;
      // About as much as one missing product.
      wrong.d.set(0, row, column, data.d.at(0, row, column) + 0.05);
      const CheckResult result = check_matmul(r, wrong, &random);
      EXPECT_FALSE(result.ok);
      EXPECT_NE(result.what.find(absl::StrCat(" row ", row, " column ", column)), std::string::npos)
          << result.what;
    }
  }
}

TEST_F(Reference, RefusesNaNAndUnwrittenElements) {
  const MatmulRequest r = request(3, 3, 3);
  MatmulData data = compute(r, &random);
  data.d.set(0, 1, 1, NAN);
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
  data.d = Operand(specs_of(r).d);
  const CheckResult result = check_matmul(r, data, &random);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.what, "9 of 9 elements were never written");
}

TEST_F(Reference, RefusesAWriteOutsideTheElements) {
  MatmulRequest r = request(3, 4, 5);
  r.padding = 2;
  r.batch = 2;
  r.misalign = 2;
  const MatmulData data = compute(r, &random);
  ASSERT_TRUE(check_matmul(r, data, &random).ok);
  int elements = 0;
  for (size_t byte = 0; byte < data.d.image().size(); ++byte) {
    MatmulData changed = data;
    changed.d.image()[byte] ^= 0x55;
    const CheckResult result = check_matmul(r, changed, &random);
    const bool beside = result.what.find("is not part of an element") != std::string::npos;
    EXPECT_TRUE(!beside || !result.ok);
    elements += !beside;
  }
  EXPECT_EQ(elements, 2 * 3 * 4 * 4) << "D has this many bytes";
}

TEST_F(Reference, RefusesAMissingEpilogue) {
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

TEST_F(Reference, SamplesLargeShapes) {
  const MatmulRequest r = request(600, 500, 700);  // 210 million products
  MatmulData data = compute(r, &random);
  const CheckResult result = check_matmul(r, data, &random);
  EXPECT_TRUE(result.ok) << result.what;
  EXPECT_LT(result.checked, result.total);
  EXPECT_NE(result.what.find("rows by"), std::string::npos) << result.what;
  // The corners are always among the samples.
  data.d.set(0, 0, 0, data.d.at(0, 0, 0) + 1);
  EXPECT_FALSE(check_matmul(r, data, &random).ok);
}

// Products of a gate grow as squares, so they leave f16's range. 300 * 300 squared is far beyond it.
TEST_F(Reference, AcceptsTheInfinityOfAGateBeyondTheRange) {
  GroupedMatmulRequest r;
  r.m = r.k = r.groups = 1;
  r.n = 2;
  r.gate = LATHE_GATE_RELU;
  r.out_dtype = LATHE_F16;
  const GroupedMatmulSpecs specs = specs_of(r);
  GroupedMatmulData data;
  data.a = Operand(specs.a), data.b = Operand(specs.b), data.d = Operand(specs.d);
  data.routing = {0, 1};
  data.a.set(0, 0, 0, 300);
  data.b.set(0, 0, 0, 300);
  for (const double u : {300.0, -300.0}) {
    data.b.set(0, 0, 1, u);
    for (const double got : {HUGE_VAL, -HUGE_VAL, 65504.0, std::nan("")}) {
      data.d.set(0, 0, 0, got);
      EXPECT_EQ(check_grouped_matmul(r, data, &random).ok, std::isinf(got) && got * u > 0) << got;
    }
  }
  for (int64_t column : {0, 1}) data.b.set(0, 0, column, 0.5);  // 150 * 150 is within the range
  data.d.set(0, 0, 0, 22500);
  EXPECT_TRUE(check_grouped_matmul(r, data, &random).ok);
  data.d.set(0, 0, 0, HUGE_VAL);
  EXPECT_FALSE(check_grouped_matmul(r, data, &random).ok);
}

ArgmaxData argmax_data(const ArgmaxRequest& r, const std::vector<double>& x,
                       const std::vector<double>& indices, const std::vector<double>& values) {
  const ArgmaxSpecs specs = specs_of(r);
  ArgmaxData data{Operand(specs.x), Operand(specs.indices), Operand(specs.values)};
  for (int64_t row = 0; row < r.rows; ++row) {
    for (int64_t i = 0; i < r.n; ++i) data.x.set(0, row, i, x[static_cast<size_t>(row * r.n + i)]);
    data.indices.set(0, 0, row, indices[static_cast<size_t>(row)]);
    data.values.set(0, 0, row, values[static_cast<size_t>(row)]);
  }
  return data;
}

TEST(ArgmaxReference, ChecksFirstMaximumAndItsValue) {
  ArgmaxRequest r;
  r.rows = 2;
  r.n = 4;
  r.values = true;
  r.padding = 1;
  r.misalign = 1;
  const std::vector<double> x = {1, 5, 5, 2, -3, -4, -1, -2};
  EXPECT_TRUE(check_argmax(r, argmax_data(r, x, {1, 2}, {5, -1})).ok);
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {2, 2}, {5, -1})).ok) << "a maximum, but not the first";
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {1, 2}, {5, -2})).ok);
  r.index_offset = 100;
  EXPECT_TRUE(check_argmax(r, argmax_data(r, x, {101, 102}, {5, -1})).ok);
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {1, 2}, {5, -1})).ok);
  r.index_dtype = LATHE_I32;
  EXPECT_TRUE(check_argmax(r, argmax_data(r, x, {101, 102}, {5, -1})).ok);
}

// As doubles, 2^53 and 2^53 + 1 are equal.
TEST(ArgmaxReference, ComparesIndicesExactly) {
  ArgmaxRequest r;
  r.rows = 1;
  r.n = 2;
  r.index_offset = int64_t{1} << 53;
  const OperandSpec indices = specs_of(r).indices;
  ArgmaxData data = argmax_data(r, {1, 2}, {0}, {0});
  for (int64_t index : {r.index_offset, r.index_offset + 1, r.index_offset + 2}) {
    data.indices.copy(0, 0, 0, reinterpret_cast<const uint8_t*>(&index), 0);
    const CheckResult check = check_argmax(r, data);
    EXPECT_EQ(check.ok, index == r.index_offset + 1) << index;
    if (!check.ok) EXPECT_NE(check.what.find("got index " + std::to_string(index)), std::string::npos);
  }
  MatmulArgmaxRequest product;
  product.m = product.k = 1;
  product.n = 2;
  product.index_offset = r.index_offset;
  const MatmulArgmaxSpecs specs = specs_of(product);
  Normal random(3);
  MatmulArgmaxData all{Operand(specs.a), Operand(specs.b), {}, Operand(indices), {}};
  all.a.set(0, 0, 0, 1);
  all.b.set(0, 0, 0, 1);
  all.b.set(0, 0, 1, 2);
  for (int64_t index : {r.index_offset, r.index_offset + 1, r.index_offset + 2, INT64_MIN}) {
    all.indices.copy(0, 0, 0, reinterpret_cast<const uint8_t*>(&index), 0);
    EXPECT_EQ(check_matmul_argmax(product, all, &random).ok, index == r.index_offset + 1) << index;
  }
}

TEST(ArgmaxReference, TakesTheFirstNaNAndIndexZeroForMinusInfinity) {
  ArgmaxRequest r;
  r.rows = 3;
  r.n = 3;
  r.values = true;
  r.fill = Fill::kSpecial;
  const double inf = HUGE_VAL, nan = std::nan("");
  const std::vector<double> x = {inf, nan, nan, -inf, -inf, -inf, -inf, -1e30, -inf};
  EXPECT_TRUE(check_argmax(r, argmax_data(r, x, {1, 0, 1}, {nan, -inf, -1e30f})).ok);
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {0, 0, 1}, {inf, -inf, -1e30f})).ok);
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {2, 0, 1}, {nan, -inf, -1e30f})).ok);
  EXPECT_FALSE(check_argmax(r, argmax_data(r, x, {1, 2, 1}, {nan, -inf, -1e30f})).ok);
}

// A is off by up to half of its largest magnitude by 127 in INT8. A NaN may then be an infinity, and the other way round.
TEST(ArgmaxReference, RoundingToInt8WidensTheLogits) {
  MatmulArgmaxRequest r;
  r.m = 1, r.n = 3, r.k = 32;
  r.b_dtype = LATHE_Q8_0;
  const MatmulArgmaxSpecs specs = specs_of(r);
  Normal random(5);
  MatmulArgmaxData data{Operand(specs.a), Operand(specs.b), {}, Operand(specs.indices), {}};
  data.b.fill(Fill::kNormal, &random);
  const auto accepts = [&](lathe_math math) {
    r.math = math;
    std::vector<int64_t> accepted;
    for (int64_t index : {0, 1, 2}) {
      data.indices.copy(0, 0, 0, reinterpret_cast<const uint8_t*>(&index), 0);
      if (check_matmul_argmax(r, data, &random).ok) accepted.push_back(index);
    }
    return accepted;
  };
  for (int64_t j = 0; j < r.n; ++j) {
    store_scales(data.b.first_at(data.b.image().data()), LATHE_Q8_0, j * r.k, 1, 0, true);
    for (int64_t p = 0; p < r.k; ++p) data.b.set(0, p, j, j == 0 ? 50 : j == 1 ? 51 : 20);
  }
  for (int64_t p = 0; p < r.k; ++p) data.a.set(0, 0, p, p == 0 ? 100 : 0.1);
  // The logits are 103.1 times 50, 51 and 20. Each may be off by 32 * 0.4 times its weight.
  EXPECT_EQ(accepts(LATHE_MATH_STRICT), (std::vector<int64_t>{1}));
  EXPECT_EQ(accepts(LATHE_MATH_INT8), (std::vector<int64_t>{0, 1}));
  data.a.set(0, 0, 3, NAN);
  EXPECT_EQ(accepts(LATHE_MATH_STRICT), (std::vector<int64_t>{0}));
  EXPECT_EQ(accepts(LATHE_MATH_INT8), (std::vector<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace lathe::reference
