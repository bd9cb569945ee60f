// Weights in every block format: every dtype of A, M in every bucket, epilogues, batches, splits,
// alignments, candidates, and A rounded to bytes where that is allowed. GPUs refuse the formats that they do not have.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"
#include "packed_request.h"
#include "reference/numbers.h"

namespace lathe::conformance {
namespace {

// The dtype of A, `math`, and the dtype of B.
using BlockProduct = std::tuple<lathe_dtype, lathe_math, lathe_dtype>;

// Two formats, one of 32 and one of 256 elements, by which f16 and bf16 are multiplied on every device. On the CPU the
// dtype of A shares nothing with the format. GPUs decode every format to the dtype of A.
bool is_by_every_dtype(lathe_dtype format) { return format == LATHE_Q4_0 || format == LATHE_Q4_K; }

std::vector<BlockProduct> block_products() {
  std::vector<BlockProduct> products;
  for (const reference::BlockFormat& f : reference::block_formats()) {
    for (lathe_dtype a : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      const bool every = is_by_every_dtype(f.dtype);
      if (a != LATHE_F32 && !every && !is_on_gpus(f.dtype)) continue;
      products.push_back({a, LATHE_MATH_STRICT, f.dtype});
      if (a != LATHE_F32 && !every) continue;
      if (a != LATHE_F16) products.push_back({a, LATHE_MATH_INT8, f.dtype});
    }
  }
  return products;
}

class Blocks : public ConformanceTest, public testing::WithParamInterface<BlockProduct> {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    if (std::string why = why_not_run(std::get<2>(GetParam()), std::get<1>(GetParam())); !why.empty())
      GTEST_SKIP() << why;
    const auto& [a, math, b] = GetParam();
    if (is_cpu() && a != LATHE_F32 && !is_by_every_dtype(b))
      GTEST_SKIP() << "on the CPU f32 stands for f16 and bf16";
    MatmulRequest request(make(5, 32, 64), &random_);
    rounds_ = rounds(request);
  }
  // Whether the kernel of the request rounds A to bytes.
  static bool rounds(MatmulRequest& request) {
    if (std::get<1>(GetParam()) != LATHE_MATH_INT8 || is_fallback()) return false;
    return is_rounding(legal_candidates(device(), *request.desc()).front());
  }
  // Whether a candidate rounds A to bytes.
  static bool is_rounding(const nlohmann::json& candidate) {
    const std::string kernel = candidate["config"]["kernel"];
    return kernel == "bytes" || kernel == "amx_bytes";
  }
  // What follows the decoding is the same for all formats, so a few of them, of every kind, stand for the others.
  static bool stands_for_others() {
    constexpr lathe_dtype kFew[] = {LATHE_Q4_0, LATHE_Q5_1, LATHE_Q4_K, LATHE_Q6_K};
    return std::find(std::begin(kFew), std::end(kFew), std::get<2>(GetParam())) != std::end(kFew);
  }
  // The least K of at least `k` that is whole blocks of the format.
  static int64_t whole_blocks(int64_t k) {
    const int64_t block = elements_of(std::get<2>(GetParam()));
    return (k + block - 1) / block * block;
  }
  MatmulCase make(int64_t m, int64_t n, int64_t k) {
    MatmulCase c;
    c.m = capped(m);
    c.n = capped(n);
    c.k = whole_blocks(k);
    c.in = std::get<0>(GetParam());
    c.math = std::get<1>(GetParam());
    c.b = std::get<2>(GetParam());
    c.trans_b = true;
    return c;
  }
  void expect(const MatmulCase& c) {
    if (failures_ >= 8) return;
    MatmulRequest request(c, &random_);
    request.round_a(rounds(request));
    const testing::AssertionResult result = request.run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  void expect_packed(const MatmulCase& c) {
    if (failures_ >= 8) return;
    PackedRequest packed(device(), c, &random_);
    packed.request().round_a(true);
    const testing::AssertionResult result = packed.run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  Random random_ = random_stream(31);
  bool rounds_ =
      false;  // few rows of A are rounded to bytes: allowed, and the processor has the instructions

 private:
  int failures_ = 0;
};

TEST_P(Blocks, EveryMOfDecodingAndEveryBucket) {
  // Each class must be compiled, so each M runs only one of the shapes.
  const std::pair<int64_t, int64_t> shapes[] = {{35, 32}, {80, 352}, {17, 2080}};
  const bool all = std::get<0>(GetParam()) == LATHE_F32;
  int turn = 0;
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 33, 65, 200, 530}) {
    if (!all && m % 2 == 0) continue;
    if (is_quick() && (m == 3 || m == 4 || (m > 5 && m < 16) || m > 65)) continue;
    for (int repeat = 0; repeat < (m <= 2 ? 3 : 1); ++repeat) {
      const auto& [n, k] = shapes[turn++ % 3];
      MatmulCase c = make(m, n, m > 64 ? 352 : k);
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      expect(c);
    }
  }
}

TEST_P(Blocks, EveryResultAndLayoutOfA) {
  if (!stands_for_others()) GTEST_SKIP() << "another format stands for this one";
  for (lathe_dtype out : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    for (bool trans_a : {false, true}) {
      for (int64_t m : {2, 40}) {
        MatmulCase c = make(m, 49, 224);
        c.out = out;
        c.trans_a = trans_a;
        expect(c);
      }
    }
  }
}

TEST_P(Blocks, WholeEpilogue) {
  if (!stands_for_others()) GTEST_SKIP() << "another format stands for this one";
  for (int activation : {LATHE_ACTIVATION_NONE, LATHE_ACTIVATION_GELU, LATHE_ACTIVATION_SILU}) {
    MatmulCase c = make(activation % 2 ? 9 : 48, 64, 160);
    set_whole_epilogue(&c, static_cast<lathe_activation>(activation));
    expect(c);
  }
}

TEST_P(Blocks, MisalignedPaddedAndBatched) {
  for (size_t misalign : {0, 1, 2, 3, 8}) {
    for (int64_t batch : {1, 3}) {
      MatmulCase c = make(misalign % 2 ? 5 : 35, 48, 96);
      c.misalign = misalign;
      c.padding = static_cast<int64_t>(misalign);
      c.batch = batch;
      c.broadcast_b = misalign > 2;
      c.flush = misalign % 2 ? Flush::kStart : Flush::kEnd;
      expect(c);
    }
  }
}

TEST_P(Blocks, SplitsOfWholeBlocks) {
  if (is_fallback()) GTEST_SKIP() << "generic kernels do not split";
  for (int32_t split : {1, 2, 3, 7}) {
    for (int64_t m : {1, 17}) {
      MatmulCase c = make(m, 40, 1056);  // 33 blocks
      c.split_k = split;
      c.values = Values::kSmallIntegers;
      c.bias = LATHE_F32;
      expect(c);
    }
  }
}

TEST_P(Blocks, SpecialScales) {
  if (std::get<1>(GetParam()) == LATHE_MATH_INT8)
    GTEST_SKIP() << "rounding A may turn infinity into NaN and NaN into infinity";
  for (int64_t m : {1, 3, 33, 70}) {
    MatmulCase c = make(m, 64, 96);
    c.values = Values::kSpecial;
    expect(c);
  }
}

// Rows of every operand at multiples of 16 bytes, where GPUs load more at once, for K of one block and of several.
TEST_P(Blocks, AlignedRows) {
  for (const auto& [m, n, k] : {std::tuple{1, 64, 512}, {5, 72, 512}, {16, 136, 1024}, {33, 64, 512}}) {
    MatmulCase c = make(m, n, k);
    c.flush = Flush::kStart;
    c.bias = LATHE_F32;
    expect(c);
    c.k = whole_blocks(1);
    expect(c);
    if (std::get<1>(GetParam()) == LATHE_MATH_INT8) continue;
    c.k = whole_blocks(768);  // the lanes that lie beyond K must not read a scale as a factor
    c.values = Values::kSpecial;
    expect(c);
  }
}

// A row with a NaN or an infinity: all its columns are NaN if A is rounded to bytes, else NaN or infinite. The other
// rows do not change. Values near the smallest and the largest f32 magnitude count as normal values.
TEST_P(Blocks, RowsOfNanAndInfinity) {
  SKIP_UNLESS_CPU("this test writes A on the host");
  if (!stands_for_others()) GTEST_SKIP() << "another format stands for this one";
  const float special[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()};
  if (std::get<0>(GetParam()) != LATHE_F32) GTEST_SKIP() << "this test writes A as f32";
  constexpr int64_t kM = 7, kN = 37;
  const int64_t kK = whole_blocks(96);
  MatmulRequest whole(make(kM, kN, kK), &random_);
  const lathe_matmul_desc& desc = *whole.desc();
  const auto* a = static_cast<const float*>(desc.a.data);
  for (float x : special) {
    for (int64_t row : {int64_t{0}, kM - 1}) {
      for (int64_t at : {int64_t{0}, int64_t{40}, kK - 1}) {
        std::vector<float> marked(a, a + kM * kK), clean(kM * kN), got(kM * kN);
        lathe_matmul_desc mine = desc;
        mine.a.leading_dimension = kK;
        mine.a.data = marked.data();
        mine.d.data = clean.data();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &mine));
        marked[static_cast<size_t>(row * kK + at)] = x;
        mine.d.data = got.data();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &mine));
        for (int64_t e = 0; e < kM * kN; ++e) {
          const float y = got[static_cast<size_t>(e)];
          if (e / kN != row)
            ASSERT_EQ(y, clean[static_cast<size_t>(e)]) << "row " << e / kN << " beside " << row;
          else if (rounds_)
            ASSERT_TRUE(std::isnan(y)) << x << " at " << at << ", column " << e % kN << ": " << y;
          else
            ASSERT_FALSE(std::isfinite(y)) << x << " at " << at << ", column " << e % kN << ": " << y;
        }
      }
    }
  }
}

TEST_P(Blocks, ExtremeMagnitudes) {
  SKIP_UNLESS_CPU("this test writes A on the host");
  if (std::get<0>(GetParam()) != LATHE_F32) GTEST_SKIP() << "this test writes A as f32";
  constexpr int64_t kM = 5, kN = 16;
  constexpr double kLargest = 400;
  const int64_t kK = whole_blocks(64);
  const bool halves = rounds_ && reference::block_format(std::get<2>(GetParam()))->halves_a_scale;
  MatmulCase c = make(kM, kN, kK);
  c.values = Values::kSmallIntegers;  // A of -4 to 4, weights of at most kLargest
  MatmulRequest whole(c, &random_);
  const auto* a = static_cast<const float*>(whole.desc()->a.data);
  for (float magnitude :
       {0x1p-149f, 0x1p-130f, 0x1p-122f, 0x1p-119f, 0x1p-118f, 0x1p-20f, 0x1p8f, 0x1p100f, 0x1p108f}) {
    std::vector<float> scaled(static_cast<size_t>(kM * kK)), plain(kM * kN), got(kM * kN);
    lathe_matmul_desc mine = *whole.desc();
    mine.a.leading_dimension = kK;
    mine.d.data = plain.data();
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &mine));
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = a[i] * magnitude;
    mine.a.data = scaled.data();
    mine.d.data = got.data();
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &mine));
    // Both runs round elements by half of a scale. Scales in f16 have an absolute error and overflow; where
    // the reciprocal of a scale overflows, elements become 0.
    const double element =
        !rounds_ ? 0x1p-149 : std::max(4.0 * magnitude / 100, halves ? 127 * 0x1p-24 : 0x1p-118);
    for (size_t i = 0; i < got.size(); ++i) {
      if (halves && magnitude > 0x1p24f)
        ASSERT_FALSE(std::isfinite(got[i])) << "magnitude " << magnitude;
      else
        ASSERT_NEAR(got[i], double{plain[i]} * magnitude, kK * kLargest * element)
            << "magnitude " << magnitude;
    }
  }
}

TEST_P(Blocks, EveryCandidate) {
  if (is_fallback()) GTEST_SKIP() << "without a compiler there are no candidates";
  if (is_quick() && !stands_for_others()) GTEST_SKIP() << "another format stands for this one";
  const size_t some = static_cast<size_t>(quick_or(3, 6));
  for (const auto& [m, n, k] : {std::tuple{1, 64, 512}, {7, 80, 1056}, {150, 136, 320}}) {
    if (is_quick() && m > 16) continue;
    MatmulCase c = make(m, n, k);
    c.bias = LATHE_F32;
    c.flush = Flush::kStart;
    // Some of all candidates, from the best to the worst, and every "bytes" candidate, which are few.
    const auto legal = legal_candidates(device(), *MatmulRequest(c, &random_).desc());
    ASSERT_FALSE(legal.empty());
    for (size_t rank = 1; rank <= legal.size(); ++rank) {
      if (legal[rank - 1]["config"]["kernel"] != "bytes" && rank % (1 + legal.size() / some) != 1) continue;
      MatmulRequest request(c, &random_);
      request.round_a(is_rounding(legal[rank - 1]));
      request.set_tuning(0, static_cast<int32_t>(rank));
      EXPECT_TRUE(request.run(device()));
    }
  }
}

// GPUs with matrix instructions for f16 and bf16: tiles from the best to the worst, with edges in every direction, and
// values that are not finite.
TEST_P(Blocks, TilesOfMatrixInstructions) {
  const auto& [a, math, b] = GetParam();
  if (is_fallback()) GTEST_SKIP() << "without a compiler there are no candidates";
  if (is_cpu() || a == LATHE_F32 || math != LATHE_MATH_STRICT)
    GTEST_SKIP() << "only GPUs have them, and only for f16 and bf16";
  MatmulCase c = make(75, 152, 544);
  c.flush = Flush::kStart;
  const auto legal = legal_candidates(device(), *MatmulRequest(c, &random_).desc());
  std::vector<int32_t> ranks;
  for (size_t i = 0; i < legal.size(); ++i)
    if (legal[i]["config"]["kernel"] == "mma" && legal[i]["config"]["split"] == 0)
      ranks.push_back(static_cast<int32_t>(i + 1));
  if (ranks.empty()) GTEST_SKIP() << "no matrix instructions for blocks";
  const size_t step = 1 + ranks.size() / static_cast<size_t>(quick_or(5, 20));
  for (size_t i = static_cast<size_t>(random_.below(static_cast<int64_t>(step))); i < ranks.size();
       i += step) {
    for (Values values : {Values::kSmallIntegers, Values::kSpecial}) {
      c.values = values;
      MatmulRequest request(c, &random_);
      request.set_tuning(0, ranks[i]);
      EXPECT_TRUE(request.run(device())) << legal[static_cast<size_t>(ranks[i]) - 1]["config"];
    }
  }
}

// Panels of 16 columns, which N fills or does not, and few columns, which are packed one after the other.
TEST_P(Blocks, Packed) {
  if (std::get<1>(GetParam()) != LATHE_MATH_INT8 || !rounds_)
    GTEST_SKIP() << "packed blocks are multiplied as bytes only";
  const std::pair<int64_t, int64_t> shapes[] = {{50, 32}, {64, 1056}, {31, 352}, {5, 96}, {272, 544}};
  int turn = 0;
  for (int64_t m : {1, 2, 4, 7, 16, 17, 33, 65, 150, 530}) {
    const auto& [n, k] = shapes[turn++ % 5];
    MatmulCase c = make(m, n, k);
    c.misalign = turn % 4;
    c.batch = turn % 3 == 0 ? 2 : 1;
    c.flush = turn % 2 ? Flush::kStart : Flush::kEnd;
    if (turn % 2) c.bias = LATHE_F32;
    expect_packed(c);
  }
}

TEST_P(Blocks, PackedEveryCandidate) {
  if (std::get<1>(GetParam()) != LATHE_MATH_INT8 || !rounds_ || is_fallback())
    GTEST_SKIP() << "packed blocks are multiplied as bytes only";
  for (const auto& [m, n, k] : {std::tuple{1, 64, 512}, {12, 80, 1056}, {150, 136, 800}}) {
    MatmulCase c = make(m, n, k);
    PackedRequest first(device(), c, &random_);
    ASSERT_EQ(first.status(), LATHE_OK) << lathe_last_error();
    const size_t count = legal_candidates(device(), *first.request().desc()).size();
    ASSERT_GT(count, 0u);
    for (size_t rank = 1; rank <= count; rank += 1 + count / 6) {
      c.candidate = static_cast<int32_t>(rank);
      expect_packed(c);
    }
  }
}

TEST_P(Blocks, PackedIsRefusedWithAReason) {
  SKIP_UNLESS_CPU("only the CPU packs weights");
  MatmulCase c = make(3, 64, 64);
  const bool bytes = std::get<1>(GetParam()) == LATHE_MATH_INT8;
  if (bytes) c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  MatmulRequest request(c, &random_);
  uint32_t layout = 0;
  size_t size = 0;
  EXPECT_EQ(lathe_packed_layout(device(), request.desc(), &layout, &size), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(),
              testing::HasSubstr(bytes ? "does not support batch_invariant" : "needs math int8"));
}

// Rows have the same bits for every M.
TEST_P(Blocks, BatchInvariant) {
  if (!stands_for_others()) GTEST_SKIP() << "another format stands for this one";
  if (is_fallback()) GTEST_SKIP() << "generic kernels are not batch invariant";
  MatmulCase c = make(70, 48, 544);
  c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  MatmulRequest request(c, &random_);
  EXPECT_TRUE(is_batch_invariant(device(), &request));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Blocks, testing::ValuesIn(block_products()), [](const auto& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_by_" + name_of(std::get<2>(info.param)) +
         (std::get<1>(info.param) == LATHE_MATH_INT8 ? "_int8" : "");
});

// Bytes in the device's own memory.
class DeviceBytes {
 public:
  DeviceBytes(lathe_device* device, const void* bytes, size_t size) : device_(device) {
    EXPECT_LATHE_OK(lathe_device_alloc(device, size, &data_));
    EXPECT_LATHE_OK(lathe_device_copy(device, nullptr, data_, bytes, size, LATHE_COPY_TO_DEVICE));
  }
  ~DeviceBytes() { EXPECT_LATHE_OK(lathe_device_free(device_, data_)); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* get() const { return data_; }

 private:
  lathe_device* device_;
  void* data_ = nullptr;
};

// Positive numbers by infinite weights are infinity. Where a kernel reads beyond K, infinity by 0 must not add a NaN.
class InfiniteBlocks : public ConformanceTest {};
TEST_F(InfiniteBlocks, AddNoNanBeyondK) {
  constexpr int64_t kN = 20;
  const reference::BlockFormat& f = *reference::block_format(LATHE_Q8_0);
  for (int64_t k : {32, 96, 768}) {
    for (int64_t m : {1, 6, 40}) {
      std::vector<float> a(static_cast<size_t>(m * k), 2.0f), d(static_cast<size_t>(m * kN));
      std::vector<uint8_t> b(static_cast<size_t>(kN * k / f.elements) * f.bytes);
      for (size_t block = 0; block < b.size(); block += f.bytes) {
        f.store_scales(&b[block], HUGE_VAL, 0, true);
        for (int64_t i = 0; i < f.elements; ++i) f.store(&b[block], i, 3);
      }
      const DeviceBytes of_a(device(), a.data(), a.size() * 4), of_b(device(), b.data(), b.size()),
          of_d(device(), d.data(), d.size() * 4);
      lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
      desc.m = m, desc.n = kN, desc.k = k;
      desc.a.data = of_a.get(), desc.b.data = of_b.get(), desc.d.data = of_d.get();
      desc.a.dtype = desc.d.dtype = LATHE_F32;
      desc.b.dtype = f.dtype;
      desc.b.layout = LATHE_COLUMN_MAJOR;
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
      ASSERT_LATHE_OK(
          lathe_device_copy(device(), nullptr, d.data(), of_d.get(), d.size() * 4, LATHE_COPY_TO_HOST));
      ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
      for (float x : d) ASSERT_EQ(x, HUGE_VALF) << "m " << m << ", k " << k;
    }
  }
}

// i8 with scales per tensor, per row and per column, and with a zero point.
class Scales : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!IsSkipped() && !is_cpu()) GTEST_SKIP() << "only the CPU has kernels with scales";
    if (!IsSkipped() && is_fallback()) GTEST_SKIP() << "generic kernels have no scales";
  }
  Random random_ = random_stream(32);
};

TEST_F(Scales, EveryGranularityAndZeroPoint) {
  const int64_t shapes[][3] = {{1, 64, 256}, {7, 33, 129}, {16, 80, 144}, {40, 96, 64}, {130, 72, 321}};
  for (const auto& shape : shapes) {
    // Every pair of granularities, with and without a zero point, spread over the shapes.
    for (int64_t which = shape[0] % 3; which < 18; which += shape[0] == 7 ? 1 : 4) {
      MatmulCase c;
      c.in = LATHE_I8;
      c.m = shape[0], c.n = shape[1], c.k = shape[2];
      c.scale_a = static_cast<int>(which % 3);
      c.scale_b = static_cast<int>(which / 3 % 3);
      c.has_zero_point = which >= 9;
      c.zero_point = static_cast<int32_t>(random_.between(-128, 127));
      c.trans_a = random_.below(4) == 0;
      c.trans_b = random_.below(4) != 0;
      c.out = which % 2 ? LATHE_F32 : LATHE_BF16;
      c.alpha = which % 4 ? 1.0f : 0.5f;
      c.bias = which % 5 ? LATHE_DTYPE_NONE : LATHE_F32;
      c.activation = which % 7 ? LATHE_ACTIVATION_NONE : LATHE_ACTIVATION_GELU;
      c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
      c.zero_b = random_.below(3) == 0;
      c.batch = which % 6 == 5 ? 2 : 1;
      c.padding = which % 4 == 3 ? 5 : 0;
      ASSERT_TRUE(run_case(device(), c, &random_));
    }
  }
}

TEST_F(Scales, ExactSumsFromAZeroPointInEveryCandidateAndSplit) {
  for (const auto& [m, n, k] : {std::tuple{1, 64, 513}, {9, 40, 260}, {150, 72, 272}}) {
    MatmulCase c;
    c.in = LATHE_I8;
    c.out = LATHE_I32;
    c.m = m, c.n = n, c.k = k;
    c.trans_b = true;
    c.has_zero_point = true;
    c.zero_point = -77;
    MatmulRequest request(c, &random_);
    const auto legal = static_cast<int64_t>(legal_candidates(device(), *request.desc()).size());
    for (int64_t rank = 1; rank <= legal; rank += 1 + legal / 10) {
      request.set_tuning(0, static_cast<int32_t>(rank));
      ASSERT_TRUE(request.run(device()));
    }
    request.set_tuning(3, 0);
    ASSERT_TRUE(request.run(device()));
  }
}

// Zero points of B in every situation: layouts, odd K, splits, batches, packed weights, candidates.
TEST_F(Scales, ZeroPointsOfBInEveryLayoutAndSplit) {
  const int64_t shapes[][3] = {{1, 50, 257}, {3, 17, 1030}, {17, 80, 63}, {70, 33, 321}, {130, 130, 75}};
  for (const auto& shape : shapes) {
    for (int which = 0; which < 8; ++which) {
      MatmulCase c;
      c.in = LATHE_I8;
      c.m = shape[0], c.n = shape[1], c.k = shape[2];
      c.zero_b = true;
      c.scale_b = which / 2 % 2 ? 2 : 0;
      // Without scales the sums are exact; with scales, both integers and arbitrary values.
      c.out = c.scale_b ? LATHE_F32 : LATHE_I32;
      c.values = which % 4 == 2 ? Values::kSmallIntegers : Values::kNormal;
      c.has_zero_point = which % 2;
      c.zero_point = static_cast<int32_t>(random_.between(-128, 127));
      c.trans_a = which >= 4;
      c.trans_b = random_.below(2);
      c.split_k = which % 3 == 2 ? 3 : 0;
      c.batch = which == 5 ? 3 : 1;
      c.broadcast_a = which == 5;
      c.padding = which == 6 ? 7 : 0;
      c.misalign = static_cast<size_t>(which % 3);
      c.flush = which % 2 ? Flush::kStart : Flush::kEnd;
      ASSERT_TRUE(run_case(device(), c, &random_));
      if (c.has_zero_point || c.batch > 1) continue;
      ASSERT_TRUE(PackedRequest(device(), c, &random_).run(device()));
    }
  }
}

TEST_F(Scales, ZeroPointsOfBInEveryCandidate) {
  for (bool zero_a : {false, true}) {
    for (const auto& [m, n, k] : {std::tuple{1, 64, 513}, {9, 40, 260}, {150, 72, 272}}) {
      MatmulCase c;
      c.in = LATHE_I8;
      c.out = LATHE_I32;
      c.m = m, c.n = n, c.k = k;
      c.trans_b = true;
      c.zero_b = true;
      c.has_zero_point = zero_a;
      c.zero_point = 101;
      MatmulRequest request(c, &random_);
      const auto legal = static_cast<int64_t>(legal_candidates(device(), *request.desc()).size());
      for (int64_t rank = 1; rank <= legal; rank += 1 + legal / 10) {
        request.set_tuning(0, static_cast<int32_t>(rank));
        ASSERT_TRUE(request.run(device()));
      }
    }
  }
}

// Unsupported requests are refused with a message that names the request.
class QuantisedElsewhere : public ConformanceTest {};
TEST_F(QuantisedElsewhere, NamesTheRequest) {
  if (is_cpu()) GTEST_SKIP() << "the CPU has kernels for them";
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 3;
  desc.n = 4;
  desc.k = 64;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = LATHE_IQ4_NL;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  lathe_plan* plan = nullptr;
  EXPECT_EQ(lathe_plan_matmul(device(), &desc, &plan), LATHE_UNSUPPORTED);
  EXPECT_NE(
      std::string(lathe_last_error())
          .find("only the CPU multiplies f32 by iq4_nl; this device multiplies f32 by f32, q4_0, q8_0, q4_1, "
                "q4_k, q6_k, mxfp4"),
      std::string::npos)
      << lathe_last_error();
  lathe_scale scale = LATHE_SCALE_INIT;
  scale.dtype = LATHE_F32;
  desc.a.dtype = desc.b.dtype = LATHE_I8;
  desc.b.scale = &scale;
  EXPECT_EQ(lathe_plan_matmul(device(), &desc, &plan), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("only the CPU has kernels with scales and zero points"),
            std::string::npos)
      << lathe_last_error();
}

}  // namespace
}  // namespace lathe::conformance
