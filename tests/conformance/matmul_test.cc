// Matmul over dtypes, layouts, epilogues, edge shapes, leading dimensions and alignments: every pair of values.
#include <algorithm>
#include <limits>
#include <tuple>

#include "candidates.h"
#include "device.h"
#include "matmul_case.h"
#include "pairwise.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Matmul : public ConformanceTest {
 protected:
  // Runs the case. Stops after many failures, which would only repeat themselves.
  void expect(const MatmulCase& c) {
    if (failures_ < kMaxFailures && !run(c)) ++failures_;
  }

  Random random_ = random_stream(1);

 private:
  static constexpr int kMaxFailures = 12;
  bool run(const MatmulCase& c) {
    const testing::AssertionResult result = run_case(device(), c, &random_);
    EXPECT_TRUE(result);
    return static_cast<bool>(result);
  }
  int failures_ = 0;
};

template <typename T, size_t kCount>
T level(const T (&levels)[kCount], int index) {
  return levels[index];
}

TEST_F(Matmul, EveryTwoFactorsTogether) {
  constexpr int64_t kM[] = {1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 64, 65, 127, 129, 257};
  constexpr int64_t kN[] = {1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 63, 64, 65, 127, 129, 257};
  constexpr int64_t kK[] = {0, 1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 63, 64, 65, 127, 257, 521};
  constexpr float kAlpha[] = {1, 1, -0.5f, 2, 0};
  constexpr CMode kC[] = {CMode::kNone, CMode::kUnreadNan, CMode::kSeparate, CMode::kInPlace};
  constexpr float kBeta[] = {1, -0.5f, 2};
  constexpr lathe_dtype kBias[] = {LATHE_DTYPE_NONE, LATHE_DTYPE_NONE, LATHE_F32, LATHE_F16, LATHE_BF16};
  constexpr ResidualMode kResidual[] = {ResidualMode::kNone, ResidualMode::kSeparate, ResidualMode::kInPlace};
  constexpr int64_t kPadding[] = {0, 0, 1, 16, 37};
  constexpr size_t kMisalign[] = {0, 0, 1, 2, 4};
  const std::vector<int> levels = {16, 16, 18, 3, 3, 2, 2, 5, 4, 3, 3, 5, 7, 3, 3, 5, 5, 2, 2, 2, 2};
  const std::vector<std::vector<int>> rows = covering_array(levels, &random_);
  RecordProperty("cases", static_cast<int>(rows.size()));
  size_t number = 0;
  for (const std::vector<int>& row : rows) {
    if (is_quick() && number++ % 4 != 0) continue;
    size_t f = 0;
    MatmulCase c;
    c.m = level(kM, row[f++]);
    c.n = level(kN, row[f++]);
    c.k = level(kK, row[f++]);
    c.in = level(kFloats, row[f++]);
    c.out = level(kFloats, row[f++]);
    c.trans_a = row[f++];
    c.trans_b = row[f++];
    c.alpha = level(kAlpha, row[f++]);
    c.c_mode = level(kC, row[f++]);
    c.c = level(kFloats, row[f++]);
    c.beta = level(kBeta, row[f++]);
    c.bias = level(kBias, row[f++]);
    c.activation = static_cast<lathe_activation>(row[f++]);
    c.residual_mode = level(kResidual, row[f++]);
    c.residual = level(kFloats, row[f++]);
    c.padding = level(kPadding, row[f++]);
    c.misalign = level(kMisalign, row[f++]);
    c.flush = row[f++] ? Flush::kStart : Flush::kEnd;
    c.values = row[f++] ? Values::kSmallIntegers : Values::kNormal;
    c.batch = row[f++] ? 1 : 2;
    c.multiply = row[f++];
    if (c.c_mode == CMode::kNone || c.c_mode == CMode::kUnreadNan) c.beta = 0;
    // D may be C or the residual; if it is both, the same memory is read twice.
    if (c.c_mode == CMode::kInPlace && c.residual_mode == ResidualMode::kInPlace)
      c.residual_mode = ResidualMode::kNone;
    expect(c);
  }
}

TEST_F(Matmul, SmallShapesExactly) {
  // With integers, one wrong, missing or repeated index gives a wrong result.
  for (int64_t n : {1, 2, 3, 5, 8, 17}) {
    for (int64_t k : {0, 1, 2, 3, 7, 17}) {
      MatmulCase c;
      c.n = n;
      c.k = k;
      c.values = Values::kSmallIntegers;
      c.trans_b = (n + k) % 2;
      c.trans_a = (n + k) % 3 == 0;
      for (int64_t m : {1, 2, 3, 16, 17, 19}) {
        c.m = m;
        c.flush = m % 2 ? Flush::kStart : Flush::kEnd;
        expect(c);
      }
    }
  }
}

TEST_F(Matmul, EveryMOfABucketRunsOnItsKernel) {
  for (bool trans_b : {false, true}) {
    MatmulCase c;
    c.n = 37;
    c.k = 71;
    c.trans_b = trans_b;
    c.values = Values::kSmallIntegers;
    for (int64_t m = 1; m <= 70; m += quick_or(3, 1)) {
      c.m = m;
      c.flush = m % 2 ? Flush::kStart : Flush::kEnd;
      expect(c);
    }
    for (int64_t m : {127, 128, 129, 255, 256, 257, 511, 512, 513, 1031}) {
      c.m = m;
      expect(c);
    }
  }
}

TEST_F(Matmul, EmptyDimensions) {
  for (int64_t zero = 0; zero < 4; ++zero) {
    for (CMode mode : {CMode::kNone, CMode::kUnreadNan, CMode::kSeparate, CMode::kInPlace}) {
      MatmulCase c;
      c.m = zero == 0 ? 0 : 5;
      c.n = zero == 1 ? 0 : 19;
      c.k = zero == 2 ? 0 : 7;
      c.batch = zero == 3 ? 0 : 2;
      c.c_mode = mode;
      c.beta = mode == CMode::kSeparate || mode == CMode::kInPlace ? 2 : 0;
      c.bias = LATHE_F32;
      c.activation = LATHE_ACTIVATION_SILU;
      c.residual_mode = mode == CMode::kInPlace ? ResidualMode::kNone : ResidualMode::kSeparate;
      expect(c);
    }
  }
}

TEST_F(Matmul, SpecialValuesSpread) {
  // NaN and infinities must appear exactly where they do in float64, despite masked and padded elements.
  const int64_t shapes[][3] = {{1, 33, 65}, {5, 17, 31}, {16, 64, 64}, {33, 65, 129}, {70, 31, 257}};
  for (const auto& shape : shapes) {
    for (lathe_dtype in : kFloats) {
      for (int layout = 0; layout < 4; ++layout) {
        MatmulCase c;
        c.m = shape[0];
        c.n = shape[1];
        c.k = shape[2];
        c.in = in;
        c.out = kFloats[random_.below(3)];
        c.trans_a = layout & 1;
        c.trans_b = layout & 2;
        c.values = Values::kSpecial;
        c.activation = static_cast<lathe_activation>(random_.below(5));
        c.padding = random_.below(2) * 5;
        c.alpha = random_.below(4) ? 1 : 0;
        if (random_.below(2)) {
          c.c_mode = CMode::kSeparate;
          c.beta = -1;
        }
        if (random_.below(2)) c.bias = LATHE_F32;
        if (random_.below(2)) c.residual_mode = ResidualMode::kSeparate;
        // New data for the same kernel, which is cheap.
        for (int repeat = 0; repeat < 3; ++repeat) expect(c);
      }
    }
  }
}

TEST_F(Matmul, AlphaZeroStillReadsAandB) {
  MatmulCase c;
  c.m = 3;
  c.n = 20;
  c.k = 33;
  c.alpha = 0;
  MatmulRequest request(c, &random_);
  EXPECT_TRUE(request.run(device()));
  c.values = Values::kSpecial;
  for (int repeat = 0; repeat < 4; ++repeat) expect(c);
}

TEST_F(Matmul, BetaZeroNeverReadsC) {
  for (lathe_dtype type : kFloats) {
    MatmulCase c;
    c.m = 9;
    c.n = 50;
    c.k = 40;
    c.c_mode = CMode::kUnreadNan;
    c.c = type;
    c.out = type;
    expect(c);
    MatmulRequest request(c, &random_);
    request.mutable_desc()->c.data = nullptr;
    EXPECT_TRUE(request.run(device())) << "C null";
  }
}

TEST_F(Matmul, BatchesWithStridesAndBroadcasts) {
  for (int broadcast = 0; broadcast < 16; ++broadcast) {
    for (int64_t m : {1, 4, 40}) {
      MatmulCase c;
      c.m = m;
      c.n = 37;
      c.k = 45;
      c.batch = 3;
      c.trans_b = m == 4;
      c.broadcast_a = broadcast & 1;
      c.broadcast_b = broadcast & 2;
      c.broadcast_c = broadcast & 4;
      c.broadcast_residual = broadcast & 8;
      c.c_mode = CMode::kSeparate;
      c.beta = 2;
      c.bias = LATHE_BF16;
      c.residual_mode = ResidualMode::kSeparate;
      c.padding = broadcast % 3;
      c.values = Values::kSmallIntegers;
      c.flush = broadcast % 2 ? Flush::kStart : Flush::kEnd;
      expect(c);
    }
  }
  MatmulCase many;
  many.m = 2;
  many.n = 9;
  many.k = 11;
  many.batch = 1000;
  many.values = Values::kSmallIntegers;
  expect(many);
}

TEST_F(Matmul, LargeLeadingDimensions) {
  for (int layout = 0; layout < 4; ++layout) {
    MatmulCase c;
    c.m = 21;
    c.n = 35;
    c.k = 50;
    c.trans_a = layout & 1;
    c.trans_b = layout & 2;
    c.padding = 10007;
    c.c_mode = CMode::kSeparate;
    c.beta = 1;
    c.residual_mode = ResidualMode::kSeparate;
    c.residual = LATHE_F16;
    expect(c);
    c.m = 1;
    expect(c);
  }
}

// Factors are rounded to tf32 on devices that have it, else they stay f32; both must be within the bound.
TEST_F(Matmul, Tf32WhereAllowed) {
  for (int layout = 0; layout < 4; ++layout) {
    for (Values values : {Values::kNormal, Values::kSmallIntegers}) {
      MatmulCase c;
      c.math = LATHE_MATH_TF32;
      c.trans_a = layout & 1;
      c.trans_b = layout & 2;
      c.values = values;
      c.bias = LATHE_F32;
      for (const auto& [m, n, k] : {std::tuple{64, 96, 160}, {5, 48, 64}, {33, 37, 71}, {130, 40, 36}}) {
        c.m = m;
        c.n = n;
        c.k = k;
        expect(c);
      }
    }
  }
}

TEST_F(Matmul, EveryMisalignment) {
  for (lathe_dtype in : kFloats) {
    for (size_t misalign = 0; misalign <= 17; ++misalign) {
      if (is_quick() && misalign > 4 && misalign != 8 && misalign < 16) continue;
      MatmulCase c;
      c.m = 6;
      c.n = 49;
      c.k = 67;
      c.in = in;
      c.out = in;
      c.c_mode = CMode::kInPlace;
      c.beta = 1;
      c.bias = in;
      c.residual_mode = ResidualMode::kSeparate;
      c.misalign = misalign;
      c.flush = Flush::kStart;
      expect(c);
      c.m = 35;
      c.flush = Flush::kEnd;
      expect(c);
    }
  }
}

TEST_F(Matmul, InfiniteScalars) {
  MatmulCase c;
  c.m = 4;
  c.n = 18;
  c.k = 12;
  c.alpha = std::numeric_limits<float>::infinity();
  expect(c);
  c.alpha = kNan;
  expect(c);
  c.alpha = 1;
  c.beta = kNan;
  c.c_mode = CMode::kSeparate;
  expect(c);
}

// "direct" writes D piece by piece. Tests whole pieces and a partial one, K in one block and in several, every register
// tile, and every epilogue.
TEST_F(Matmul, PlansThatWriteDInPieces) {
  if (!is_cpu()) GTEST_SKIP() << "only the CPU has this form of kernel";
  for (lathe_dtype in : {LATHE_F32, LATHE_BF16, LATHE_I8}) {
    for (int64_t k : {96, in == LATHE_I8 ? 4 * 530 : 2 * 530}) {
      MatmulCase c;
      c.m = 70, c.n = 211, c.k = k;
      c.in = in;
      c.trans_b = true;
      c.out = k > 96 && in != LATHE_I8 ? LATHE_BF16 : LATHE_F32;
      c.activation = k > 96 ? LATHE_ACTIVATION_GELU : LATHE_ACTIVATION_NONE;
      c.bias = LATHE_F32;
      c.residual_mode = k > 96 ? ResidualMode::kInPlace : ResidualMode::kNone;
      c.batch = k > 96 ? 2 : 1;
      c.has_zero_point = c.zero_b = in == LATHE_I8 && k > 96;
      c.zero_point = -31;
      c.padding = 3;
      MatmulRequest request(c, &random_);
      const std::vector<nlohmann::json> legal = legal_candidates(device(), *request.desc());
      int runs = 0;
      for (size_t rank = 1; rank <= legal.size(); ++rank) {
        if (legal[rank - 1]["config"]["kernel"] != "direct" || (is_quick() && rank % 4 != 0)) continue;
        ++runs;
        request.set_tuning(0, static_cast<int32_t>(rank));
        ASSERT_TRUE(request.run(device())) << legal[rank - 1].dump();
      }
      if (in == LATHE_F32) EXPECT_GT(runs, 0);
    }
  }
}

// Some of the plans whose last pass is narrower than the others. The sizes leave remainders of one row to three vectors
// in M (in "direct_a" also in N). K is one block or several. Some plans copy a panel at the same time, others do not.
TEST_F(Matmul, PlansWithNarrowPasses) {
  if (!is_cpu()) GTEST_SKIP() << "only the CPU has this form of kernel";
  int runs[3] = {};
  const std::vector<std::string> kernels = {"direct", "direct_a", "panel_t"};
  struct Sizes {
    int64_t m, n, k;
  };
  for (const auto [m, n, k] : {Sizes{65, 60, 520}, {84, 20, 96}, {41, 75, 1056}, {9, 33, 64}, {70, 300, 600}})
    for (int kind = 0; kind < 5; ++kind) {
      if (n == 300 && kind != 4) continue;  // a K by N weight of several panels
      MatmulCase c;
      c.m = m, c.n = n, c.k = k;
      c.trans_b = kind != 4;
      c.in = kind == 1 ? LATHE_BF16 : kind == 2 ? LATHE_I8 : LATHE_F32;
      if (kind == 3) c.b = LATHE_F16;
      c.has_zero_point = c.zero_b = kind == 2 && m != 84;
      c.zero_point = 5;
      c.bias = LATHE_F32;
      c.activation = m == 41 ? LATHE_ACTIVATION_SILU : LATHE_ACTIVATION_NONE;
      c.batch = m == 9 ? 3 : 1;
      c.padding = m == 65 ? 0 : 5;
      MatmulRequest request(c, &random_);
      const std::vector<nlohmann::json> legal = legal_candidates(device(), *request.desc());
      int seen[3] = {};
      for (size_t rank = 1; rank <= legal.size(); ++rank) {
        const auto kernel =
            std::find(kernels.begin(), kernels.end(), legal[rank - 1]["config"]["kernel"]) - kernels.begin();
        if (kernel == 3 || seen[kernel]++ % (is_quick() ? 29 : 7) != 0) continue;
        ++runs[kernel];
        request.set_tuning(0, static_cast<int32_t>(rank));
        ASSERT_TRUE(request.run(device())) << legal[rank - 1].dump();
      }
    }
  for (const int count : runs) EXPECT_GT(count, 0);
}

// Some of the plans with AMX tiles: rows, columns and K that are partial tiles or more than whole tiles, every layout,
// blocks of K, and special values where tiles are padded.
TEST_F(Matmul, PlansWithAmxTiles) {
  if (!is_cpu()) GTEST_SKIP() << "only the CPU has this form of kernel";
  int runs = 0;
  struct Sizes {
    int64_t m, n, k;
  };
  for (const auto [m, n, k] : {Sizes{70, 211, 1088}, {1, 17, 64}, {37, 96, 1151}, {16, 64, 2}})
    for (int layout = 0; layout < 4; ++layout)
      for (int kind = 0; kind < 4; ++kind) {
        MatmulCase c;
        c.m = m, c.n = n, c.k = k;
        c.trans_a = layout & 1, c.trans_b = layout & 2;
        c.in = kind == 0 ? LATHE_BF16 : kind == 1 ? LATHE_F32 : LATHE_I8;
        if (kind == 1) c.b = LATHE_BF16, c.math = LATHE_MATH_BF16;
        c.out = kind == 2 ? LATHE_I32 : layout == 1 ? LATHE_BF16 : LATHE_F32;
        if (kind != 2) c.bias = LATHE_F32, c.activation = LATHE_ACTIVATION_RELU;
        if (kind == 3) c.alpha = 0x1p-8f, c.zero_b = true;
        if (kind == 0 && layout > 1) c.values = Values::kSpecial, c.activation = LATHE_ACTIVATION_NONE;
        c.batch = layout == 0 ? 2 : 1;
        c.padding = layout == 3 ? 0 : 3;
        MatmulRequest request(c, &random_);
        const std::vector<nlohmann::json> legal = legal_candidates(device(), *request.desc());
        int seen = 0;
        for (size_t rank = 1; rank <= legal.size(); ++rank) {
          const auto kernel = legal[rank - 1]["config"]["kernel"].get<std::string>();
          if (kernel.rfind("amx", 0) != 0 || seen++ % (is_quick() ? 40 : 10) != 0) continue;
          ++runs;
          request.set_tuning(0, static_cast<int32_t>(rank));
          ASSERT_TRUE(request.run(device())) << legal[rank - 1].dump();
        }
      }
  if (runs == 0) GTEST_SKIP() << "this processor has no AMX";
}

TEST_F(Matmul, RandomRequests) {
  for (int64_t i = 0; i < quick_or(40, 150); ++i) {
    MatmulCase c;
    c.m = random_.between(1, random_.below(3) ? 40 : 300);
    c.n = random_.between(1, random_.below(3) ? 100 : 400);
    c.k = random_.between(0, random_.below(4) ? 200 : 1500);
    c.in = kFloats[random_.below(3)];
    c.out = kFloats[random_.below(3)];
    c.trans_a = random_.below(2);
    c.trans_b = random_.below(2);
    c.activation = static_cast<lathe_activation>(random_.below(5));
    c.bias = random_.below(2) ? kFloats[random_.below(3)] : LATHE_DTYPE_NONE;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    // Multiples of one half keep results on integers exact.
    const auto scalar = [&] {
      return c.values == Values::kNormal ? static_cast<float>(random_.normal())
                                         : static_cast<float>(random_.between(1, 4)) / 2;
    };
    c.alpha = scalar();
    if (random_.below(2)) {
      c.c_mode = CMode::kSeparate;
      c.c = kFloats[random_.below(3)];
      c.beta = scalar();
    }
    c.determinism = static_cast<lathe_determinism>(random_.below(3));
    // Batch invariance fixes the number of splits.
    if (c.determinism != LATHE_DETERMINISM_BATCH_INVARIANT && random_.below(3) == 0) {
      c.split_k = static_cast<int32_t>(random_.between(1, 9));
    }
    c.padding = random_.below(8);
    c.misalign = static_cast<size_t>(random_.below(3) ? 0 : random_.below(9));
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    expect(c);
  }
}

}  // namespace
}  // namespace lathe::conformance
