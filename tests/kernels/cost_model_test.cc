// The CPU's cost model: its coefficients, its rule, and what `lathe explain` says of it.
#include "kernels/matmul/cpu/cost_model.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/cpu_costs.h"
#include "tests/kernels/candidates_fixture.h"

namespace lathe {
namespace {

const char* const kCounts[] = {
#define LATHE_NAME(name, meaning) #name,
    LATHE_CPU_WORK(LATHE_NAME)
#undef LATHE_NAME
};

ProblemClass linear(int64_t m, int64_t n, int64_t k) {
  ProblemClass c;
  c.op = Op::kMatmul;
  c.a = c.b = c.d = DType::kF32;
  c.n = n, c.k = k, c.m_lo = c.m_hi = m;
  c.trans_b = 1;
  return c;
}

DeviceFacts processor() {
  return synthetic("x86-64-avx512", {{"clock_hz", 3e9},
                                     {"fma_units", 1},
                                     {"l1d_bytes", 32 << 10},
                                     {"l2_bytes", 1 << 20},
                                     {"l3_bytes", 32 << 20},
                                     {"memory_bytes_per_second", 200e9},
                                     {"core_bytes_per_second", 20e9}});
}

TEST(CostModel, EveryProcessorHasEveryCoefficient) {
  std::map<absl::string_view, std::set<absl::string_view>> names;
  for (const CpuCost& cost : cpu_costs()) {
    EXPECT_GT(cost.value, 0) << cost.processor << ' ' << cost.fact;
    EXPECT_TRUE(names[cost.processor].insert(cost.fact).second) << cost.fact;
  }
  ASSERT_EQ(names.count(kDefaultCosts), 1u);
  for (const auto& [processor, facts] : names) {
    EXPECT_EQ(facts.size(), std::size(kCounts) + 1) << processor;
    EXPECT_EQ(facts.count("cost_overlap"), 1u) << processor;
    for (const char* name : kCounts) EXPECT_EQ(facts.count(absl::StrCat("cost_", name)), 1u) << name;
  }
  EXPECT_TRUE(is_cpu_cost("cost_issue"));
  EXPECT_FALSE(is_cpu_cost("cost_isue"));
}

// One core, one task after the other: the price is a function of the counts that a candidate tells.
TEST(CostModel, PricesFollowFromTheCounts) {
  const DeviceFacts facts = processor();
  std::map<std::string, double> c;
  for (const CpuCost& cost : cpu_costs())
    if (cost.processor == kDefaultCosts) c[std::string(cost.fact.substr(5))] = cost.value;
  int checked = 0;
  for (const ProblemClass& problem : {linear(1, 4096, 4096), linear(16, 1000, 777), linear(300, 512, 2048)})
    for (const RankedPlan& r : candidates(problem, facts)) {
      if (!r.rejection.empty() || r.price.empty() || r.plan.launch.splits > 1) continue;
      std::map<std::string, double> seconds;
      for (const PricePart& part : r.price) seconds[part.name] = part.count * c[part.name];
      double computing = 0, reading = 0, waiting = 0;
      for (const char* name : {"issue", "loads", "conversions", "starts", "entries", "ends", "sums", "lanes",
                               "copies", "turns", "conflicts", "evicted", "again"})
        computing += seconds[name] / 3e9;
      for (const char* name : {"l2", "l3"}) reading += seconds[name] / 3e9;
      for (const char* name : {"memory", "written"}) reading += seconds[name] / 20e9;
      for (const char* name : {"runs", "jumps"}) reading += seconds[name] * 1e-9;
      for (const char* name : {"unfetched", "unpaced", "narrow", "crowded"}) waiting += seconds[name] / 20e9;
      for (const char* name : {"groups", "tasks"}) waiting += seconds[name] * 1e-9;
      const double task =
          std::max(computing, reading) + c["overlap"] * std::min(computing, reading) + waiting;
      EXPECT_NEAR(r.plan.predicted_seconds, task, 1e-9 * task) << to_json(r.plan.config).dump();
      ++checked;
    }
  EXPECT_GT(checked, 100);
}

// A larger coefficient never makes a candidate cheaper, and each one matters somewhere.
TEST(CostModel, EveryCoefficientRaisesSomePrice) {
  DeviceFacts facts = processor();
  facts.facts["pace_bytes_per_second"] = {25e9, "test"};
  ProblemClass by_columns = linear(16, 4096, 1024);
  by_columns.trans_b = 0;
  ProblemClass narrow_weights = linear(4, 4096, 4096);
  narrow_weights.b = DType::kBF16;
  const ProblemClass problems[] = {linear(4, 4096, 4096), linear(300, 2048, 4096), by_columns, narrow_weights,
                                   linear(2048, 2048, 8192)};
  for (const char* name : kCounts) {
    DeviceFacts dearer = facts;
    dearer.facts[absl::StrCat("cost_", name)] = {1e3, "test"};
    int raised = 0;
    for (const ProblemClass& problem : problems) {
      const std::vector<RankedPlan> before = candidates(problem, facts), after = candidates(problem, dearer);
      ASSERT_EQ(before.size(), after.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_GE(after[i].plan.predicted_seconds, before[i].plan.predicted_seconds) << name;
        raised += after[i].plan.predicted_seconds > before[i].plan.predicted_seconds;
      }
    }
    EXPECT_GT(raised, 0) << name;
  }
}

// Tiles of 6 rows for M from 1 to 8: 6 rows up to M = 6 and 12 for 7 and 8.
TEST(CostModel, PadsRowsForTheMeanOfTheBucket) {
  ProblemClass c = linear(8, 64, 64);
  c.m_lo = 1;
  EXPECT_DOUBLE_EQ(padded_rows(c, 8, 6), (6 * 6 + 2 * 12) / 8.0);
  EXPECT_DOUBLE_EQ(padded_rows(c, 4, 6), (6 * 6 + 2 * 12) / 16.0);
  EXPECT_DOUBLE_EQ(padded_rows(linear(8, 64, 64), 8, 6), 12);
}

}  // namespace
}  // namespace lathe
