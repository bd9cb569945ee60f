// Properties of the cost model of GPUs: more resources cost no time, a longer K saves none, tiles fill the units, and
// each way to merge splits has its price.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <sstream>

#include "oracle/oracle.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

ProblemClass linear(int64_t m, int64_t n, int64_t k, DType t = DType::kBF16) {
  ProblemClass c = matmul_class(t, t, n, k, m_bucket(m));
  c.trans_b = 1;
  c.alignment = Alignment::k16;
  return c;
}

DeviceFacts device(const std::string& file) {
  return load_facts(std::string(LATHE_SOURCE_DIR) + "/runtime/facts/" + file + ".json").value();
}

DeviceFacts scaled(DeviceFacts f, const std::vector<std::string>& names, double by) {
  for (const std::string& name : names) f.facts.at(name).value *= by;
  return f;
}

std::vector<Plan> legal(const ProblemClass& c, const DeviceFacts& f, int32_t split_k = 0) {
  const auto answer = rank_plans(c, f, {1, split_k});
  EXPECT_TRUE(answer.ok()) << answer.status();
  std::vector<Plan> plans;
  for (size_t i = 0; answer.ok() && i < answer->legal; ++i) plans.push_back(answer->ranked[i].plan);
  return plans;
}
Plan best(const ProblemClass& c, const DeviceFacts& f, int32_t split_k = 0) {
  return legal(c, f, split_k).at(0);
}

// The plan ranked highest among those for which `is` is true.
template <typename Is>
Plan best_that(const std::vector<Plan>& plans, Is is) {
  for (const Plan& p : plans)
    if (is(p)) return p;
  ADD_FAILURE() << "no such plan";
  return plans.at(0);
}

const char* const kDevices[] = {"a100", "h200", "l4", "b200", "rtx-4090"};
const Shape kShapes[] = {
    {"", 4096, 4096}, {"", 7168, 2048}, {"", 1280, 8192}, {"", 28672, 8192}, {"", 4096, 14336}};

// Describes the plan in failure messages.
std::string text(const std::string& device, const ProblemClass& c, const Plan& p) {
  std::ostringstream out;
  out << device << " m " << c.m_hi << " n " << c.n << " k " << c.k << ": " << to_json(p.config).dump()
      << " splits " << p.launch.splits << " " << p.predicted_seconds * 1e6 << " us";
  return out.str();
}

double workgroups(const ProblemClass& c, const Plan& p) {
  return std::ceil(double(c.m_hi) / p.config.tile_m()) * std::ceil(double(c.n) / p.config.tile_n()) *
         p.launch.splits;
}

// The stages and splits on offer depend on the device, so the larger device may lack the best plan of the smaller
// one. The test allows 5% for this.
TEST(GpuPrices, PredictsNoSlowdownFromMoreResources) {
  const std::vector<std::string> more[] = {{"memory_bytes_per_second"},
                                           {"flops_f32", "flops_matrix_f16"},
                                           {"compute_units", "flops_f32", "flops_matrix_f16"},
                                           {"l2_bytes"},
                                           {"shared_memory_bytes"},
                                           {"registers_per_unit", "threads_per_unit"}};
  for (const char* name : kDevices)
    for (const auto& facts : more)
      for (int64_t m : {1, 16, 64, 300, 4096})
        for (const Shape& s : kShapes) {
          const DeviceFacts f = device(name);
          const ProblemClass c = linear(m, s.n, s.k);
          double before = best(c, f).predicted_seconds;
          for (double by : {1.5, 2.0, 4.0}) {
            const Plan after = best(c, scaled(f, facts, by));
            EXPECT_LE(after.predicted_seconds, before * 1.05)
                << facts[0] << " x" << by << " " << text(name, c, after);
            before = std::min(before, after.predicted_seconds);
          }
        }
}

// Memory is fast enough here never to be the limit. With few tiles only splits of K give more units work.
TEST(GpuPrices, ChoosesMoreSplitsForMoreUnits) {
  for (const char* name : kDevices)
    for (int64_t m : {32, 64, 128})
      for (const Shape& s : {Shape{"", 256, 16384}, Shape{"", 512, 16384}}) {
        const ProblemClass c = linear(m, s.n, s.k);
        const DeviceFacts f = scaled(device(name), {"memory_bytes_per_second"}, 16);
        const std::vector<std::string> rates = {"compute_units", "flops_f32", "flops_matrix_f16"};
        double before = 0;
        for (double by : {0.125, 0.25, 0.5, 1.0}) {
          const Plan p = best(c, scaled(f, rates, by));
          EXPECT_GE(workgroups(c, p), before) << "x" << by << " " << text(name, c, p);
          before = workgroups(c, p);
        }
        const Plan few = best(c, scaled(f, rates, 0.0625)), many = best(c, f);
        EXPECT_GT(many.launch.splits, few.launch.splits)
            << text(name, c, few) << " and " << text(name, c, many);
      }
}

TEST(GpuPrices, LongKTakesLonger) {
  for (const char* name : {"a100", "h200", "b200"})
    for (int64_t m : {32, 64, 128}) {
      const DeviceFacts f = device(name);
      double seconds = 0;
      for (int64_t k : {512, 1024, 2048, 4096, 8192, 16384, 32768}) {
        const Plan p = best(linear(m, 512, k), f);
        EXPECT_GE(p.predicted_seconds, seconds) << text(name, linear(m, 512, k), p);
        seconds = p.predicted_seconds;
      }
    }
}

// Multiply-adds of the busiest unit for each element of K: its waves of workgroups times the tile.
double busiest(const ProblemClass& c, const Plan& p, double units) {
  return std::ceil(workgroups(c, p) / units) * p.config.tile_m() * p.config.tile_n() / p.launch.splits;
}

// As N grows, the last wave of a given tile is sometimes full and sometimes nearly empty. The busiest unit of the
// chosen plan must not do over 1.25 times the work that the best of the large tiles gives it.
TEST(GpuPrices, ChoosesTilesThatFillTheLastWave) {
  for (const char* name : {"h200", "a100"}) {
    const DeviceFacts f = device(name);
    const double units = f.fact_or("compute_units", 0);
    for (int64_t n = 4096; n <= 12288; n += 128) {
      const ProblemClass c = linear(512, n, 8192);
      const std::vector<Plan> plans = legal(c, f);
      double least = 1e18;
      for (const Plan& p : plans)
        if (p.launch.splits == 1 && p.config.tile_m() * p.config.tile_n() >= 128 * 128)
          least = std::min(least, busiest(c, p, units));
      EXPECT_LE(busiest(c, plans[0], units), 1.25 * least) << text(name, c, plans[0]);
    }
  }
}

// The device starts the second step itself, so a plan with a second step pays for one launch too.
TEST(GpuPrices, EveryMergePaysForOneLaunch) {
  constexpr double kMore = 5e-6;
  const ProblemClass c = linear(64, 512, 16384);
  const DeviceFacts f = device("h200");
  DeviceFacts slow = f;
  slow.facts.at("launch_seconds").value += kMore;
  const std::vector<Plan> before = legal(c, f, 8), after = legal(c, slow, 8);
  std::map<int32_t, int> seen;
  for (const Plan& p : before) {
    const Plan q = best_that(after, [&](const Plan& x) { return x.config == p.config; });
    EXPECT_NEAR(q.predicted_seconds - p.predicted_seconds, kMore, 0.1 * kMore) << text("h200", c, p);
    ++seen[p.config.split()];
  }
  for (int32_t split : {kMergeStep, kMergeLast, kMergeCluster}) EXPECT_GT(seen[split], 0) << split;
}

// CDNA GPUs have several L2 caches. Until a test on hardware shows that a workgroup sees the others' results in
// time, a second step merges there.
TEST(GpuPrices, CdnaMergesOnlyInSecondStep) {
  const std::pair<const char*, bool> devices[] = {{"mi210", false},      {"mi250x", false},
                                                  {"mi300x", false},     {"mi355x", false},
                                                  {"rx-7900-xtx", true}, {"rx-9070-xt", true}};
  for (const auto& [name, by_the_last] : devices) {
    std::map<int32_t, int> seen;
    for (int64_t m : {1, 64, 512})
      for (const Plan& p : legal(linear(m, 4096, 16384), device(name), 8)) ++seen[p.config.split()];
    EXPECT_GT(seen[kMergeStep], 0) << name;
    EXPECT_EQ(seen[kMergeLast] > 0, by_the_last) << name;
    seen.clear();
    for (const Plan& p : legal(argmax_class(DType::kF32, row_buckets().back()), device(name), 8))
      ++seen[p.config.split()];
    EXPECT_GT(seen[kMergeStep], 0) << name;
    EXPECT_EQ(seen[kMergeLast] > 0, by_the_last) << name;
  }
}

}  // namespace
}  // namespace lathe
