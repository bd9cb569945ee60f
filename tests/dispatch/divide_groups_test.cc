// How the rows of groups are divided, by the oracle's times for a described processor.
#include "dispatch/divide_groups.h"

#include <gtest/gtest.h>

#include <map>

#include "fake_device.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu"};

class DivideGroups : public testing::Test {
 protected:
  explicit DivideGroups(lathe_dtype weight = LATHE_F32) {
    product_.desc.b.dtype = weight;
    if (weight != LATHE_F32) product_.desc.math = LATHE_MATH_INT8;
  }

  // The divided groups of one product each with these rows, which follow each other.
  std::vector<RoutedGroup> divided(const std::vector<int32_t>& counts) {
    Request request;
    EXPECT_EQ(read_matmul(&product_.desc, Purpose::kRun, kCpu, nullptr, &request), absl::OkStatus());
    std::vector<RoutedGroup> groups(2 * counts.size());
    int64_t first = 0;
    for (size_t g = 0; g < counts.size(); first += counts[g++])
      groups[g] = {static_cast<int32_t>(g), counts[g], first};
    Routing routing = {groups.data(), static_cast<int64_t>(counts.size()), nullptr};
    GroupKernels kernels(*fake_.device, request);
    const auto uneven = [](const RoutedGroup&) { return false; };
    EXPECT_EQ(divide_groups(&kernels, uneven, &routing), absl::OkStatus());
    groups.resize(static_cast<size_t>(routing.count));
    return groups;
  }
  // The seconds that the oracle predicts for the largest M of the bucket of `rows`.
  double seconds(int64_t rows) {
    lathe_matmul_desc desc = product_.desc;
    desc.m = rows;
    Request request;
    EXPECT_EQ(read_matmul(&desc, Purpose::kRun, kCpu, nullptr, &request), absl::OkStatus());
    const DispatchEntry* entry = fake_.device->table.find(request.key);
    return entry == nullptr ? 0 : entry->plan.predicted_seconds;
  }

  FakeDevice fake_{fake_compiler(), MissPolicy::kBlock, "epyc-9654.json"};
  MatmulRequest product_{100, 768, 2048};
};

TEST_F(DivideGroups, KeepsEveryRowAndItsOrder) {
  const std::vector<int32_t> counts = {17, 1, 16, 32, 33, 5, 100, 47, 15, 64};
  std::map<int32_t, int32_t> rows;
  int64_t next = 0;
  int32_t group = 0;
  for (const RoutedGroup& g : divided(counts)) {
    EXPECT_GE(g.group, group);
    EXPECT_EQ(g.first, next);
    EXPECT_GE(g.count, 1);
    group = g.group;
    next += g.count;
    rows[g.group] += g.count;
  }
  for (size_t g = 0; g < counts.size(); ++g) EXPECT_EQ(rows[static_cast<int32_t>(g)], counts[g]) << g;
}

TEST_F(DivideGroups, LeavesWholeTilesAndSmallGroups) {
  for (int32_t rows : {1, 7, 15, 16, 32, 48, 64, 96}) EXPECT_EQ(divided({rows}).size(), 1u) << rows;
}

// The whole group takes two tiles of 16, which is what the oracle's time for 32 rows says. The parts take one tile and
// the time of a kernel for exactly the other rows.
TEST_F(DivideGroups, DividesIfThePredictedTimesSaySo) {
  int divisions = 0;
  for (int32_t rest = 1; rest < 16; ++rest) {
    const std::vector<RoutedGroup> parts = divided({16 + rest});
    const double whole = seconds(32), in_parts = seconds(16) + seconds(rest);
    ASSERT_GT(whole, 0);
    if (parts.size() == 1) {
      EXPECT_GE(in_parts, 0.95 * whole) << rest;
      continue;
    }
    ++divisions;
    EXPECT_LT(in_parts, 0.95 * whole) << rest;
    EXPECT_EQ(parts[0].count, 16);
    EXPECT_EQ(parts[1].count, rest);
  }
  EXPECT_GT(divisions, 0);
}

// The last passes of kernels for block formats have four rows, so that a division gains little.
class DivideGroupsOfBlocks : public DivideGroups {
 protected:
  DivideGroupsOfBlocks() : DivideGroups(LATHE_Q8_0) {}
};
TEST_F(DivideGroupsOfBlocks, CountsNarrowPasses) {
  for (int32_t rest = 1; rest < 16; ++rest) {
    const size_t parts = divided({16 + rest}).size();
    const double computed = 16 + (rest + 3) / 4 * 4;
    const bool gains = seconds(16) + seconds(rest) < 0.95 * seconds(32) * computed / 32;
    EXPECT_EQ(parts, gains ? 2u : 1u) << rest;
  }
}

}  // namespace
}  // namespace lathe
