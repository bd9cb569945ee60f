// Grouped products on GPUs, where the routing is read on the device: values out of range, and captured graphs.
#include <dlfcn.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/stream_capture.h"
#include "grouped_case.h"

namespace lathe::conformance {
namespace {

class GroupedOnGpu : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    SKIP_ON_CPU("the CPU reads the routing before it runs");
    if (is_fallback()) GTEST_SKIP() << "GPUs have no generic kernels of grouped products";
  }
  void skip_values_out_of_range(lathe_dtype weights);
  reference::Normal random_{test_seed() ^ 78};
};

// Slots whose value is out of range are skipped: their rows are not written, and all others are right. The check of
// `expected`, in which those slots have no group, includes the memory around D.
void GroupedOnGpu::skip_values_out_of_range(lathe_dtype weights) {
  constexpr int32_t kBad[] = {-2, 3, 4, 1 << 20, INT32_MAX, INT32_MIN};
  for (lathe_grouping grouping : {LATHE_GROUPING_ROW_IDS, LATHE_GROUPING_INDEXED, LATHE_GROUPING_COUNTS}) {
    for (const bool summed : {false, true}) {
      if (summed && grouping != LATHE_GROUPING_INDEXED) continue;
      GroupedMatmulRequest r;
      r.grouping = grouping;
      r.b_dtype = weights;
      r.m = 19, r.n = 12, r.k = weights == LATHE_F32 ? 24 : 64, r.groups = 3, r.padding = 3;
      if (grouping == LATHE_GROUPING_INDEXED) r.used = 3;
      r.summed = summed;
      SCOPED_TRACE(describe(r));
      Grouped grouped(r, &random_);
      std::vector<int32_t>& routing = grouped.data().routing;
      const std::vector<int32_t> given = routing;
      std::vector<int32_t> expected = given;
      const auto count = static_cast<int64_t>(routing.size());
      for (int64_t i = 0; i < count; i += 1 + random_.below(3)) {
        const auto at = static_cast<size_t>(i);
        routing[at] = kBad[random_.below(6)];
        if (grouping == LATHE_GROUPING_COUNTS) routing[at] = random_.below(2) != 0 ? -1 : 20;
        expected[at] = grouping == LATHE_GROUPING_COUNTS ? 0 : -1;
      }
      // Ids that happen to be groups are no error.
      for (size_t i = 0; i < routing.size(); ++i)
        if (grouping != LATHE_GROUPING_COUNTS && routing[i] >= 0 && routing[i] < r.groups)
          expected[i] = routing[i];
      ASSERT_LATHE_OK(grouped.run(device()));
      routing = expected;
      const reference::CheckResult result = grouped.check(&random_);
      EXPECT_TRUE(result.ok) << result.what;
    }
  }
}

TEST_F(GroupedOnGpu, SkipsValuesOutOfRange) { skip_values_out_of_range(LATHE_F32); }
TEST_F(GroupedOnGpu, SkipsValuesOutOfRangeWithWeightsInBlocks) { skip_values_out_of_range(LATHE_MXFP4); }

// OFFSETS that decrease, overlap or leave [0, M] never cause a write outside D or outside the workspace, which is
// that of a new device: no earlier launch has made it larger.
TEST_F(GroupedOnGpu, KeepsToItsMemoryWithAnyOffsets) {
  OpenDevice fresh(memory_only(2));
  const std::vector<int32_t> cases[] = {{0, 9, 0, 9, 0, 9, 0, 9},
                                        {9, 0, 9, 0, 9, 0, 9, 0},
                                        {INT32_MIN, 0, 4, 2, 9, 10, 9, 9},
                                        {0, INT32_MAX, 0, INT32_MAX, 0, INT32_MAX, 0, 9},
                                        {-1, -1, 3, 3, 2, 9, 1, 9}};
  for (std::vector<int32_t> offsets : cases) {
    for (int i = 0; i < 10; ++i) offsets.insert(offsets.end(), offsets.begin(), offsets.begin() + 8);
    GroupedMatmulRequest r;
    r.m = 9, r.n = 12, r.k = 16, r.groups = static_cast<int64_t>(offsets.size()) - 1, r.padding = 3;
    Grouped grouped(r, &random_);
    grouped.data().routing = offsets;
    grouped.desc().routing = grouped.data().routing.data();
    ASSERT_LATHE_OK(grouped.run(fresh.get()));
    EXPECT_EQ(grouped.data().d.stray_write(), "") << offsets[0] << " " << offsets[1];
  }
}

// How often the driver has allocated device memory; nothing if it is not the emulator.
std::optional<uint64_t> allocations() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  const auto count = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(driver, "emu_call_count"));
  std::optional<uint64_t> calls;
  if (count != nullptr) calls = count("cuMemAlloc_v2") + count("cuMemAllocAsync");
  dlclose(driver);
  return calls;
}

// A warm-up for M rows reserves what launches of up to M rows need, on a device that has launched nothing yet.
TEST_F(GroupedOnGpu, AllocatesNothingAfterAWarmUp) {
  if (!allocations()) GTEST_SKIP() << "only the CUDA emulator counts allocations";
  int compared = 0;
  for (lathe_grouping grouping :
       {LATHE_GROUPING_OFFSETS, LATHE_GROUPING_ROW_IDS, LATHE_GROUPING_COUNTS, LATHE_GROUPING_INDEXED})
    for (const bool gated : {false, true})
      for (const bool summed : {false, true}) {
        if (summed && grouping != LATHE_GROUPING_INDEXED) continue;
        GroupedMatmulRequest r;
        r.grouping = grouping;
        r.m = 70, r.n = 24, r.k = 33, r.groups = 7;
        if (grouping == LATHE_GROUPING_INDEXED) r.used = 3;
        r.summed = summed;
        if (gated) r.gate = LATHE_GATE_SILU;
        SCOPED_TRACE(describe(r));
        OpenDevice fresh(memory_only(2));
        Grouped grouped(r, &random_);
        lathe_manifest* manifest = nullptr;
        ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
        ASSERT_LATHE_OK(lathe_manifest_add_grouped_matmul(manifest, "experts", &grouped.desc(), r.m));
        ASSERT_LATHE_OK(lathe_warmup(fresh.get(), manifest, nullptr, nullptr));
        lathe_manifest_destroy(manifest);
        DeviceCopies copies(fresh.get());
        grouped.copy_to(&copies);
        const uint64_t before = *allocations();
        for (int64_t m : {r.m, int64_t{3}, r.m - 1}) {
          lathe_grouped_matmul_desc desc = copies.moved(grouped.desc());
          desc.m = m;
          desc.miss_policy = LATHE_MISS_ERROR;
          // OFFSETS and COUNTS may be out of range now, which a GPU skips.
          ASSERT_LATHE_OK(lathe_grouped_matmul(fresh.get(), nullptr, &desc));
          ++compared;
        }
        ASSERT_LATHE_OK(lathe_stream_synchronize(fresh.get(), nullptr));
        EXPECT_EQ(*allocations(), before);
      }
  EXPECT_EQ(compared, 3 * 10);
}

// A graph that was captured once follows the routing that is in device memory when it is launched.
TEST_F(GroupedOnGpu, CapturedGraphReplaysWithNewRouting) {
  for (const bool gated : {false, true}) {
    for (lathe_grouping grouping :
         {LATHE_GROUPING_OFFSETS, LATHE_GROUPING_ROW_IDS, LATHE_GROUPING_COUNTS, LATHE_GROUPING_INDEXED}) {
      GroupedMatmulRequest r;
      r.grouping = grouping;
      r.m = 11, r.n = 20, r.k = 33, r.groups = 5;
      if (grouping == LATHE_GROUPING_INDEXED) r.used = 2, r.summed = gated;
      if (gated) r.gate = LATHE_GATE_SILU;
      SCOPED_TRACE(describe(r));
      Grouped grouped(r, &random_);
      ASSERT_LATHE_OK(grouped.run(device()));  // loads the kernels, which a capture forbids
      DeviceCopies copies(device());
      grouped.copy_to(&copies);
      const lathe_grouped_matmul_desc desc = copies.moved(grouped.desc());
      OwnStream stream(device());
      auto capture = cli::open_capture(device_name());
      if (!capture.ok()) GTEST_SKIP() << capture.status();
      ASSERT_TRUE((*capture)->begin(stream.get()).ok());
      ASSERT_LATHE_OK(lathe_grouped_matmul(device(), stream.get(), &desc));
      auto graph = (*capture)->end(stream.get());
      ASSERT_TRUE(graph.ok()) << graph.status();
      for (int replay = 0; replay < 3; ++replay) {
        // In place, because the copies are found by their host addresses.
        const std::vector<int32_t> next = reference::random_routing(r, &random_);
        std::copy(next.begin(), next.end(), grouped.data().routing.begin());
        const reference::Operand blank(grouped.data().d.spec());
        std::copy(blank.image().begin(), blank.image().end(), grouped.data().d.image().begin());
        copies.send(grouped.data().routing);
        copies.send(grouped.data().d.image());
        ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
        ASSERT_TRUE((*graph)->launch().ok());
        ASSERT_LATHE_OK(lathe_stream_synchronize(device(), stream.get()));
        copies.fetch();
        const reference::CheckResult result = grouped.check(&random_);
        EXPECT_TRUE(result.ok) << "replay " << replay << ": " << result.what;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::conformance
