// f32 A with 16-bit weights (f16 or bf16), and f32 rounded to bf16 with bf16 weights: every M of decoding and every
// bucket, layouts, results, epilogues, batches, splits, NaN and infinities, large K, candidates, batch invariance,
// packed f16, matmul_argmax. Devices without such kernels say so.
#include <limits>
#include <string>
#include <vector>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "matmul_case.h"
#include "packed_request.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

struct Weights {
  lathe_dtype dtype;
  lathe_math math = LATHE_MATH_STRICT;
};

class Widened : public ConformanceTest, public testing::WithParamInterface<Weights> {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!IsSkipped() && !is_cpu()) GTEST_SKIP() << "only the CPU has kernels for f32 with 16-bit weights";
  }
  static MatmulCase make(int64_t m, int64_t n, int64_t k) {
    MatmulCase c;
    c.m = capped(m), c.n = capped(n), c.k = capped(k);
    c.b = GetParam().dtype;
    c.math = GetParam().math;
    c.trans_b = true;
    return c;
  }
  template <typename Request>
  void run(Request&& request) {
    if (failures_ >= 8) return;
    const testing::AssertionResult result = request.run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  void expect(const MatmulCase& c) { run(MatmulRequest(c, &random_)); }
  Random random_ = random_stream(33);

 private:
  int failures_ = 0;
};

TEST_P(Widened, EveryMOfDecodingAndEveryBucket) {
  const std::pair<int64_t, int64_t> shapes[] = {{35, 33}, {80, 351}, {17, 2081}};
  int turn = 0;
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 33, 65, 200, 530}) {
    for (bool trans_b : {false, true}) {
      const auto& [n, k] = shapes[turn++ % 3];
      MatmulCase c = make(m, n, m > 64 ? 351 : k);
      c.trans_b = trans_b;
      c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      expect(c);
    }
  }
}

TEST_P(Widened, EveryLayoutAndResultInSmallShapes) {
  for (int layout = 0; layout < 4; ++layout) {
    for (lathe_dtype out : kFloats) {
      for (int64_t m : {2, 40}) {
        MatmulCase c = make(m, 49, 223);
        c.out = out;
        c.trans_a = layout & 1;
        c.trans_b = layout & 2;
        c.padding = layout == 3 ? 5 : 0;
        c.misalign = static_cast<size_t>(layout);
        expect(c);
      }
    }
  }
}

TEST_P(Widened, WholeEpilogue) {
  for (int activation = LATHE_ACTIVATION_NONE; activation <= LATHE_ACTIVATION_SILU; ++activation) {
    MatmulCase c = make(activation % 2 ? 9 : 48, 64, 160);
    set_whole_epilogue(&c, static_cast<lathe_activation>(activation));
    expect(c);
  }
}

TEST_P(Widened, BatchesAndSplits) {
  for (int32_t split : {0, 1, 3, 7}) {
    for (int64_t batch : {1, 3}) {
      MatmulCase c = make(17, 40, 1037);
      c.trans_b = split % 3 != 0;
      c.batch = batch;
      c.broadcast_b = split > 1;
      c.split_k = split;
      c.bias = LATHE_F32;
      expect(c);
    }
  }
}

TEST_P(Widened, SpecialValues) {
  for (int64_t m : {1, 3, 33, 70}) {
    for (bool trans_b : {false, true}) {
      MatmulCase c = make(m, 64, 97);
      c.trans_b = trans_b;
      c.values = Values::kSpecial;
      expect(c);
    }
  }
}

// Values that 16-bit products would lose: the full f32 mantissa of A, and subnormal numbers of B.
TEST_P(Widened, DoesNotRoundOrFlushOperands) {
  if (GetParam().math == LATHE_MATH_BF16) GTEST_SKIP() << "A may be rounded in this math mode";
  const float least = GetParam().dtype == LATHE_F16 ? 0x1p-24f : 0x1p-133f;
  const float a[] = {1.0f + 0x1p-23f, 3.0f};
  for (int64_t m : {1, 40}) {
    std::vector<float> rows(static_cast<size_t>(m) * 2), got(static_cast<size_t>(m) * 3);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = a[i % 2];
    uint8_t b[3][2][2];  // three columns of two weights
    const float weights[3][2] = {{1, 0}, {least, least}, {-2, 1}};
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 2; ++k) store(GetParam().dtype, weights[j][k], b[j][k]);
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = m, desc.n = 3, desc.k = 2;
    desc.a.dtype = desc.d.dtype = LATHE_F32;
    desc.b.dtype = GetParam().dtype;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.a.data = rows.data(), desc.b.data = b, desc.d.data = got.data();
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
    for (int64_t i = 0; i < m; ++i) {
      const float* row = got.data() + i * 3;
      EXPECT_EQ(row[0], a[0]);
      EXPECT_EQ(row[1], 4 * least);  // (4 + 2^-23) * least, rounded to the 24 bits of f32
      EXPECT_EQ(row[2], 3 - 2 * a[0]);
    }
  }
}

TEST_P(Widened, LargeK) {
  for (int64_t m : {1, 6, 20}) {
    MatmulCase c = make(m, 19, 70001);
    c.flush = Flush::kStart;
    expect(c);
  }
}

TEST_P(Widened, EveryCandidate) {
  if (is_fallback()) GTEST_SKIP() << "without a compiler there are no candidates";
  for (bool trans_b : {false, true}) {
    for (const auto& [m, n, k] : {std::tuple{1, 64, 511}, {7, 80, 1055}, {40, 70, 300}, {150, 136, 319}}) {
      MatmulCase c = make(m, n, k);
      c.trans_b = trans_b;
      c.values = Values::kSmallIntegers;
      c.bias = LATHE_F32;
      c.flush = Flush::kStart;
      MatmulRequest request(c, &random_);
      const auto legal = legal_candidates(device(), *request.desc());
      ASSERT_FALSE(legal.empty());
      for (size_t rank = 1; rank <= legal.size(); rank += 1 + legal.size() / (is_quick() ? 6 : 30)) {
        request.set_tuning(0, static_cast<int32_t>(rank));
        run(request);
      }
    }
  }
}

// Rows have the same bits for every M.
TEST_P(Widened, BatchInvariant) {
  if (is_fallback()) GTEST_SKIP() << "generic kernels are not batch invariant";
  for (bool trans_b : {false, true}) {
    MatmulCase c = make(70, 48, 545);
    c.trans_b = trans_b;
    c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
    MatmulRequest request(c, &random_);
    EXPECT_TRUE(is_batch_invariant(device(), &request));
  }
}

TEST_P(Widened, PackedWeights) {
  if (is_fallback()) GTEST_SKIP() << "no generic kernel reads packed weights";
  for (int64_t m : {1, 3, 4, 7, 16, 33, 130}) {
    MatmulCase c = make(m, m % 2 ? 77 : 48, m == 4 ? 2011 : 301);
    c.trans_b = m != 16;
    c.split_k = m == 4 ? 3 : 0;
    c.batch = m == 7 ? 2 : 1;
    c.values = m == 33 ? Values::kSpecial : Values::kNormal;
    run(PackedRequest(device(), c, &random_));
  }
}

// K ends in the middle of a word. Multiplying an infinity with the zero behind K would give NaN.
TEST_P(Widened, IgnoresBytesBehindAnOddK) {
  if (is_fallback()) GTEST_SKIP() << "no generic kernel reads packed weights";
  constexpr int64_t kM = 3, kN = 2, kK = 5;
  std::vector<float> a(kM * kK, std::numeric_limits<float>::infinity()), got(kM * kN);
  std::vector<uint8_t> b(kN * kK * 2);
  for (size_t i = 0; i < b.size(); i += 2) store(GetParam().dtype, 1.0, &b[i]);
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = kM, desc.n = kN, desc.k = kK;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = GetParam().dtype;
  desc.math = GetParam().math;
  desc.a.data = a.data(), desc.b.data = b.data(), desc.d.data = got.data();
  uint32_t layout = 0;
  size_t bytes = 0;
  ASSERT_LATHE_OK(lathe_packed_layout(device(), &desc, &layout, &bytes));
  std::vector<uint8_t> packed(bytes);
  ASSERT_LATHE_OK(lathe_pack_weights(device(), &desc, layout, packed.data(), bytes));
  desc.b.data = packed.data();
  desc.b.packed_layout = layout;
  for (lathe_layout of_a : {LATHE_ROW_MAJOR, LATHE_COLUMN_MAJOR}) {
    desc.a.layout = of_a;
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
    for (float x : got) EXPECT_EQ(x, std::numeric_limits<float>::infinity()) << "layout of A " << of_a;
  }
}

TEST_P(Widened, ComparedLogits) {
  int turn = 0;
  for (int64_t m : {1, 4, 17, 70}) {
    for (lathe_dtype logits : kFloats) {
      MatmulArgmaxCase c;
      c.m = m, c.n = capped(m < 10 ? 1003 : 259), c.k = capped(65);
      c.b = GetParam().dtype;
      c.math = GetParam().math;
      c.logits = logits;
      c.trans_b = turn % 3 != 0;
      c.trans_a = turn % 5 == 4;
      c.bias = turn % 2 ? LATHE_F16 : LATHE_DTYPE_NONE;
      c.wants_values = turn % 2;
      c.values = static_cast<Values>(turn++ % 3);
      run(MatmulArgmaxRequest(c, &random_));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Widened,
                         testing::Values(Weights{LATHE_F16}, Weights{LATHE_BF16},
                                         Weights{LATHE_BF16, LATHE_MATH_BF16}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.dtype)) +
                                  (info.param.math ? "_rounded" : "");
                         });

// Unsupported requests are refused with a message that names the request.
class WidenedElsewhere : public ConformanceTest {};
TEST_F(WidenedElsewhere, NamesTheRequest) {
  if (is_cpu()) GTEST_SKIP() << "the CPU has kernels for them";
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 3, desc.n = 4, desc.k = 64;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = LATHE_BF16;
  lathe_plan* plan = nullptr;
  EXPECT_EQ(lathe_plan_matmul(device(), &desc, &plan), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("only the CPU multiplies f32 by bf16"), std::string::npos)
      << lathe_last_error();
}

}  // namespace
}  // namespace lathe::conformance
