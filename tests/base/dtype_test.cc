#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "lathe/lathe.h"

namespace lathe {
namespace {

// Every value of E in [0, count) has a unique name, and parsing the name returns the value.
template <typename E>
void expect_names_round_trip(int32_t count) {
  std::set<std::string> names;
  for (int32_t i = 0; i < count; ++i) {
    const std::string name(name_of(static_cast<E>(i)));
    EXPECT_TRUE(names.insert(name).second) << name << " names two values";
    E back = static_cast<E>(-1);
    ASSERT_TRUE(parse(name, &back)) << name;
    EXPECT_EQ(static_cast<int32_t>(back), i) << name;
  }
  E unchanged = static_cast<E>(1);
  EXPECT_FALSE(parse("no such name", &unchanged));
  EXPECT_FALSE(parse("", &unchanged));
  EXPECT_EQ(static_cast<int32_t>(unchanged), 1);
  EXPECT_EQ(name_of(static_cast<E>(count)), "unknown");
}

TEST(DTypeTest, NamesRoundTrip) {
  expect_names_round_trip<DType>(static_cast<int32_t>(kDTypeCount));
  expect_names_round_trip<Activation>(7);
  expect_names_round_trip<Combine>(2);
  expect_names_round_trip<Determinism>(3);
  expect_names_round_trip<Math>(4);
}

TEST(DTypeTest, ValuesEqualThePublicEnums) {
  EXPECT_EQ(static_cast<int>(DType::kF32), LATHE_F32);
  EXPECT_EQ(static_cast<int>(DType::kF16), LATHE_F16);
  EXPECT_EQ(static_cast<int>(DType::kBF16), LATHE_BF16);
  EXPECT_EQ(static_cast<int>(DType::kI32), LATHE_I32);
  EXPECT_EQ(static_cast<int>(DType::kI64), LATHE_I64);
  EXPECT_EQ(static_cast<int>(DType::kI8), LATHE_I8);
  EXPECT_EQ(static_cast<int>(DType::kF8E4M3), LATHE_F8_E4M3);
  EXPECT_EQ(static_cast<int>(DType::kF8E5M2), LATHE_F8_E5M2);
  EXPECT_EQ(static_cast<int>(DType::kF8E4M3Fnuz), LATHE_F8_E4M3_FNUZ);
  EXPECT_EQ(static_cast<int>(DType::kF8E5M2Fnuz), LATHE_F8_E5M2_FNUZ);
  EXPECT_EQ(static_cast<int>(DType::kQ4_0), LATHE_Q4_0);
  EXPECT_EQ(static_cast<int>(DType::kQ8_0), LATHE_Q8_0);
  EXPECT_EQ(static_cast<int>(DType::kQ4_1), LATHE_Q4_1);
  EXPECT_EQ(static_cast<int>(DType::kQ5_0), LATHE_Q5_0);
  EXPECT_EQ(static_cast<int>(DType::kQ5_1), LATHE_Q5_1);
  EXPECT_EQ(static_cast<int>(DType::kQ4_K), LATHE_Q4_K);
  EXPECT_EQ(static_cast<int>(DType::kQ5_K), LATHE_Q5_K);
  EXPECT_EQ(static_cast<int>(DType::kQ6_K), LATHE_Q6_K);
  EXPECT_EQ(static_cast<int>(DType::kIQ4_NL), LATHE_IQ4_NL);
  EXPECT_EQ(static_cast<int>(DType::kIQ4_XS), LATHE_IQ4_XS);
  EXPECT_EQ(static_cast<int>(DType::kMXFP4), LATHE_MXFP4);
  EXPECT_EQ(static_cast<int>(DType::kF4E2M1), LATHE_F4_E2M1);
  EXPECT_EQ(static_cast<int>(DType::kF8E8M0), LATHE_F8_E8M0);
  EXPECT_EQ(static_cast<int>(DType::kU4Awq), LATHE_U4_AWQ);
  EXPECT_EQ(static_cast<int>(DType::kU4Gptq), LATHE_U4_GPTQ);
  EXPECT_EQ(static_cast<int>(DType::kU4GptqV2), LATHE_U4_GPTQ_V2);
  EXPECT_EQ(static_cast<int>(DType::kU4x128), LATHE_U4_128);
  EXPECT_EQ(static_cast<int>(Math::kTf32), LATHE_MATH_TF32);
  EXPECT_EQ(static_cast<int>(Math::kInt8), LATHE_MATH_INT8);
  EXPECT_EQ(static_cast<int>(Math::kBf16), LATHE_MATH_BF16);
  EXPECT_EQ(static_cast<int>(Activation::kGeluTanh), LATHE_ACTIVATION_GELU_TANH);
  EXPECT_EQ(static_cast<int>(Activation::kSilu), LATHE_ACTIVATION_SILU);
  EXPECT_EQ(static_cast<int>(Activation::kSiluClamped), LATHE_ACTIVATION_SILU_CLAMPED);
  EXPECT_EQ(static_cast<int>(Activation::kClampPlusOne), LATHE_ACTIVATION_CLAMP_PLUS_ONE);
  EXPECT_EQ(static_cast<int>(Combine::kMultiply), LATHE_COMBINE_MULTIPLY);
  EXPECT_EQ(static_cast<int>(Determinism::kBatchInvariant), LATHE_DETERMINISM_BATCH_INVARIANT);
}

TEST(DTypeTest, SizesAreBytesPerElementOrBlock) {
  EXPECT_EQ(size_of(DType::kF32), sizeof(float));
  EXPECT_EQ(size_of(DType::kF16), 2u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kI32), 4u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
  EXPECT_EQ(size_of(DType::kI8), 1u);
  EXPECT_EQ(size_of(DType::kF8E4M3), 1u);
  EXPECT_EQ(size_of(DType::kF8E5M2), 1u);
  EXPECT_EQ(size_of(DType::kF8E4M3Fnuz), 1u);
  EXPECT_EQ(size_of(DType::kF8E5M2Fnuz), 1u);
  EXPECT_EQ(size_of(DType::kQ4_0), 2u + 32 / 2) << "an f16 and 32 numbers of 4 bits";
  EXPECT_EQ(block_elements(DType::kQ4_0), 32);
  EXPECT_EQ(size_of(DType::kQ4_K), 2u * 2 + 12 + 256 / 2)
      << "two f16, 16 numbers of 6 bits, 256 numbers of 4 bits";
  EXPECT_EQ(block_elements(DType::kQ4_K), 256);
  EXPECT_EQ(size_of(DType::kU4x128), 2u + 2 + 128 / 2)
      << "an f16, a zero point of two bytes, 128 numbers of 4 bits";
  EXPECT_EQ(size_of(DType::kNVF4E2M1), 32u / 2);
  EXPECT_EQ(row_of(DType::kNVF4E2M1).apart, 2) << "a byte for every 16 elements";
  EXPECT_EQ(size_of(DType::kF8E4M3x128), 128u);
  EXPECT_EQ(row_of(DType::kF8E4M3x128).apart, 4);
  EXPECT_EQ(block_elements(DType::kI8), 1);
  EXPECT_EQ(size_of(DType::kNone), 0u);
}

TEST(DTypeTest, CeilDivDoesNotOverflowAtTheEnd) {
  EXPECT_EQ(ceil_div(0, 7), 0);
  EXPECT_EQ(ceil_div(1, 7), 1);
  EXPECT_EQ(ceil_div(7, 7), 1);
  EXPECT_EQ(ceil_div(8, 7), 2);
  EXPECT_EQ(ceil_div(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(ceil_div(INT64_MAX, INT64_MAX), 1);
  EXPECT_EQ(round_up(33, 32), 64);
  EXPECT_EQ(round_up(64, 32), 64);
}

}  // namespace
}  // namespace lathe
