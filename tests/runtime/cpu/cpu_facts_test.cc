#include "runtime/cpu/cpu_facts.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "core/cpu_costs.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/machine_table.h"
#include "system_tree.h"

namespace lathe {
namespace {

TEST(CpuFacts, EveryFactIsPlausibleAndHasASource) {
  const DeviceFacts facts = query_cpu_facts();
  EXPECT_FALSE(facts.name.empty());
  struct Range {
    const char* fact;
    double low, high;
  };
  const Range ranges[] = {{"cores", 1, 4096},
                          {"clock_hz", 3e8, 1e10},
                          {"fma_units", 1, 8},
                          {"l1d_bytes", 4 << 10, 1 << 20},
                          {"l2_bytes", 64 << 10, 64 << 20},
                          {"l3_bytes", 256 << 10, 4e9},
                          {"memory_bytes_per_second", 1e9, 1e13},
                          {"core_bytes_per_second", 1e9, 1e12}};
  for (const Range& range : ranges) {
    ASSERT_EQ(facts.facts.count(range.fact), 1u) << range.fact;
    const Fact& fact = facts.facts.at(range.fact);
    EXPECT_GE(fact.value, range.low) << range.fact;
    EXPECT_LE(fact.value, range.high) << range.fact;
    EXPECT_FALSE(fact.source.empty()) << range.fact;
  }
  // Only some processors have these four.
  const double pace = facts.fact_or("pace_bytes_per_second", 0),
               into_l1 = facts.fact_or("prefetch_into_l1", 0);
  const double ahead = facts.fact_or("ahead_bytes_per_second", 0);
  const double stream = facts.fact_or("stream_bytes_per_second", 0);
  int costs = 0;
  for (const CpuCost& cost : cpu_costs()) costs += cost.processor == kDefaultCosts;
  EXPECT_EQ(facts.facts.size(),
            std::size(ranges) + (pace > 0) + (into_l1 > 0) + (ahead > 0) + (stream > 0) + costs);
  if (pace > 0) EXPECT_GT(pace, facts.facts.at("core_bytes_per_second").value);
  if (ahead > 0) EXPECT_LT(ahead, facts.facts.at("core_bytes_per_second").value);
  if (stream > 0) EXPECT_LT(stream, facts.facts.at("core_bytes_per_second").value);
  EXPECT_LT(facts.facts.at("l1d_bytes").value, facts.facts.at("l2_bytes").value);
  for (const auto& [name, fact] : facts.facts)
    std::printf("  %s = %g (%s)\n", name.c_str(), fact.value, fact.source.c_str());
}

// The names are those that core knows, and the target can be read back.
TEST(CpuFacts, RoundTripThroughJson) {
  const DeviceFacts facts = query_cpu_facts();
  auto read = facts_from_json(to_json(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->target, facts.target);
  EXPECT_EQ(read->facts.size(), facts.facts.size());
  EXPECT_FALSE(facts.machine.empty());
  EXPECT_EQ(read->machine, facts.machine);
}

TEST(CpuFacts, AcceptATargetBelowTheProcessorAndRejectOthers) {
#if defined(__x86_64__)
  const auto avx2 = query_cpu_facts_as("x86-64-avx2");
  if (host_target().has("avx2")) {
    ASSERT_TRUE(avx2.ok()) << avx2.status();
    EXPECT_EQ(avx2->target, *parse_target("x86-64-avx2"));
    EXPECT_EQ(avx2->facts.at("l2_bytes").value, query_cpu_facts().facts.at("l2_bytes").value);
  } else {
    EXPECT_NE(avx2.status().message().find("lacks +"), std::string::npos) << avx2.status();
  }
  const auto arm = query_cpu_facts_as("aarch64-neon");
#else
  const auto arm = query_cpu_facts_as("x86-64-avx2");
#endif
  EXPECT_EQ(arm.status().code(), absl::StatusCode::kInvalidArgument) << arm.status();
  EXPECT_EQ(query_cpu_facts_as("sm_90").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(query_cpu_facts_as("no-such").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuFacts, AreTheSameInEveryQuery) { EXPECT_EQ(to_json(query_cpu_facts()), to_json(query_cpu_facts())); }

TEST(CpuFacts, FollowTheAffinityMask) {
  const CpuSystem whole = this_system();
  EXPECT_LE(count_cores(whole), static_cast<int32_t>(whole.processors.size()));
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_EQ(allowed_processors(), 1);
    EXPECT_EQ(count_cores(this_system()), 1);
    EXPECT_EQ(default_workers(), 1);
  }).join();
}

TEST(CpuFacts, ParsesCacheSizes) {
  EXPECT_EQ(parse_cache_size("48K\n"), 49152);
  EXPECT_EQ(parse_cache_size("307200K\n"), 307200 * 1024);
  EXPECT_EQ(parse_cache_size("32M"), 32 << 20);
  EXPECT_EQ(parse_cache_size("512"), 512);
  for (const char* text : {"", "K", "-1K", "12X", "0K", "99999999999999999999K", "1099511627775M"})
    EXPECT_EQ(parse_cache_size(text), -1) << text;
}

TEST(CpuFacts, ParsesClocks) {
  EXPECT_DOUBLE_EQ(parse_brand_hertz("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"), 2.4e9);
  EXPECT_LT(parse_brand_hertz("Intel(R) Xeon(R) Processor"), 0);
  EXPECT_LT(parse_brand_hertz("Odd @ GHz"), 0);
}

// The following tests describe other machines.
CpuIdentity processor(int32_t model, uint32_t features) {
  CpuIdentity id;
  id.vendor = "GenuineIntel";
  id.family = 6;
  id.model = model;
  id.name = "virtual";
  id.features = features;
  return id;
}
SystemTree& write_cache(SystemTree& tree, int processor, int index, const char* level, const char* type,
                        const char* size) {
  const std::string folder = processor_folder(processor) + "cache/index" + std::to_string(index);
  return tree.write(folder + "/level", level).write(folder + "/type", type).write(folder + "/size", size);
}

TEST(CpuFacts, RocketLakeModelWithAmxGetsServerFacts) {
  const SystemTree tree;
  const Target amx = parse_target("x86-64-amx").value(), avx512 = parse_target("x86-64-avx512vnni").value();
  const DeviceFacts server = cpu_facts(tree.system(), processor(0xa7, kAvx512Vl | kAmxTile), amx);
  EXPECT_EQ(server.fact_or("fma_units", 0), 2);
  EXPECT_NE(server.machine.find("Rocket Lake, which cannot have amx-tile"), std::string::npos)
      << server.machine;
  const DeviceFacts desktop = cpu_facts(tree.system(), processor(0xa7, kAvx512Vl), avx512);
  EXPECT_EQ(desktop.fact_or("fma_units", 0), 1);
  // The target, which the caller or the system may restrict, does not change the processor.
  EXPECT_EQ(cpu_facts(tree.system(), processor(0xa7, kAvx512Vl | kAmxTile), avx512).fact_or("fma_units", 0),
            2);
}

// Cores may differ, and processor 0 may be offline, so caches and clock come from the first allowed
// processor.
TEST(CpuFacts, AreThoseOfTheFirstAllowedProcessor) {
  SystemTree tree({4, 5});
  write_cache(tree, 0, 0, "1\n", "Data\n", "48K\n");
  write_cache(tree, 4, 0, "1\n", "Data\n", "32K\n");
  write_cache(tree, 4, 1, "1\n", "Instruction\n", "64K\n");
  write_cache(tree, 4, 2, "2\n", "Unified\n", "4096K\n");
  write_cache(tree, 4, 3, "3\n", "Unified\n", "30720K\n");
  tree.write(processor_folder(0) + "cpufreq/cpuinfo_max_freq", "5000000\n");
  tree.write(processor_folder(4) + "cpufreq/cpuinfo_max_freq", "3900000\n");
  const DeviceFacts facts = cpu_facts(tree.system(), processor(0x97, 0), *parse_target("x86-64-avx2"));
  EXPECT_EQ(facts.fact_or("cores", 0), 2);
  EXPECT_EQ(facts.fact_or("l1d_bytes", 0), 32 << 10);
  EXPECT_EQ(facts.fact_or("l2_bytes", 0), 4 << 20);
  EXPECT_EQ(facts.fact_or("l3_bytes", 0), 30 << 20);
  EXPECT_EQ(facts.fact_or("clock_hz", 0), 3.9e9);
  tree.write(processor_folder(4) + "cpufreq/base_frequency", "2400000\n");
  EXPECT_EQ(cpu_facts(tree.system(), processor(0x97, 0), *parse_target("x86-64-avx2")).fact_or("clock_hz", 0),
            2.4e9);
}

// A container may hide /sys or parts of it, and files may be malformed.
TEST(CpuFacts, ArePlausibleIfSysIsMissingOrMalformed) {
  const SystemTree empty;
  SystemTree odd;
  write_cache(odd, 0, 0, "1\n", "Data\n", "");
  write_cache(odd, 0, 1, "x\n", "Data\n", "1K\n");
  write_cache(odd, 0, 2, "2\n", "Unified\n", "-4K\n");
  write_cache(odd, 0, 3, "3\n", "Unified\n", "0K\n");
  for (const char* clock : {"0\n", "x\n", "-1\n", "inf\n", "nan\n", "<unknown>\n"}) {
    odd.write(processor_folder(0) + "cpufreq/cpuinfo_max_freq", clock);
    for (const SystemTree* tree :
         {static_cast<const SystemTree*>(&empty), static_cast<const SystemTree*>(&odd)}) {
      const DeviceFacts facts = cpu_facts(tree->system(), processor(0x97, 0), *parse_target("x86-64-avx2"));
      EXPECT_EQ(facts.facts.at("clock_hz").source, "default: Alder Lake, the clock of all cores under load")
          << clock;
      for (const char* cache : {"l1d_bytes", "l2_bytes", "l3_bytes"}) {
        EXPECT_GE(facts.fact_or(cache, 0), 8 << 10) << cache;
        EXPECT_EQ(facts.facts.at(cache).source.find("/sys"), std::string::npos) << cache;
      }
      EXPECT_TRUE(facts_from_json(to_json(facts)).ok());
    }
  }
}

}  // namespace
}  // namespace lathe
