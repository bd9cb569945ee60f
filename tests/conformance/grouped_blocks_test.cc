// Grouped products with experts in the block formats that every device has: all groupings with random routing, every
// dtype of A, gates, sums over slots, alignments.
#include <gmock/gmock.h>

#include <numeric>
#include <utility>

#include "block_weights.h"
#include "grouped_case.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFormats[] = {LATHE_Q8_0, LATHE_Q4_0, LATHE_Q4_1, LATHE_Q4_K, LATHE_Q6_K, LATHE_MXFP4};
constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class GroupedBlocks : public GroupedTest {
 protected:
  GroupedBlocks() : GroupedTest(79) {}
  // Some groups are empty, and some may have most rows.
  GroupedMatmulRequest random_request(lathe_grouping grouping, lathe_dtype format, lathe_dtype dtype) {
    GroupedMatmulRequest r;
    r.grouping = grouping;
    r.dtype = dtype;
    r.out_dtype = kFloats[random_.below(3)];
    r.b_dtype = format;
    r.m = one_of({1, 2, 7, 24, 50});
    r.n = one_of({2, 16, 34, 80});
    r.k = elements_of(format) * (elements_of(format) > 32 ? one_of({1, 2}) : one_of({1, 2, 5}));
    r.groups = one_of({1, 3, 8, 24});
    if (grouping == LATHE_GROUPING_COUNTS) r.m = std::min<int64_t>(r.m, 24);
    if (grouping == LATHE_GROUPING_INDEXED) {
      r.used = one_of({1, 3, 8});
      r.shared_rows = random_.below(2) != 0;
      r.summed = random_.below(2) != 0;
    }
    r.bias = random_.below(2) != 0;
    return r;
  }
};

TEST_F(GroupedBlocks, EveryFormatDtypeAndGrouping) {
  int i = 0;
  for (int repeat = 0; repeat < 2; ++repeat)
    for (lathe_dtype dtype : kFloats)
      for (lathe_dtype format : kFormats) {
        GroupedMatmulRequest r = random_request(kGroupings[(i + i / 4) % 4], format, dtype);
        r.misalign = ++i % 4 == 0 ? bytes_of(dtype) : i % 8 == 1 ? 1 : 0;
        r.padding = one_of({0, 0, 3});
        r.fill = random_.below(2) != 0 ? reference::Fill::kIntegers : reference::Fill::kNormal;
        expect(r);
      }
}

// The least K whose columns are multiples of 16 bytes: GPUs have kernels of their own for these, and for few rows per
// group.
TEST_F(GroupedBlocks, AlignedExpertsOfFewAndOfManyRows) {
  int i = 0;
  for (lathe_dtype format : kFormats)
    for (lathe_dtype dtype : kFloats)
      for (int64_t m : {1 + random_.below(3), int64_t{40}}) {
        const auto bytes = static_cast<int64_t>(bytes_of(format));
        GroupedMatmulRequest r = random_request(kGroupings[i++ % 4], format, dtype);
        r.m = r.grouping == LATHE_GROUPING_COUNTS ? std::min<int64_t>(m, 10) : m;
        r.k = elements_of(format) * std::lcm(bytes, int64_t{16}) / bytes;
        r.n = one_of({48, 80});
        r.groups = m > 3 ? 3 : 12;
        r.out_dtype = dtype;
        expect(r);
      }
}

TEST_F(GroupedBlocks, EveryGateInBothLayouts) {
  int i = 0;
  for (lathe_gate_layout layout : {LATHE_GATE_HALVES, LATHE_GATE_INTERLEAVED})
    for (lathe_dtype format : kFormats) {
      GroupedMatmulRequest r = random_request(kGroupings[(i + i / 4) % 4], format, kFloats[i % 3]);
      ++i;
      r.gate = static_cast<lathe_gate>(1 + i % 5);
      r.gate_layout = layout;
      r.n = one_of({2, 34, 64, 130});
      expect(r);
    }
}

TEST_F(GroupedBlocks, OneGroupOfAllRowsAndGroupsOfOneRow) {
  for (lathe_dtype format : {LATHE_Q4_K, LATHE_MXFP4})
    for (lathe_dtype dtype : {LATHE_F32, LATHE_BF16})
      for (int64_t groups : {3, 70}) {
        GroupedMatmulRequest r;
        r.grouping = LATHE_GROUPING_ROW_IDS;
        r.dtype = r.out_dtype = dtype;
        r.b_dtype = format;
        r.m = 70, r.n = 32, r.k = 256, r.groups = groups;
        SCOPED_TRACE(describe(r));
        if (leaves_out({r.m, r.n, r.k})) continue;
        Grouped grouped(r, &random_);
        std::vector<int32_t>& routing = grouped.data().routing;
        if (groups == 70)
          std::iota(routing.rbegin(), routing.rend(), 0);
        else
          std::fill(routing.begin(), routing.end(), 2);
        ASSERT_LATHE_OK(grouped.run(device()));
        const reference::CheckResult result = grouped.check(&random_);
        EXPECT_TRUE(result.ok) << result.what;
      }
}

TEST_F(GroupedBlocks, PropagatesSpecialValues) {
  for (lathe_dtype format : kFormats) {
    GroupedMatmulRequest r = random_request(kGroupings[random_.below(4)], format, kFloats[random_.below(3)]);
    r.fill = reference::Fill::kSpecial;
    r.summed = false;  // the reference's sums over slots are for finite products
    expect(r);
  }
}

// The class of a warm-up is that of the launches. A column of the first K is no multiple of 16 bytes.
TEST_F(GroupedBlocks, WarmUpCoversEveryRouting) {
  for (const auto& [k, layout] : {std::pair(96, LATHE_GATE_HALVES), std::pair(512, LATHE_GATE_INTERLEAVED)}) {
    OpenDevice warmed(memory_only(2));
    GroupedMatmulRequest r;
    r.grouping = LATHE_GROUPING_INDEXED;
    r.b_dtype = LATHE_MXFP4;
    r.m = 2, r.n = 24, r.k = k, r.groups = 6, r.used = 2;
    r.gate = LATHE_GATE_CLAMPED;
    r.gate_layout = layout;
    SCOPED_TRACE(describe(r));
    Grouped grouped(r, &random_);
    lathe_manifest* manifest = nullptr;
    ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
    ASSERT_LATHE_OK(lathe_manifest_add_grouped_matmul(manifest, "experts", &grouped.desc(), r.m * r.used));
    ASSERT_LATHE_OK(lathe_warmup(warmed.get(), manifest, nullptr, nullptr));
    lathe_manifest_destroy(manifest);
    ASSERT_LATHE_OK(lathe_context_set_miss(warmed.context(), LATHE_MISS_ERROR, nullptr, nullptr));
    EXPECT_LATHE_OK(grouped.run(warmed.get()));
    EXPECT_TRUE(grouped.check(&random_).ok);
  }
}

TEST_F(GroupedBlocks, GpusRefuseOtherFormats) {
  SKIP_ON_CPU("the CPU has all formats");
  for (lathe_dtype format : {LATHE_Q5_0, LATHE_Q5_K, LATHE_IQ4_NL}) {
    GroupedMatmulRequest r = random_request(LATHE_GROUPING_OFFSETS, format, LATHE_F32);
    Grouped grouped(r, &random_);
    EXPECT_EQ(grouped.run(device()), LATHE_UNSUPPORTED) << lathe_last_error();
    EXPECT_THAT(lathe_last_error(), testing::HasSubstr("q8_0"));  // lists those that the device has
  }
}

}  // namespace
}  // namespace lathe::conformance
