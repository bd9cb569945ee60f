// Grouped products: every grouping with random routing, dtypes, epilogues, packed and quantised weights, sums over slots,
// strides, and routing that is refused.
#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grouped_case.h"

namespace lathe::conformance {
namespace {

using testing::HasSubstr;

class GroupedMatmul : public GroupedTest {
 protected:
  GroupedMatmul() : GroupedTest(77) {}
  GroupedMatmulRequest random_request(lathe_grouping grouping) {
    GroupedMatmulRequest r;
    r.grouping = grouping;
    r.m = one_of({0, 1, 2, 5, 17, 40, 130});
    r.n = one_of({1, 2, 31, 64, 100});
    r.k = one_of({0, 1, 7, 64, 257});
    r.groups = one_of({1, 2, 3, 8, 40});
    r.padding = one_of({0, 0, 3});
    r.fill = random_.below(2) != 0 ? reference::Fill::kIntegers : reference::Fill::kNormal;
    if (grouping == LATHE_GROUPING_INDEXED) {
      r.used = one_of({1, 2, 4, 8});
      r.shared_rows = random_.below(2) != 0;
    }
    if (grouping == LATHE_GROUPING_COUNTS && r.groups > 8) r.m = std::min<int64_t>(r.m, 17);
    return r;
  }
};

TEST_F(GroupedMatmul, EveryGroupingWithRandomRouting) {
  for (int i = 0; i < quick_or(24, 60); ++i) expect(random_request(kGroupings[i % 4]));
}

TEST_F(GroupedMatmul, FloatsLayoutsAndEpilogues) {
  constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
  for (int i = 0; i < quick_or(24, 36); ++i) {
    GroupedMatmulRequest r = random_request(kGroupings[i % 4]);
    r.dtype = kFloats[i / 4 % 3];
    r.out_dtype = kFloats[random_.below(3)];
    r.trans_b = random_.below(3) != 0;
    r.bias = random_.below(2) != 0;
    r.alpha = random_.below(2) != 0 ? 0.75f : 1.0f;
    r.activation = static_cast<lathe_activation>(random_.below(LATHE_ACTIVATION_SILU + 1));
    r.misalign = random_.below(2) != 0 ? bytes_of(r.dtype) : 0;
    expect(r);
  }
}

// Rows of whole 16 bytes, as experts have them: GPUs have kernels of their own for these, and for few rows per group.
TEST_F(GroupedMatmul, AlignedExperts) {
  constexpr lathe_dtype kInputs[] = {LATHE_BF16, LATHE_F16, LATHE_F32, LATHE_I8};
  for (int i = 0; i < quick_or(40, 64); ++i) {
    GroupedMatmulRequest r;
    r.grouping = kGroupings[i % 4];
    r.dtype = kInputs[i / 4 % 4];
    const bool bytes = r.dtype == LATHE_I8;
    r.out_dtype = bytes ? LATHE_I32 : random_.below(2) != 0 ? r.dtype : LATHE_F32;
    r.m = one_of({1, 2, 7, 24, 50});
    r.n = one_of({16, 48, 80});
    r.k = one_of({64, 128, 208});
    r.groups = one_of({2, 5, 24});
    if (r.grouping == LATHE_GROUPING_INDEXED) {
      r.used = one_of({1, 3, 6, 8});
      r.shared_rows = random_.below(2) != 0;
      r.summed = !bytes && random_.below(2) != 0;
    }
    if (r.grouping == LATHE_GROUPING_COUNTS) r.m = std::min<int64_t>(r.m, 24);
    r.trans_b = random_.below(3) != 0;
    r.bias = !bytes && random_.below(2) != 0;
    if (!bytes && r.trans_b && random_.below(3) == 0) r.gate = LATHE_GATE_SILU;
    r.fill = r.gate == LATHE_GATE_NONE ? reference::Fill::kIntegers : reference::Fill::kNormal;
    expect(r);
  }
}

// One or a few tokens and more experts, as in decoding.
TEST_F(GroupedMatmul, ExpertsOfFewTokens) {
  int i = 0;
  for (lathe_dtype dtype : {LATHE_BF16, LATHE_F16, LATHE_F32})
    for (lathe_grouping grouping : kGroupings) {
      GroupedMatmulRequest r;
      r.grouping = grouping;
      r.dtype = r.out_dtype = dtype;
      r.m = 1 + ++i % 3, r.n = capped(512), r.k = capped(1024), r.groups = 12;
      if (grouping == LATHE_GROUPING_INDEXED) r.used = 4, r.summed = i % 2 == 0;
      r.trans_b = i % 4 != 3;
      r.bias = i % 2 != 0;
      expect(r);
    }
}

TEST_F(GroupedMatmul, SumsOverSlots) {
  for (int i = 0; i < quick_or(9, 24); ++i) {
    GroupedMatmulRequest r = random_request(LATHE_GROUPING_INDEXED);
    r.summed = true;
    r.out_dtype = i % 3 == 0 ? LATHE_BF16 : i % 3 == 1 ? LATHE_F16 : LATHE_F32;
    r.bias = random_.below(2) != 0;
    r.n = one_of({1, 31, 300, 513});
    expect(r);
  }
}

TEST_F(GroupedMatmul, QuantisedAndPackedWeights) {
  SKIP_UNLESS_CPU("only the CPU has kernels for these weights");
  if (is_fallback()) GTEST_SKIP() << "generic kernels have no packed weights";
  const std::pair<lathe_dtype, lathe_math> products[] = {
      {LATHE_Q8_0, LATHE_MATH_INT8},  {LATHE_Q4_K, LATHE_MATH_INT8}, {LATHE_Q6_K, LATHE_MATH_STRICT},
      {LATHE_MXFP4, LATHE_MATH_INT8}, {LATHE_Q4_0, LATHE_MATH_INT8}, {LATHE_BF16, LATHE_MATH_BF16}};
  for (int i = 0; i < 36; ++i) {
    GroupedMatmulRequest r = random_request(kGroupings[i % 4]);
    const auto& [weights, math] = products[i / 4 % 6];
    r.b_dtype = weights;
    r.math = math;
    r.k = elements_of(weights) * one_of({1, 2, 3});
    r.packed = math == LATHE_MATH_INT8 && random_.below(2) != 0;
    expect(r);
  }
}

TEST_F(GroupedMatmul, EveryGate) {
  constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
  for (int i = 0; i < quick_or(20, 50); ++i) {
    GroupedMatmulRequest r = random_request(kGroupings[i % 4]);
    r.gate = static_cast<lathe_gate>(1 + i / 2 % 5);
    r.gate_layout = i % 2 != 0 ? LATHE_GATE_INTERLEAVED : LATHE_GATE_HALVES;
    r.n = one_of({2, 6, 34, 64, 130});
    r.dtype = kFloats[i % 3];
    r.out_dtype = kFloats[random_.below(3)];
    r.trans_b = r.gate_layout == LATHE_GATE_INTERLEAVED || random_.below(2) != 0;
    r.bias = random_.below(2) != 0;
    r.alpha = random_.below(2) != 0 ? 0.5f : 1.0f;
    r.summed = r.grouping == LATHE_GROUPING_INDEXED && random_.below(2) != 0;
    r.fill = reference::Fill::kNormal;
    expect(r);
  }
}

TEST_F(GroupedMatmul, GatesWithQuantisedAndPackedWeights) {
  SKIP_UNLESS_CPU("only the CPU has kernels for these weights");
  if (is_fallback()) GTEST_SKIP() << "generic kernels have no packed weights";
  constexpr lathe_dtype kWeights[] = {LATHE_Q8_0, LATHE_Q4_K, LATHE_MXFP4, LATHE_F32};
  for (int i = 0; i < 24; ++i) {
    GroupedMatmulRequest r = random_request(kGroupings[i % 4]);
    r.b_dtype = kWeights[i / 4 % 4];
    r.math = r.b_dtype == LATHE_F32 ? LATHE_MATH_STRICT : LATHE_MATH_INT8;
    if (r.b_dtype == LATHE_F32) r.b_dtype = LATHE_DTYPE_NONE;
    r.k = elements_of(r.weight_dtype()) * one_of({1, 2, 3});
    r.packed = random_.below(2) != 0;
    r.n = r.packed ? one_of({32, 64, 96}) : one_of({2, 34, 66});
    r.gate = static_cast<lathe_gate>(1 + random_.below(5));
    if (!r.packed && random_.below(2) != 0) r.gate_layout = LATHE_GATE_INTERLEAVED;
    r.bias = random_.below(2) != 0;
    r.fill = reference::Fill::kNormal;
    expect(r);
  }
}

TEST_F(GroupedMatmul, RefusesGatesThatItHasNoKernelsFor) {
  const struct {
    std::function<void(lathe_grouped_matmul_desc*)> change;
    lathe_status status;
    const char* cause;
  } cases[] = {
      {[](auto* d) { d->n = 5; }, LATHE_INVALID_ARGUMENT, "n 5 must be even with a gate"},
      {[](auto* d) { d->gate = static_cast<lathe_gate>(6); }, LATHE_INVALID_ARGUMENT, "gate 6 is unknown"},
      {[](auto* d) { d->gate = LATHE_GATE_NONE, d->gate_layout = LATHE_GATE_INTERLEAVED; },
       LATHE_INVALID_ARGUMENT, "gate_layout must be HALVES"},
      {[](auto* d) { d->epilogue.activation = LATHE_ACTIVATION_RELU; }, LATHE_INVALID_ARGUMENT,
       "activation must be NONE with a gate"},
      {[](auto* d) { d->b.layout = LATHE_ROW_MAJOR, d->gate_layout = LATHE_GATE_INTERLEAVED; },
       LATHE_UNSUPPORTED, "INTERLEAVED needs a B that is COLUMN_MAJOR"},
      {[](auto* d) { d->d.dtype = LATHE_I32; }, LATHE_UNSUPPORTED, "d: dtype i32"}};
  for (const auto& c : cases) {
    GroupedMatmulRequest r;
    r.m = 6, r.n = 4, r.k = 8, r.groups = 3;
    r.gate = LATHE_GATE_SILU;
    Grouped grouped(r, &random_);
    c.change(&grouped.desc());
    EXPECT_EQ(grouped.run(device()), c.status) << c.cause;
    EXPECT_THAT(lathe_last_error(), HasSubstr(c.cause));
  }
}

TEST_F(GroupedMatmul, BytesToExactSums) {
  for (lathe_grouping grouping : kGroupings) {
    GroupedMatmulRequest r = random_request(grouping);
    r.m = 9;
    r.dtype = LATHE_I8;
    r.out_dtype = LATHE_I32;
    expect(r);
  }
}

// Scales of rows follow their rows through every grouping, and scales of columns their groups.
TEST_F(GroupedMatmul, ScalesOfBytes) {
  SKIP_UNLESS_CPU("only the CPU has kernels with scales");
  for (lathe_grouping grouping : kGroupings) {
    GroupedMatmulRequest r = random_request(grouping);
    r.m = 6, r.n = 5, r.k = 64, r.groups = 3;
    r.padding = 0;
    r.dtype = LATHE_I8;
    r.out_dtype = LATHE_F32;
    SCOPED_TRACE(describe(r));
    Grouped grouped(r, &random_);
    const int64_t rows = grouping == LATHE_GROUPING_COUNTS                      ? r.m * r.groups
                         : grouping == LATHE_GROUPING_INDEXED && !r.shared_rows ? r.m * r.used
                                                                                : r.m;
    std::vector<float> of_a(static_cast<size_t>(rows)), of_b(static_cast<size_t>(r.groups * r.n));
    for (float& x : of_a) x = static_cast<float>(1 + random_.below(8)) * 0.25f;
    for (float& x : of_b) x = static_cast<float>(1 + random_.below(8)) * 0.5f;
    lathe_scale a = LATHE_SCALE_INIT, b = LATHE_SCALE_INIT;
    a.dtype = b.dtype = LATHE_F32;
    a.granularity = b.granularity = LATHE_PER_CHANNEL;
    a.data = of_a.data(), b.data = of_b.data();
    grouped.desc().a.scale = &a;
    grouped.desc().b.scale = &b;
    ASSERT_LATHE_OK(grouped.run(device()));

    const auto& data = grouped.data();
    const auto expect_row = [&](int64_t group, int64_t a_batch, int64_t a_row, int64_t scale,
                                int64_t d_batch) {
      for (int64_t j = 0; j < r.n; ++j) {
        int64_t sum = 0;
        for (int64_t p = 0; p < r.k; ++p)
          sum += data.a.integer_at(a_batch, a_row, p) * data.b.integer_at(group, p, j);
        const double wanted = static_cast<double>(sum) * of_a[static_cast<size_t>(scale)] *
                              of_b[static_cast<size_t>(group * r.n + j)];
        EXPECT_FLOAT_EQ(data.d.at(d_batch, a_row, j), wanted) << "group " << group << " row " << a_row;
      }
    };
    for (int64_t i = 0; i < r.m; ++i) {
      if (grouping == LATHE_GROUPING_OFFSETS) {
        for (int64_t g = 0; g < r.groups; ++g)
          if (i >= data.routing[static_cast<size_t>(g)] && i < data.routing[static_cast<size_t>(g) + 1])
            expect_row(g, 0, i, i, 0);
      } else if (grouping == LATHE_GROUPING_ROW_IDS) {
        if (data.routing[static_cast<size_t>(i)] >= 0)
          expect_row(data.routing[static_cast<size_t>(i)], 0, i, i, 0);
      } else if (grouping == LATHE_GROUPING_COUNTS) {
        for (int64_t g = 0; g < r.groups; ++g)
          if (i < data.routing[static_cast<size_t>(g)]) expect_row(g, g, i, g * r.m + i, g);
      } else {
        for (int64_t s = 0; s < r.used; ++s)
          if (const int32_t g = data.routing[static_cast<size_t>(i * r.used + s)]; g >= 0)
            expect_row(g, r.shared_rows ? 0 : s, i, r.shared_rows ? i : i * r.used + s, s);
      }
    }
  }
}

// ggml keeps the slots of a token side by side: the distance of slots is a row, that of tokens all slots.
TEST_F(GroupedMatmul, SlotsSideBySideAndWideRouting) {
  constexpr int64_t kTokens = 7, kUsed = 3, kGroups = 5, kN = 20, kK = 33, kStride = 6;
  std::vector<float> a(kTokens * kUsed * kK), b(kGroups * kN * kK), d(kTokens * kUsed * kN, -1.0f);
  for (float& x : a) x = static_cast<float>(random_.below(9) - 4);
  for (float& x : b) x = static_cast<float>(random_.below(9) - 4);
  std::vector<int32_t> routing(kTokens * kStride,
                               99);  // the elements between the slots of tokens are not read
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t s = 0; s < kUsed; ++s)
      routing[static_cast<size_t>(t * kStride + s)] = static_cast<int32_t>((t + s) % kGroups);
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.grouping = LATHE_GROUPING_INDEXED;
  desc.m = kTokens, desc.n = kN, desc.k = kK, desc.groups = kGroups, desc.used = kUsed;
  desc.routing = routing.data();
  desc.routing_stride = kStride;
  desc.a.data = a.data(), desc.b.data = b.data(), desc.d.data = d.data();
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.a.leading_dimension = kUsed * kK, desc.a.batch_stride = kK;
  desc.b.batch_stride = kN * kK;
  desc.d.leading_dimension = kUsed * kN, desc.d.batch_stride = kN;
  DeviceCopies copies(device());
  for (std::vector<float>* memory : {&a, &b, &d}) copies.add(*memory);
  copies.add(routing);
  desc = copies.moved(desc);
  ASSERT_LATHE_OK(lathe_grouped_matmul(device(), nullptr, &desc));
  copies.fetch();
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t s = 0; s < kUsed; ++s) {
      for (int64_t j = 0; j < kN; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < kK; ++p)
          sum += a[static_cast<size_t>((t * kUsed + s) * kK + p)] *
                 b[static_cast<size_t>(((t + s) % kGroups * kN + j) * kK + p)];
        EXPECT_EQ(d[static_cast<size_t>((t * kUsed + s) * kN + j)], sum) << t << " " << s << " " << j;
      }
    }
  }
}

TEST_F(GroupedMatmul, ManyGroupsOfOneRowAndOneGroupOfAllRows) {
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_ROW_IDS;
  r.m = r.groups = capped(512);
  r.n = 16;
  r.k = 32;
  Grouped grouped(r, &random_);
  std::iota(grouped.data().routing.rbegin(), grouped.data().routing.rend(), 0);
  ASSERT_LATHE_OK(grouped.run(device()));
  EXPECT_TRUE(grouped.check(&random_).ok) << grouped.check(&random_).what;
  r.m = capped(600);
  r.groups = 3;
  Grouped one(r, &random_);
  std::fill(one.data().routing.begin(), one.data().routing.end(), 2);
  ASSERT_LATHE_OK(one.run(device()));
  EXPECT_TRUE(one.check(&random_).ok) << one.check(&random_).what;
}

// The bits of a row do not depend on how many rows its group has.
TEST_F(GroupedMatmul, BatchInvariantRows) {
  if (is_fallback()) GTEST_SKIP() << "generic kernels do not serve batch-invariant requests";
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_ROW_IDS;
  r.m = 40, r.n = 50, r.k = capped(700), r.groups = 2;
  r.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  Grouped all(r, &random_);
  std::fill(all.data().routing.begin(), all.data().routing.end(), 1);
  ASSERT_LATHE_OK(all.run(device()));
  std::vector<float> alone(static_cast<size_t>(r.n));
  lathe_grouped_matmul_desc one = all.desc();
  one.m = 1;
  one.a.data = static_cast<float*>(one.a.data) + 23 * r.k;
  one.d.data = alone.data();
  ASSERT_LATHE_OK(all.run_as(device(), one, &alone));
  for (int64_t j = 0; j < r.n; ++j)
    EXPECT_EQ(alone[static_cast<size_t>(j)], static_cast<float>(all.data().d.at(0, 23, j))) << j;
}

TEST_F(GroupedMatmul, RefusesBadRoutingAndWritesNothing) {
  lathe_context_options options = memory_only(2);
  options.validate = 1;  // a GPU reads the routing on the host only then
  OpenDevice checked(options);
  const struct {
    lathe_grouping grouping;
    int32_t value;
    const char* cause;
  } cases[] = {{LATHE_GROUPING_OFFSETS, -1, "routing[1] is -1"},
               {LATHE_GROUPING_OFFSETS, 7, "routing[1] is 7, but A has 6 rows"},
               {LATHE_GROUPING_ROW_IDS, 3, "routing[1] is 3, but there are 3 groups"},
               {LATHE_GROUPING_ROW_IDS, -2, "routing[1] is -2"},
               {LATHE_GROUPING_COUNTS, 7, "routing[1] is 7, not in [0, 6]"},
               {LATHE_GROUPING_COUNTS, -1, "routing[1] is -1"},
               {LATHE_GROUPING_INDEXED, 3, "routing[1] is 3, but there are 3 groups"},
               {LATHE_GROUPING_INDEXED, INT32_MIN, "routing[1] is -2147483648"}};
  for (const auto& c : cases) {
    GroupedMatmulRequest r;
    r.grouping = c.grouping;
    r.m = 6, r.n = 4, r.k = 8, r.groups = 3;
    if (c.grouping == LATHE_GROUPING_INDEXED) r.used = 2;
    Grouped grouped(r, &random_);
    grouped.data().routing[0] = 0;
    grouped.data().routing[1] = c.value;
    EXPECT_EQ(grouped.run(checked.get()), LATHE_INVALID_ARGUMENT);
    EXPECT_THAT(lathe_last_error(), HasSubstr(c.cause));
    EXPECT_THAT(lathe_last_error(), HasSubstr("grouped_matmul f32 a=n b=t m=6 n=4 k=8 groups=3"));
    EXPECT_EQ(grouped.data().d.unwritten(), grouped.data().d.elements());
  }
}

TEST_F(GroupedMatmul, WarmUpCoversEveryRouting) {
  OpenDevice warmed(memory_only(2));
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_INDEXED;
  r.m = 50, r.n = 24, r.k = 40, r.groups = 6, r.used = 2;
  r.bias = true;
  r.gate = LATHE_GATE_SILU;
  Grouped grouped(r, &random_);
  lathe_manifest* manifest = nullptr;
  ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
  ASSERT_LATHE_OK(lathe_manifest_add_grouped_matmul(manifest, "experts", &grouped.desc(), 100));
  ASSERT_LATHE_OK(lathe_warmup(warmed.get(), manifest, nullptr, nullptr));
  lathe_manifest_destroy(manifest);
  ASSERT_LATHE_OK(lathe_context_set_miss(warmed.context(), LATHE_MISS_ERROR, nullptr, nullptr));
  EXPECT_LATHE_OK(grouped.run(warmed.get()));
  EXPECT_TRUE(grouped.check(&random_).ok);
  grouped.desc().n = 22;
  EXPECT_EQ(grouped.run(warmed.get()), LATHE_MISS);
}

// Whether to divide a group, and its product, ask for the same kernels.
TEST_F(GroupedMatmul, ACallThatFallsBackCountsEachClassOnce) {
  SKIP_UNLESS_CPU("on a GPU all groups have one class");
  lathe_context_options options = memory_only(2);
  options.miss_policy = LATHE_MISS_FALLBACK;
  OpenDevice cold(options);
  GroupedMatmulRequest r;
  r.m = 42, r.n = 20, r.k = 24, r.groups = 4;
  Grouped grouped(r, &random_);
  const int32_t offsets[] = {0, 20, 21, 41, 42};
  std::copy(std::begin(offsets), std::end(offsets), grouped.data().routing.begin());
  ASSERT_LATHE_OK(grouped.run(cold.get()));
  EXPECT_TRUE(grouped.check(&random_).ok) << grouped.check(&random_).what;
  EXPECT_EQ(cold.statistics().dispatch_misses, 2u) << "of 20 rows, and of 1 row";
  EXPECT_EQ(cold.statistics().fallback_runs, 2u);
}

// The tasks of all groups go through the caller's parallel-for, on any of its workers. Each of the five groups has
// rows: a call with a single task would run it without the caller.
TEST_F(GroupedMatmul, RunsOnTheCallersThreads) {
  SKIP_UNLESS_CPU("only the CPU takes the caller's threads");
  struct Calls {
    int64_t sets = 0, tasks = 0;
    static void run(void* user, int64_t count, lathe_task_fn body, void* context) {
      auto& calls = *static_cast<Calls*>(user);
      ++calls.sets;
      calls.tasks += count;
      for (int64_t i = count; i-- > 0;) body(context, i, static_cast<int32_t>(i % 3));
    }
  } calls;
  lathe_context_options options = memory_only(3);
  options.parallel_for = Calls::run;
  options.parallel_for_user = &calls;
  OpenDevice lent(options);
  for (lathe_grouping grouping : kGroupings) {
    GroupedMatmulRequest r;
    r.grouping = grouping;
    r.m = 40, r.n = 100, r.k = 64, r.groups = 5;
    if (grouping == LATHE_GROUPING_INDEXED) r.used = 2;
    SCOPED_TRACE(describe(r));
    Grouped grouped(r, &random_);
    std::vector<int32_t>& routing = grouped.data().routing;
    for (size_t i = 0; i < routing.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      routing[i] = grouping == LATHE_GROUPING_OFFSETS  ? 8 * index
                   : grouping == LATHE_GROUPING_COUNTS ? 8
                                                       : index % 5;
    }
    calls = {};
    ASSERT_LATHE_OK(grouped.run(lent.get()));
    EXPECT_TRUE(grouped.check(&random_).ok) << grouped.check(&random_).what;
    EXPECT_GE(calls.sets, 1);
    EXPECT_GE(calls.tasks, r.groups);
  }
}

TEST_F(GroupedMatmul, PropagatesSpecialValues) {
  for (int i = 0; i < 8; ++i) {
    GroupedMatmulRequest r = random_request(kGroupings[i % 4]);
    r.m = 9, r.k = 40;
    r.fill = reference::Fill::kSpecial;
    expect(r);
  }
}

}  // namespace
}  // namespace lathe::conformance
