// i8 and fp8 operands: every layout, result, epilogue and alignment, and exact sums of bytes. A device without such
// kernels skips with the library's message; the CPU must have those for i8.
#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class Quantised : public ConformanceTest, public testing::WithParamInterface<lathe_dtype> {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    // In fallback mode there is no compiler, so nothing can be planned.
    if (is_fallback() && (!is_cpu() || GetParam() == LATHE_I8)) return;
    // A plan shows whether there is a kernel. Only UNSUPPORTED is a reason to skip.
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = desc.n = desc.k = 64;
    desc.a.dtype = desc.b.dtype = GetParam();
    desc.d.dtype = LATHE_F32;
    lathe_plan* plan = nullptr;
    const lathe_status status = lathe_plan_matmul(device(), &desc, &plan);
    lathe_plan_destroy(plan);
    const bool promised = is_cpu() && GetParam() == LATHE_I8;
    if (status == LATHE_UNSUPPORTED && !promised) GTEST_SKIP() << lathe_last_error();
    ASSERT_EQ(status, LATHE_OK) << lathe_last_error();
  }
  static MatmulCase make(int64_t m, int64_t n, int64_t k) {
    MatmulCase c;
    c.m = capped(m);
    c.n = capped(n);
    c.k = capped(k);
    c.in = GetParam();
    return c;
  }
  void expect(const MatmulCase& c) {
    if (failures_ >= 12) return;
    const testing::AssertionResult result = run_case(device(), c, &random_);
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  Random random_ = random_stream(15);

 private:
  int failures_ = 0;
};

TEST_P(Quantised, EveryLayoutAndResult) {
  const int64_t shapes[][3] = {{1, 64, 256}, {7, 33, 129}, {16, 80, 144},
                               {40, 96, 64}, {65, 31, 77}, {130, 72, 320}};
  for (const auto& shape : shapes) {
    for (int layout = 0; layout < 4; ++layout) {
      for (lathe_dtype out : kFloats) {
        MatmulCase c = make(shape[0], shape[1], shape[2]);
        c.out = out;
        c.trans_a = layout & 1;
        c.trans_b = layout & 2;
        c.alpha = GetParam() == LATHE_I8 ? 0x1p-8f : 1.0f;  // keeps results within the range of f16
        c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
        expect(c);
      }
    }
  }
}

TEST_P(Quantised, WholeEpilogue) {
  for (int activation = LATHE_ACTIVATION_NONE; activation <= LATHE_ACTIVATION_SILU; ++activation) {
    for (lathe_dtype out : kFloats) {
      MatmulCase c = make(activation % 2 ? 9 : 48, 64, 160);
      c.out = out;
      c.trans_b = true;
      c.alpha = GetParam() == LATHE_I8 ? 0x1p-10f : 0.25f;
      c.c_mode = activation == 2 ? CMode::kInPlace : CMode::kSeparate;
      c.c = LATHE_F32;
      c.beta = -0.5f;
      c.bias = LATHE_BF16;
      c.activation = static_cast<lathe_activation>(activation);
      c.residual_mode = activation == 3 ? ResidualMode::kInPlace : ResidualMode::kSeparate;
      c.residual = LATHE_F16;
      c.padding = activation % 2 ? 3 : 0;
      c.batch = 1 + activation % 2;
      expect(c);
    }
  }
}

TEST_P(Quantised, EveryMisalignment) {
  for (size_t misalign : {0, 1, 2, 3, 4, 8, 16}) {
    for (int64_t padding : {0, 1, 16}) {
      MatmulCase c = make(misalign % 2 ? 5 : 35, 48, 96);
      c.trans_b = true;
      c.bias = LATHE_F32;
      c.misalign = misalign;
      c.padding = padding;
      c.values = Values::kSmallIntegers;
      c.flush = Flush::kStart;
      expect(c);
    }
  }
}

TEST_P(Quantised, BatchesAndSplits) {
  for (int32_t split : {0, 1, 3, 7}) {
    for (int64_t batch : {1, 3}) {
      MatmulCase c = make(17, 40, 1040);
      c.trans_b = true;
      c.batch = batch;
      c.broadcast_b = true;
      c.split_k = split;
      c.values = Values::kSmallIntegers;
      c.bias = LATHE_F32;
      c.activation = LATHE_ACTIVATION_RELU;
      expect(c);
    }
  }
}

TEST_P(Quantised, SpecialValues) {
  if (GetParam() == LATHE_I8) GTEST_SKIP() << "bytes have no special values";
  for (int64_t m : {3, 33}) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      MatmulCase c = make(m, 64, 96);
      c.trans_b = true;
      c.values = Values::kSpecial;
      expect(c);
    }
  }
}

TEST_P(Quantised, EveryNumberOfTheDtype) {
  for (const bool trans_a : {false, true}) {
    for (const Values values : {Values::kEveryNumberInA, Values::kEveryNumberInB}) {
      MatmulCase c = make(37, 48, 32);  // small for emulators, but each operand has more elements than codes
      c.trans_a = trans_a;
      c.trans_b = !trans_a;
      c.values = values;
      expect(c);
    }
  }
}

TEST_P(Quantised, EveryCandidate) {
  for (const auto& [m, n, k] : {std::tuple{1, 64, 512}, {24, 80, 288}, {150, 136, 272}, {33, 37, 71}}) {
    MatmulCase c = make(m, n, k);
    c.trans_b = true;
    c.values = Values::kSmallIntegers;
    c.bias = LATHE_F32;
    c.flush = Flush::kStart;
    MatmulRequest request(c, &random_);
    const auto legal = static_cast<int64_t>(legal_candidates(device(), *request.desc()).size());
    for (int64_t rank = 1; rank <= legal; rank += 1 + legal / (is_quick() ? 6 : 100)) {
      request.set_tuning(0, static_cast<int32_t>(rank));
      EXPECT_TRUE(request.run(device()));
    }
  }
}

TEST_P(Quantised, ExactSumsOfBytes) {
  if (GetParam() != LATHE_I8) GTEST_SKIP() << "only for bytes";
  const int64_t shapes[][3] = {{1, 16, 33}, {5, 64, 1024}, {17, 33, 257}, {70, 48, 640}, {1, 8, 50021}};
  for (const auto& shape : shapes) {
    for (int layout = 0; layout < 4; ++layout) {
      MatmulCase c = make(shape[0], shape[1], shape[2]);
      c.out = LATHE_I32;
      c.trans_a = layout & 1;
      c.trans_b = layout & 2;
      c.split_k = shape[2] > 500 && layout == 1 && !is_fallback() ? 3 : 0;  // generic kernels do not split
      c.batch = layout == 2 ? 2 : 1;
      c.padding = layout == 3 ? 5 : 0;
      expect(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Quantised,
                         testing::Values(LATHE_I8, LATHE_F8_E4M3, LATHE_F8_E5M2, LATHE_F8_E4M3_FNUZ,
                                         LATHE_F8_E5M2_FNUZ),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// An unsupported request is refused with a message that names it, and the device stays usable.
class Unsupported : public ConformanceTest {};
TEST_F(Unsupported, NamesTheRequest) {
  SKIP_UNLESS_CPU("this device may have kernels for the request");
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 3;
  desc.n = 4;
  desc.k = 5;
  desc.a.dtype = desc.b.dtype = LATHE_F8_E4M3;
  desc.d.dtype = LATHE_F32;
  lathe_plan* plan = nullptr;
  EXPECT_EQ(lathe_plan_matmul(device(), &desc, &plan), LATHE_UNSUPPORTED);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(std::string(lathe_last_error()).find("matmul f8e4m3 a=n b=n m=3 n=4 k=5 batch=1 d=f32 on cpu: "),
            0u)
      << lathe_last_error();
}

}  // namespace
}  // namespace lathe::conformance
