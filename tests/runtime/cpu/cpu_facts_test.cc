#include "runtime/cpu/cpu_facts.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/machine_table.h"

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
  const double pace = facts.fact_or("pace_bytes_per_second", 0);  // of some processors
  const double ahead = facts.fact_or("ahead_bytes_per_second", 0);
  const double stream = facts.fact_or("stream_bytes_per_second", 0);
  EXPECT_EQ(facts.facts.size(), std::size(ranges) + (pace > 0) + (ahead > 0) + (stream > 0));
  if (pace > 0) EXPECT_GT(pace, facts.facts.at("core_bytes_per_second").value);
  if (ahead > 0) EXPECT_LT(ahead, facts.facts.at("core_bytes_per_second").value);
  if (stream > 0) EXPECT_LT(stream, facts.facts.at("core_bytes_per_second").value);
  EXPECT_LT(facts.facts.at("l1d_bytes").value, facts.facts.at("l2_bytes").value);
  for (const auto& [name, fact] : facts.facts)
    std::printf("  %s = %g (%s)\n", name.c_str(), fact.value, fact.source.c_str());
}

// The names are those that core knows, and the target reads back.
TEST(CpuFacts, SurviveJson) {
  const DeviceFacts facts = query_cpu_facts();
  auto read = facts_from_json(to_json(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->target, facts.target);
  EXPECT_EQ(read->facts.size(), facts.facts.size());
}

TEST(CpuFacts, OfALesserTarget) {
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

TEST(CpuFacts, AreTheSameTwice) { EXPECT_EQ(to_json(query_cpu_facts()), to_json(query_cpu_facts())); }

TEST(CpuFacts, FollowTheAffinityMask) {
  EXPECT_LE(allowed_cores(), allowed_processors());
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_EQ(allowed_processors(), 1);
    EXPECT_EQ(allowed_cores(), 1);
    EXPECT_EQ(default_workers(), 1);
  }).join();
}

// The last resort for the clock is a row's, which must be one a processor may have.
TEST(CpuFacts, EveryMachineHasAClock) {
  for (const char* vendor : {"GenuineIntel", "AuthenticAMD", "ARM", "unknown"}) {
    for (int32_t family : {0, 6, 0x17, 0x19, 0x1a}) {
      for (int32_t model = 0; model < 0x1000; ++model) {
        const MachineRow& row = machine_row({vendor, family, model, ""});
        ASSERT_GE(row.clock_hz, 1e9) << row.name;
        ASSERT_LE(row.clock_hz, 5e9) << row.name;
      }
    }
  }
}

TEST(CpuFacts, ParsesCacheSizes) {
  EXPECT_EQ(parse_cache_size("48K\n"), 49152);
  EXPECT_EQ(parse_cache_size("307200K\n"), 307200 * 1024);
  EXPECT_EQ(parse_cache_size("32M"), 32 << 20);
  EXPECT_EQ(parse_cache_size("512"), 512);
  for (const char* text : {"", "K", "-1K", "12X", "0K", "99999999999999999999K"})
    EXPECT_EQ(parse_cache_size(text), -1) << text;
}

TEST(CpuFacts, ParsesClocks) {
  EXPECT_DOUBLE_EQ(parse_brand_hertz("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"), 2.4e9);
  EXPECT_LT(parse_brand_hertz("Intel(R) Xeon(R) Processor"), 0);
  EXPECT_LT(parse_brand_hertz("Odd @ GHz"), 0);
}

TEST(CpuFacts, ParsesQuotas) {
  EXPECT_EQ(parse_cpu_quota("max 100000\n"), -1);
  EXPECT_EQ(parse_cpu_quota("200000 100000\n"), 2);
  EXPECT_EQ(parse_cpu_quota("150000 100000\n"), 2);
  EXPECT_EQ(parse_cpu_quota("10000 100000\n"), 1);
  for (const char* text : {"", "1", "0 100000", "1 0", "a b"}) EXPECT_EQ(parse_cpu_quota(text), -1) << text;
}

}  // namespace
}  // namespace lathe
