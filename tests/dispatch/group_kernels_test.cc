// Lookups of the kernels of groups, and what they count under each miss policy.
#include "dispatch/group_kernels.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "fake_device.h"
#include "generic_bundle.h"

namespace lathe {
namespace {

class GroupKernelsTest : public testing::Test {
 protected:
  GroupKernelsTest() { std::ofstream(bundle_, std::ios::binary) << generic_bundle_bytes(); }
  ~GroupKernelsTest() override { std::remove(bundle_.c_str()); }
  std::unique_ptr<FakeDevice> open(MissPolicy policy) {
    return std::make_unique<FakeDevice>(fake_compiler("slow"), policy, "ryzen-7-5800u.json", bundle_);
  }
  static Request product(FakeDevice& fake) {
    MatmulRequest m(100, 40, 33);
    Request request;
    EXPECT_EQ(read_matmul(&m.desc, Purpose::kRun, fake.device->request_context(), nullptr, &request),
              absl::OkStatus());
    return request;
  }
  // Predicts and then runs groups of these rows.
  static void call(FakeDevice& fake, const std::vector<int64_t>& rows, bool uneven = false) {
    GroupKernels kernels(*fake.device, product(fake));
    for (int64_t r : rows) EXPECT_EQ(kernels.find(r, uneven).status(), absl::OkStatus());
    for (int64_t r : rows) {
      const absl::StatusOr<const DispatchEntry*> entry = kernels.use(r, uneven);
      ASSERT_EQ(entry.status(), absl::OkStatus());
      const ProblemClass& c = kernels.request().key.problem;
      EXPECT_EQ(kernels.request().dims.m, r);
      EXPECT_TRUE(c.m_lo <= r && r <= c.m_hi) << r;
      EXPECT_EQ(c.rows, uneven ? Rows::kIndexed : Rows::kPlain);
      if (entry.value()->key.problem.generic == 0) {
        EXPECT_EQ(entry.value()->key.problem, c);
      }
    }
  }

  const std::string bundle_ = testing::TempDir() + "lathe-group-kernels.bundle";
};

TEST_F(GroupKernelsTest, AClassMissesOnceInACallThatFallsBack) {
  auto fake = open(MissPolicy::kFallback);
  call(*fake, {1, 2, 1, 20, 2, 1, 21});
  const lathe_statistics s = fake->statistics();
  EXPECT_EQ(s.dispatch_misses, 3u);
  EXPECT_EQ(s.fallback_runs, 3u);
  EXPECT_EQ(s.dispatch_hits, 0u) << "the slow compiler cannot be done yet";
}

TEST_F(GroupKernelsTest, OtherGroupsOfAClassThatWasPreparedHit) {
  auto fake = open(MissPolicy::kBlock);
  call(*fake, {1, 2, 1, 2, 1});
  EXPECT_EQ(fake->statistics().dispatch_misses, 2u);
  EXPECT_EQ(fake->statistics().dispatch_hits, 3u);
  call(*fake, {1, 2, 1, 2, 1});
  EXPECT_EQ(fake->statistics().dispatch_misses, 2u);
  EXPECT_EQ(fake->statistics().dispatch_hits, 8u);
}

TEST_F(GroupKernelsTest, UnevenRowsAreAnotherClass) {
  auto fake = open(MissPolicy::kBlock);
  call(*fake, {2, 16, 17, 20}, /*uneven=*/false);
  EXPECT_EQ(fake->statistics().dispatch_misses, 3u);
  call(*fake, {2, 16, 17, 20}, /*uneven=*/true);
  EXPECT_EQ(fake->statistics().dispatch_misses, 6u);
}

// The last row of a divided group, whose other rows are uneven.
TEST_F(GroupKernelsTest, OneRowIsNotUneven) {
  auto fake = open(MissPolicy::kBlock);
  GroupKernels kernels(*fake->device, product(*fake));
  const absl::StatusOr<const DispatchEntry*> entry = kernels.use(1, /*uneven=*/true);
  ASSERT_EQ(entry.status(), absl::OkStatus());
  EXPECT_EQ((*entry)->key.problem.rows, Rows::kPlain);
  EXPECT_EQ(kernels.request().key.problem.rows, Rows::kPlain);
}

TEST_F(GroupKernelsTest, UnevenRowsFallBackToTheGenericKernel) {
  auto fake = open(MissPolicy::kFallback);
  call(*fake, {20, 21}, /*uneven=*/true);
  EXPECT_EQ(fake->statistics().dispatch_misses, 1u);
  EXPECT_EQ(fake->statistics().fallback_runs, 1u);
}

TEST_F(GroupKernelsTest, RefusesMissesUnderError) {
  auto fake = open(MissPolicy::kError);
  GroupKernels kernels(*fake->device, product(*fake));
  EXPECT_FALSE(kernels.find(3, /*uneven=*/false).ok());
  EXPECT_FALSE(kernels.use(3, /*uneven=*/false).ok());
  EXPECT_EQ(fake->statistics().dispatch_misses, 2u);
}

}  // namespace
}  // namespace lathe
