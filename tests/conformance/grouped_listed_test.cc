// Grouped products with groups of many rows that are not all the same distance apart. On the CPU their kernels find the
// rows of A, and of D, in a list. Groups of few rows: grouped_test.cc.
#include <algorithm>
#include <random>
#include <vector>

#include "grouped_case.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

struct Weights {
  lathe_dtype a, b;
  lathe_math math;
};
constexpr Weights kWeights[] = {
    {LATHE_F32, LATHE_F32, LATHE_MATH_STRICT},   {LATHE_F16, LATHE_F16, LATHE_MATH_STRICT},
    {LATHE_BF16, LATHE_BF16, LATHE_MATH_STRICT}, {LATHE_F32, LATHE_F16, LATHE_MATH_STRICT},
    {LATHE_F32, LATHE_BF16, LATHE_MATH_BF16},    {LATHE_F32, LATHE_Q4_K, LATHE_MATH_INT8},
    {LATHE_F32, LATHE_Q8_0, LATHE_MATH_INT8},    {LATHE_F32, LATHE_MXFP4, LATHE_MATH_INT8},
    {LATHE_F16, LATHE_Q4_K, LATHE_MATH_INT8},    {LATHE_BF16, LATHE_MXFP4, LATHE_MATH_INT8},
    {LATHE_F32, LATHE_Q6_K, LATHE_MATH_STRICT},  {LATHE_I8, LATHE_I8, LATHE_MATH_STRICT}};

class GroupedListed : public GroupedTest {
 protected:
  GroupedListed() : GroupedTest(83) {}
  // GPUs multiply floats of one dtype only, and have no MATH_INT8 for blocks.
  bool multiplies(const Weights& w) const {
    return is_cpu() || (w.math != LATHE_MATH_INT8 && (w.a == w.b || elements_of(w.b) > 1));
  }
  // Groups of 17 to about 100 rows, most of them uneven.
  GroupedMatmulRequest random_request(const Weights& w, lathe_grouping grouping) {
    GroupedMatmulRequest r;
    r.grouping = grouping;
    r.dtype = w.a;
    if (w.b != w.a) r.b_dtype = w.b;
    r.math = w.math;
    r.out_dtype = w.a == LATHE_I8 ? LATHE_I32 : kFloats[random_.below(3)];
    r.groups = one_of({1, 2, 3});
    r.m = one_of({40, 67, 100, 150});
    r.n = one_of({16, 33, 80, 260});
    r.k = elements_of(w.b) > 1 ? elements_of(w.b) * one_of({1, 2, 3}) : one_of({31, 64, 160, 257});
    r.padding = one_of({0, 3});
    r.fill = random_.below(2) != 0 ? reference::Fill::kIntegers : reference::Fill::kNormal;
    if (grouping == LATHE_GROUPING_COUNTS) r.m = std::min<int64_t>(r.m, 67);
    if (grouping == LATHE_GROUPING_INDEXED) {
      r.used = one_of({1, 2, 5, 8});
      r.m = ceil_div(r.m, r.used) * one_of({1, 2});
      r.shared_rows = random_.below(2) != 0;
    }
    return r;
  }
  void add_epilogue(GroupedMatmulRequest* r) {
    if (r->dtype == LATHE_I8) return;
    r->bias = random_.below(2) != 0;
    r->alpha = random_.below(2) != 0 ? 0.75f : 1.0f;
    r->activation = static_cast<lathe_activation>(random_.below(LATHE_ACTIVATION_SILU + 1));
  }
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

TEST_F(GroupedListed, EveryWeightAndGrouping) {
  for (int repeat = 0; repeat < quick_or(1, 2); ++repeat)
    for (const Weights& w : kWeights) {
      if (!multiplies(w)) continue;
      const lathe_grouping even = repeat % 2 == 0 ? LATHE_GROUPING_OFFSETS : LATHE_GROUPING_COUNTS;
      for (lathe_grouping grouping : {LATHE_GROUPING_ROW_IDS, LATHE_GROUPING_INDEXED, even}) {
        GroupedMatmulRequest r = random_request(w, grouping);
        add_epilogue(&r);
        r.misalign = random_.below(2) != 0 ? bytes_of(r.dtype) : 0;
        r.trans_b = elements_of(w.b) > 1 || random_.below(3) != 0;
        expect(r);
      }
    }
}

TEST_F(GroupedListed, PackedWeights) {
  SKIP_UNLESS_CPU("only the CPU has packed weights");
  if (is_fallback()) GTEST_SKIP() << "generic kernels have no packed weights";
  for (int repeat = 0; repeat < quick_or(1, 2); ++repeat)
    for (const Weights& w : kWeights) {
      if (w.b == LATHE_F16 || w.b == LATHE_Q6_K) continue;
      GroupedMatmulRequest r = random_request(w, kGroupings[random_.below(2) != 0 ? 1 : 3]);
      r.packed = true;
      add_epilogue(&r);
      expect(r);
    }
}

TEST_F(GroupedListed, GatesAndSums) {
  for (int repeat = 0; repeat < quick_or(1, 2); ++repeat)
    for (const Weights& w : kWeights) {
      if (w.a == LATHE_I8 || !multiplies(w)) continue;
      GroupedMatmulRequest r = random_request(w, LATHE_GROUPING_INDEXED);
      r.fill = reference::Fill::kNormal;
      r.summed = random_.below(2) != 0;
      if (random_.below(3) != 0) {
        r.gate = static_cast<lathe_gate>(1 + random_.below(5));
        r.n = one_of({32, 96, 514});
        if (random_.below(2) != 0) r.gate_layout = LATHE_GATE_INTERLEAVED;
      }
      r.bias = random_.below(2) != 0;
      expect(r);
    }
}

// All rows in one group; a row for each of many groups; groups of 16 rows, and of 17.
TEST_F(GroupedListed, UnequalGroups) {
  for (const Weights& w : {kWeights[0], kWeights[4], kWeights[6]}) {
    if (!multiplies(w)) continue;
    for (int shape = 0; shape < 4; ++shape) {
      GroupedMatmulRequest r;
      r.grouping = LATHE_GROUPING_INDEXED;
      r.dtype = w.a, r.math = w.math;
      if (w.b != w.a) r.b_dtype = w.b;
      r.n = 48, r.k = 96, r.groups = shape == 1 ? 512 : 40, r.used = 4, r.m = shape == 1 ? 128 : 33;
      r.shared_rows = shape % 2 == 0;
      r.padding = 3;
      r.fill = reference::Fill::kIntegers;
      Grouped grouped(r, &random_);
      std::vector<int32_t>& routing = grouped.data().routing;
      for (size_t i = 0; i < routing.size(); ++i) {
        const auto slot = static_cast<int32_t>(i);
        routing[i] = shape == 0   ? 17
                     : shape == 1 ? slot
                     : shape == 2 ? (slot < 64 ? slot / 16 : -1)
                                  : slot / 17;
      }
      if (shape != 0)
        std::shuffle(routing.begin(), routing.end(),
                     std::mt19937_64(static_cast<uint64_t>(random_.below(1 << 30))));
      SCOPED_TRACE(describe(r));
      ASSERT_LATHE_OK(grouped.run(device()));
      const reference::CheckResult result = grouped.check(&random_);
      EXPECT_TRUE(result.ok) << result.what;
    }
  }
}

// Rows at one distance need no list, so the same number of other rows is another class. A warm-up of the grouping covers
// both.
TEST_F(GroupedListed, AreClassesOfTheirOwnThatAWarmUpCovers) {
  SKIP_UNLESS_CPU("on a GPU every grouping has a class");
  if (is_fallback()) GTEST_SKIP() << "generic kernels have no classes";
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_ROW_IDS;
  r.m = 60, r.n = 40, r.k = 64, r.groups = 2;
  Grouped grouped(r, &random_);
  std::vector<int32_t>& routing = grouped.data().routing;
  const auto run = [&](lathe_grouping warmed_grouping, bool uneven) {
    for (size_t i = 0; i < routing.size(); ++i)
      routing[i] = static_cast<int32_t>(uneven ? i / 3 % 2 : i >= routing.size() / 2);
    OpenDevice warmed(memory_only(2));
    lathe_manifest* manifest = nullptr;
    EXPECT_LATHE_OK(lathe_manifest_create(&manifest));
    lathe_grouped_matmul_desc desc = grouped.desc();
    desc.grouping = warmed_grouping;
    EXPECT_LATHE_OK(lathe_manifest_add_grouped_matmul(manifest, "experts", &desc, 64));
    EXPECT_LATHE_OK(lathe_warmup(warmed.get(), manifest, nullptr, nullptr));
    lathe_manifest_destroy(manifest);
    EXPECT_LATHE_OK(lathe_context_set_miss(warmed.context(), LATHE_MISS_ERROR, nullptr, nullptr));
    return grouped.run(warmed.get());
  };
  EXPECT_EQ(run(LATHE_GROUPING_OFFSETS, /*uneven=*/false), LATHE_OK);
  EXPECT_EQ(run(LATHE_GROUPING_OFFSETS, /*uneven=*/true), LATHE_MISS) << lathe_last_error();
  EXPECT_EQ(run(LATHE_GROUPING_ROW_IDS, /*uneven=*/false), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(run(LATHE_GROUPING_ROW_IDS, /*uneven=*/true), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(grouped.check(&random_).ok);
}

// A generic kernel reads no list, so the rows are copied for it.
TEST_F(GroupedListed, FallBackToGenericKernels) {
  SKIP_UNLESS_CPU("GPUs have no generic kernels of grouped products");
  lathe_context_options options = memory_only(2);
  options.miss_policy = LATHE_MISS_FALLBACK;
  OpenDevice cold(options);
  for (bool gate : {false, true}) {
    GroupedMatmulRequest r;
    r.grouping = LATHE_GROUPING_INDEXED;
    r.m = 40, r.n = 20, r.k = 24, r.groups = 2, r.used = 2;
    if (gate) r.gate = LATHE_GATE_SILU;
    Grouped grouped(r, &random_);
    for (size_t i = 0; i < grouped.data().routing.size(); ++i)
      grouped.data().routing[i] = static_cast<int32_t>(i / 3 % 2);
    const uint64_t before = cold.statistics().fallback_runs;
    ASSERT_LATHE_OK(grouped.run(cold.get()));
    EXPECT_TRUE(grouped.check(&random_).ok) << grouped.check(&random_).what;
    EXPECT_GT(cold.statistics().fallback_runs, before);
  }
}

// The result of a row depends neither on the number of rows of its group nor on where they lie.
TEST_F(GroupedListed, BatchInvariantRows) {
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_ROW_IDS;
  r.m = 61, r.n = 70, r.k = 300, r.groups = 2;
  r.fill = reference::Fill::kNormal;
  r.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  Grouped grouped(r, &random_);
  std::vector<int32_t>& routing = grouped.data().routing;
  std::vector<std::vector<double>> results;
  for (int run = 0; run < 3; ++run) {
    for (size_t i = 0; i < routing.size();
         ++i)  // row 0 is always in group 0, which has all, every other or one row
      routing[i] = static_cast<int32_t>(run == 0 || i == 0 ? 0 : run == 1 ? i * i % 3 != 0 : 1);
    ASSERT_LATHE_OK(grouped.run(device()));
    std::vector<double>& row = results.emplace_back();
    for (int64_t j = 0; j < r.n; ++j) row.push_back(grouped.data().d.at(0, 0, j));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace lathe::conformance
