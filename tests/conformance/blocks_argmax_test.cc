// matmul_argmax by weights in every block format: M of decoding and beyond, ties, NaN, biases, dtypes of the logits,
// misaligned and padded weights, candidates, and A rounded to bytes where that is allowed.
#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_argmax_case.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

// `math` and the dtype of B.
using Weights = std::tuple<lathe_math, lathe_dtype>;
std::vector<Weights> all_weights() {
  std::vector<Weights> all;
  for (const reference::BlockFormat& f : reference::block_formats())
    for (lathe_math math : {LATHE_MATH_STRICT, LATHE_MATH_INT8}) all.emplace_back(math, f.dtype);
  return all;
}

class BlocksArgmax : public ConformanceTest, public testing::WithParamInterface<Weights> {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    if (std::string why = why_not_run(std::get<1>(GetParam()), std::get<0>(GetParam())); !why.empty())
      GTEST_SKIP() << why;
    if (is_fallback()) GTEST_SKIP() << "there is no generic kernel for this op and block formats";
    MatmulArgmaxRequest request(make(5, 32, 64), &random_);
    rounds_ = std::get<0>(GetParam()) == LATHE_MATH_INT8 &&
              is_rounding(legal_candidates(device(), *request.desc()).front());
  }
  static bool is_rounding(const nlohmann::json& candidate) {
    const std::string kernel = candidate["config"]["kernel"];
    return kernel.find("bytes") != std::string::npos;
  }
  MatmulArgmaxCase make(int64_t m, int64_t n, int64_t k) {
    MatmulArgmaxCase c;
    std::tie(c.math, c.b) = GetParam();
    c.m = m, c.n = n, c.k = reference::whole_blocks(c.b, k);
    c.wants_values = true;
    return c;
  }
  void expect(const MatmulArgmaxCase& c) {
    MatmulArgmaxRequest request(c, &random_);
    request.round_a(rounds_);
    EXPECT_TRUE(request.run(device()));
  }
  void expect_packed(const MatmulArgmaxCase& c) {
    MatmulArgmaxRequest request(c, &random_);
    request.round_a(true);
    ASSERT_LATHE_OK(request.pack(device()));
    EXPECT_TRUE(request.run(device()));
  }
  Random random_ = random_stream(37);
  bool rounds_ = false;  // A of few rows is rounded to bytes
};

TEST_P(BlocksArgmax, EveryMOfDecodingAndMore) {
  const std::pair<int64_t, int64_t> shapes[] = {{37, 32}, {80, 352}, {515, 288}};
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 70}) {
    if (is_quick() && m > 2 && m != 5 && m != 17) continue;
    for (int repeat = 0; repeat < (m == 1 ? 3 : 1); ++repeat) {
      const auto& [n, k] = shapes[(m + repeat) % 3];
      MatmulArgmaxCase c = make(m, capped(n), k);
      c.in = m % 5 == 4 ? kFloats[m % 3] : LATHE_F32;
      c.logits = kFloats[random_.below(3)];
      c.index = m % 2 ? LATHE_I64 : LATHE_I32;
      c.index_offset = m % 4 == 2 ? 128256 : 0;
      c.wants_values = m % 3 != 0;
      c.bias = m % 3 == 1 ? LATHE_DTYPE_NONE : kFloats[random_.below(3)];
      c.trans_a = m % 7 == 6;
      c.padding = m % 4 == 3 ? 3 : 0;
      c.misalign = static_cast<size_t>(m % 5);
      c.flush = m % 2 ? Flush::kEnd : Flush::kStart;
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      MatmulArgmaxRequest request(c, &random_);
      request.round_a(rounds_ && !c.trans_a);
      EXPECT_TRUE(request.run(device()));
    }
  }
}

TEST_P(BlocksArgmax, OutputLayer) {
  MatmulArgmaxCase c = make(1, capped_columns(quick_or(4003, 16003), 1), 576);
  c.logits = LATHE_F16;
  expect(c);
}

// Equal columns have equal logits, whatever is rounded. The first of them wins.
TEST_P(BlocksArgmax, TiesGoToTheLowestColumn) {
  run_every_case();
  for (int64_t m : {1, 6, 33}) {
    MatmulArgmaxCase c = make(m, 1003, 64);
    c.distinct = 7;
    MatmulArgmaxRequest request(c, &random_);
    request.round_a(rounds_);
    ASSERT_TRUE(request.run(device()));
    for (int64_t i = 0; i < m; ++i) EXPECT_LT(request.index(i), c.distinct) << "row " << i << " of " << m;
  }
}

TEST_P(BlocksArgmax, SpecialScales) {
  if (std::get<0>(GetParam()) == LATHE_MATH_INT8)
    GTEST_SKIP() << "rounding A may turn infinity into NaN and NaN into infinity";
  for (int64_t m : {1, 5, 33}) {
    MatmulArgmaxCase c = make(m, 300, 96);
    c.values = Values::kSpecial;
    expect(c);
  }
}

// A NaN scale makes the logits of its column NaN, and the first NaN wins. A NaN in a row of A makes the whole row NaN.
TEST_P(BlocksArgmax, TheFirstNanWins) {
  SKIP_UNLESS_CPU("this test writes operands on the host");
  const lathe_dtype format = std::get<1>(GetParam());
  const reference::BlockFormat& f = *reference::block_format(format);
  constexpr int64_t kN = 200;
  const int64_t kK = reference::whole_blocks(format, 64), blocks = kK / f.elements;
  for (int64_t m : {1, 4, 19}) {
    MatmulArgmaxRequest request(make(m, kN, kK), &random_);
    lathe_matmul_argmax_desc desc = *request.desc();
    const auto row = static_cast<size_t>(kK);
    std::vector<float> a(static_cast<size_t>(m) * row);
    std::memcpy(a.data(), desc.a.data, a.size() * sizeof(float));
    std::vector<uint8_t> b(static_cast<size_t>(kN * blocks) * f.bytes);
    std::memcpy(b.data(), desc.b.data, b.size());
    desc.a.data = a.data();
    desc.b.data = b.data();
    if (format != LATHE_MXFP4) {  // its scales are powers of two
      for (int64_t j : {31, 150})
        f.store_scales(b.data() + static_cast<size_t>(j * blocks + blocks - 1) * f.bytes, NAN, 0, false);
    }
    const int64_t last = m - 1;
    if (m > 1) a[static_cast<size_t>(last) * row + 5] = NAN;
    std::vector<int64_t> indices(static_cast<size_t>(m), -1);
    std::vector<float> values(static_cast<size_t>(m));
    desc.indices = indices.data();
    desc.values = values.data();
    ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &desc));
    for (int64_t i = 0; i < m; ++i) {
      const bool is_nan_row = m > 1 && i == last;
      if (format == LATHE_MXFP4 && !is_nan_row) continue;
      EXPECT_EQ(indices[static_cast<size_t>(i)], is_nan_row ? 0 : 31) << "row " << i << " of " << m;
      EXPECT_TRUE(std::isnan(values[static_cast<size_t>(i)])) << "row " << i << " of " << m;
    }
  }
}

TEST_P(BlocksArgmax, EveryCandidate) {
  for (const auto& [m, n, k] : {std::tuple{1, 611, 256}, {11, 200, 288}, {70, 136, 96}}) {
    MatmulArgmaxCase c = make(m, n, k);
    c.bias = LATHE_F32;
    c.logits = LATHE_BF16;
    c.flush = Flush::kStart;  // alignment is that of the rows, as a plan assumes
    // Some of all candidates, from the best to the worst, and every "bytes" candidate, which are few.
    const auto legal = legal_candidates(device(), *MatmulArgmaxRequest(c, &random_).desc());
    for (size_t rank = 1; rank <= legal.size(); ++rank) {
      if (legal[rank - 1]["config"]["kernel"] != "bytes" && rank % (1 + legal.size() / 6) != 1) continue;
      c.candidate = static_cast<int32_t>(rank);
      MatmulArgmaxRequest request(c, &random_);
      request.round_a(is_rounding(legal[rank - 1]));
      EXPECT_TRUE(request.run(device()));
    }
  }
}

TEST_P(BlocksArgmax, Packed) {
  if (!rounds_) GTEST_SKIP() << "packed blocks are multiplied as bytes only";
  const std::pair<int64_t, int64_t> shapes[] = {{50, 32}, {1031, 352}, {5, 96}, {272, 544}};
  int turn = 0;
  for (int64_t m : {1, 2, 4, 7, 16, 33, 70}) {
    const auto& [n, k] = shapes[turn++ % 4];
    MatmulArgmaxCase c = make(m, n, k);
    c.in = kFloats[turn % 3];
    c.logits = kFloats[random_.below(3)];
    c.bias = turn % 2 ? LATHE_F32 : LATHE_DTYPE_NONE;
    c.index_offset = turn % 2 ? 0 : 151936;
    c.padding = turn % 3 == 0 ? 3 : 0;
    c.misalign = static_cast<size_t>(turn % 4);
    c.flush = turn % 2 ? Flush::kStart : Flush::kEnd;
    expect_packed(c);
  }
}

TEST_P(BlocksArgmax, PackedEveryCandidate) {
  if (!rounds_) GTEST_SKIP() << "packed blocks are multiplied as bytes only";
  for (const auto& [m, n, k] : {std::tuple{1, 611, 256}, {11, 200, 288}, {70, 136, 96}}) {
    MatmulArgmaxCase c = make(m, n, k);
    MatmulArgmaxRequest first(c, &random_);
    ASSERT_LATHE_OK(first.pack(device()));
    const auto legal = legal_candidates(device(), *first.desc());
    for (size_t rank = 1; rank <= legal.size(); rank += 1 + legal.size() / 6) {
      EXPECT_NE(std::string(legal[rank - 1]["config"]["kernel"]).find("bytes_packed"), std::string::npos);
      c.candidate = static_cast<int32_t>(rank);
      expect_packed(c);
    }
  }
}

// The result equals argmax of the matmul's D, except where two logits differ by less than their sums may round.
TEST_P(BlocksArgmax, AgreesWithMatmulAndArgmax) {
  SKIP_UNLESS_CPU("this test has D on the host");
  for (int64_t m : {1, 7, 20}) {
    MatmulArgmaxRequest request(make(m, 700, 160), &random_);
    const lathe_matmul_argmax_desc& both = *request.desc();
    std::vector<float> d(static_cast<size_t>(m * both.n));
    std::vector<int64_t> expected(static_cast<size_t>(m), -1);
    lathe_matmul_desc matmul = LATHE_MATMUL_DESC_INIT;
    matmul.m = m, matmul.n = both.n, matmul.k = both.k;
    matmul.a = both.a, matmul.b = both.b;
    matmul.math = both.math;
    matmul.d.data = d.data();
    matmul.d.dtype = LATHE_F32;
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &matmul));
    lathe_argmax_desc argmax = LATHE_ARGMAX_DESC_INIT;
    argmax.rows = m, argmax.n = both.n;
    argmax.x = matmul.d;
    argmax.indices = expected.data();
    ASSERT_LATHE_OK(lathe_argmax(device(), nullptr, &argmax));
    request.reset_output();
    ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &both));
    for (int64_t i = 0; i < m; ++i) {
      const int64_t index = request.index(i);
      ASSERT_TRUE(index >= 0 && index < both.n) << index;
      const float* row = d.data() + i * both.n;
      const float best = row[expected[static_cast<size_t>(i)]];
      EXPECT_GE(row[index], best - 1e-5f * std::fabs(best)) << "row " << i << " of " << m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, BlocksArgmax, testing::ValuesIn(all_weights()), [](const auto& info) {
  return std::string(name_of(std::get<1>(info.param))) +
         (std::get<0>(info.param) == LATHE_MATH_INT8 ? "_int8" : "");
});

}  // namespace
}  // namespace lathe::conformance
