// matmul_argmax over dtypes, layouts, edges of every size, biases, ties, NaN and infinities, index types, offsets,
// leading dimensions and alignments; shards of a vocabulary; agreement with matmul and argmax.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "case_limits.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "pairwise.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

// Values in the memory of the device under test.
template <typename T>
class Placed {
 public:
  explicit Placed(const std::vector<T>& values) : memory_(values.size() * sizeof(T), Flush::kEnd) {
    put(values);
  }
  void put(const std::vector<T>& values) {
    std::memcpy(memory_.data(), values.data(), memory_.bytes());
    memory_.publish();
  }
  T* address() const { return static_cast<T*>(memory_.address()); }
  std::vector<T> fetch() const {
    memory_.fetch();
    std::vector<T> values(memory_.bytes() / sizeof(T));
    std::memcpy(values.data(), memory_.data(), memory_.bytes());
    return values;
  }

 private:
  GuardedMemory memory_;
};

class MatmulArgmax : public ConformanceTest {
 protected:
  void expect(const MatmulArgmaxCase& c) {
    if (failures_ >= 12) return;
    const testing::AssertionResult result = MatmulArgmaxRequest(c, &random_).run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  void expect_every_candidate(int64_t m, int64_t n, int64_t k);
  Random random_ = random_stream(9);

 private:
  int failures_ = 0;
};

TEST_F(MatmulArgmax, EveryTwoFactorsTogether) {
  const int64_t ms[] = {0, 1, 2, 3, 7, 16, 17, 33, 65, 130};
  const int64_t ns[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 127, 129, 257, 1000};
  const int64_t ks[] = {0, 1, 2, 3, 7, 16, 31, 64, 65, 257};
  const int64_t offsets[] = {0, 1, -5, 128256};
  const int64_t paddings[] = {0, 1, 8};
  const size_t misaligns[] = {0, 0, 1, 2, 4, 13};
  const std::vector<std::vector<int>> array =
      covering_array({10, 14, 10, 3, 3, 4, 4, 2, 2, 4, 3, 6, 2, 3, 3}, &random_);
  for (const std::vector<int>& row : array) {
    MatmulArgmaxCase c;
    c.m = ms[row[0]], c.n = ns[row[1]], c.k = ks[row[2]];
    c.in = kFloats[row[3]];
    c.logits = kFloats[row[4]];
    c.bias = row[5] < 3 ? kFloats[row[5]] : LATHE_DTYPE_NONE;
    c.trans_a = row[6] & 1, c.trans_b = row[6] >> 1;
    c.index = row[7] ? LATHE_I32 : LATHE_I64;
    c.wants_values = row[8];
    c.index_offset = offsets[row[9]];
    c.padding = paddings[row[10]];
    c.misalign = misaligns[row[11]];
    c.flush = row[12] ? Flush::kStart : Flush::kEnd;
    c.values = static_cast<Values>(row[13]);
    // Generic kernels support only the determinism level fast.
    if (!is_fallback()) c.determinism = static_cast<lathe_determinism>(row[14]);
    expect(c);
  }
}

// Small integers rounded to bf16 logits give many ties: the first column must win, in whichever tile it is.
TEST_F(MatmulArgmax, TiesGoToTheLowestColumn) {
  for (lathe_dtype in : kFloats)
    for (int64_t m : {1, 5, 40}) {
      MatmulArgmaxCase c;
      c.m = m, c.n = 3001, c.k = 5;
      c.in = in;
      c.logits = LATHE_BF16;
      c.wants_values = true;
      c.values = Values::kSmallIntegers;
      expect(c);
    }
}

// All weights are zero except one column, which visits every lane, every remainder and both ends of every tile.
TEST_F(MatmulArgmax, MaximumInEveryColumn) {
  constexpr int64_t kN = 389, kK = 3;
  std::vector<float> weights(kN * kK, 0.0f);
  const Placed<float> a(std::vector<float>(kK, 1.0f)), value({0});
  Placed<float> b(weights);
  const Placed<int64_t> index({-1});
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = 1, desc.n = kN, desc.k = kK;
  desc.a.dtype = desc.b.dtype = desc.logits_dtype = LATHE_F32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.a.data = a.address(), desc.b.data = b.address();
  desc.indices = index.address(), desc.values = value.address();
  for (int64_t winner = 0; winner < kN; winner += quick_or(7, 1)) {
    std::fill(weights.begin(), weights.end(), -1.0f);
    for (int64_t p = 0; p < kK; ++p) weights[static_cast<size_t>(winner * kK + p)] = -0.5f;
    b.put(weights);
    ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &desc));
    ASSERT_EQ(index.fetch()[0], winner);
    ASSERT_EQ(value.fetch()[0], -1.5f);
  }
}

TEST_F(MatmulArgmax, RowsOfMinusInfinityGiveColumnZero) {
  constexpr int64_t kM = 3, kN = 700;
  const Placed<float> a(std::vector<float>(kM, 1.0f)), b(std::vector<float>(kN, -HUGE_VALF));
  const Placed<int32_t> indices(std::vector<int32_t>(kM, -1));
  const Placed<float> values(std::vector<float>(kM, 0.0f));
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = kM, desc.n = kN, desc.k = 1;
  desc.a.dtype = desc.b.dtype = desc.logits_dtype = LATHE_F32;
  desc.a.data = a.address(), desc.b.data = b.address();
  desc.indices = indices.address(), desc.index_dtype = LATHE_I32, desc.values = values.address();
  ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &desc));
  EXPECT_EQ(indices.fetch(), std::vector<int32_t>(kM, 0));
  EXPECT_EQ(values.fetch(), std::vector<float>(kM, -HUGE_VALF));
}

TEST_F(MatmulArgmax, VocabularyRows) {
  for (lathe_dtype in : kFloats)
    for (int64_t m : {1, 4, 17}) {
      MatmulArgmaxCase c;
      c.m = m, c.n = capped_columns(quick_or(4003, 32003), m), c.k = 64;
      c.in = c.logits = in;
      c.wants_values = true;
      expect(c);
      c.values = Values::kSmallIntegers;
      c.bias = LATHE_F32;
      expect(c);
    }
}

// Every tile width and form of kernel gives the exact answer, for aligned and unaligned rows, few and many.
TEST_F(MatmulArgmax, EveryCandidate) {
  expect_every_candidate(19, 611, 37);
  expect_every_candidate(12, quick_or(611, 1611), 72);
  expect_every_candidate(150, 611, 72);
}

void MatmulArgmax::expect_every_candidate(int64_t m, int64_t n, int64_t k) {
  MatmulArgmaxCase c;
  c.m = m, c.n = n, c.k = k;
  c.flush = Flush::kStart;  // alignment is that of the rows
  c.in = LATHE_BF16;
  c.logits = LATHE_F16;
  c.bias = LATHE_BF16;
  c.wants_values = true;
  c.values = Values::kSmallIntegers;
  MatmulArgmaxRequest planned(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul_argmax(device(), planned.desc(), &plan));
  const nlohmann::json explained = nlohmann::json::parse(explain(plan), nullptr, false);
  lathe_plan_destroy(plan);
  ASSERT_TRUE(explained.is_object() && explained.contains("legal"));
  const int legal = explained["legal"].get<int>();
  ASSERT_GT(legal, 3);
  for (c.candidate = 1; c.candidate <= legal; c.candidate += 1 + legal / quick_or(8, 16)) expect(c);
}

// Merging the shards of a vocabulary by value and lowest index gives the result of the whole vocabulary.
TEST_F(MatmulArgmax, ShardsMerge) {
  constexpr int64_t kM = 9, kN = 1003, kK = 24;
  std::vector<float> a(kM * kK), b(kN * kK);
  for (float& x : a) x = static_cast<float>(random_.between(-4, 4));
  for (float& x : b) x = static_cast<float>(random_.between(-4, 4));
  const Placed<float> rows(a), weights(b);
  const auto run = [&](int64_t first, int64_t columns, std::vector<int64_t>* indices,
                       std::vector<float>* values) {
    const Placed<int64_t> best(std::vector<int64_t>(kM, -1));
    const Placed<float> maxima(std::vector<float>(kM, NAN));
    lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
    desc.m = kM, desc.n = columns, desc.k = kK;
    desc.a.dtype = desc.b.dtype = LATHE_F32;
    desc.logits_dtype = LATHE_BF16;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.a.data = rows.address(), desc.b.data = weights.address() + first * kK;
    desc.indices = best.address(), desc.values = maxima.address();
    desc.index_offset = first;
    EXPECT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &desc));
    *indices = best.fetch(), *values = maxima.fetch();
  };
  std::vector<int64_t> whole, merged, part;
  std::vector<float> whole_values, merged_values, part_values;
  run(0, kN, &whole, &whole_values);
  const int64_t ends[] = {0, 1, 300, 301, 640, kN};
  for (int shard = 0; shard < 5; ++shard) {
    run(ends[shard], ends[shard + 1] - ends[shard], &part, &part_values);
    if (shard == 0) merged = part, merged_values = part_values;
    for (size_t i = 0; i < kM; ++i)
      if (part_values[i] > merged_values[i]) merged[i] = part[i], merged_values[i] = part_values[i];
  }
  EXPECT_EQ(merged, whole);
  EXPECT_EQ(merged_values, whole_values);
}

// The result equals argmax of the matmul's D. The sums of integers are the same for every numeric recipe.
TEST_F(MatmulArgmax, AgreesWithMatmulAndArgmax) {
  const int64_t kM = 33, kN = capped(quick_or(611, 2111)), kK = 19;
  std::vector<float> a(kM * kK), b(kN * kK);
  for (float& x : a) x = static_cast<float>(random_.between(-30, 30));
  for (float& x : b) x = static_cast<float>(random_.between(-30, 30));
  const Placed<float> rows(a), weights(b);
  for (lathe_dtype logits : kFloats) {
    const Placed<uint8_t> d(std::vector<uint8_t>(kM * kN * bytes_of(logits)));
    const Placed<int64_t> expected(std::vector<int64_t>(kM, -1)), got(std::vector<int64_t>(kM, -2));
    lathe_matmul_desc matmul = LATHE_MATMUL_DESC_INIT;
    matmul.m = kM, matmul.n = kN, matmul.k = kK;
    matmul.a.dtype = matmul.b.dtype = LATHE_F32;
    matmul.b.layout = LATHE_COLUMN_MAJOR;
    matmul.a.data = rows.address(), matmul.b.data = weights.address(), matmul.d.data = d.address();
    matmul.d.dtype = logits;
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &matmul));
    lathe_argmax_desc argmax = LATHE_ARGMAX_DESC_INIT;
    argmax.rows = kM, argmax.n = kN;
    argmax.x = matmul.d;
    argmax.indices = expected.address();
    ASSERT_LATHE_OK(lathe_argmax(device(), nullptr, &argmax));
    lathe_matmul_argmax_desc both = LATHE_MATMUL_ARGMAX_DESC_INIT;
    both.m = kM, both.n = kN, both.k = kK;
    both.a = matmul.a, both.b = matmul.b;
    both.logits_dtype = logits;
    both.indices = got.address();
    ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &both));
    EXPECT_EQ(got.fetch(), expected.fetch()) << name_of(logits);
  }
}

TEST_F(MatmulArgmax, PlanServesEveryMOfItsBucket) {
  MatmulArgmaxCase c;
  c.m = 20, c.n = 300, c.k = 40;
  c.wants_values = true;
  MatmulArgmaxRequest planned(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul_argmax(device(), planned.desc(), &plan));
  for (int64_t m : {17, 25, 32}) {
    c.m = m;
    c.padding = m % 3;
    MatmulArgmaxRequest request(c, &random_);
    request.reset_output();
    ASSERT_LATHE_OK(lathe_plan_run_matmul_argmax(plan, nullptr, request.desc()));
    EXPECT_TRUE(request.check());
  }
  lathe_plan_destroy(plan);
}

// A split of K is refused with a message.
TEST_F(MatmulArgmax, RefusesSplits) {
  MatmulArgmaxCase c;
  c.m = 4, c.n = 100, c.k = capped(512);
  MatmulArgmaxRequest request(c, &random_);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 4;
  request.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(&tuning);
  EXPECT_EQ(lathe_matmul_argmax(device(), nullptr, request.desc()), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("partial sums cannot be compared"), std::string::npos)
      << lathe_last_error();
  tuning.split_k = 1;
  EXPECT_TRUE(request.run(device()));
}

}  // namespace
}  // namespace lathe::conformance
