#include "core/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "json_leaves.h"

namespace lathe {
namespace {

using testing::HasSubstr;

Target target(const char* name) {
  const auto t = parse_target(name);
  EXPECT_TRUE(t.ok()) << t.status();
  return t.value_or(Target());
}

TEST(TargetTest, ReturnsNamedTargetsInCanonicalForm) {
  for (const char* name :
       {"x86-64-avx2", "x86-64-avx512", "aarch64-neon", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a",
        "sm_100a", "sm_120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    const Target t = target(name);
    EXPECT_EQ(canonical_features(t.features).value_or("?"), t.features) << name;
    const auto back = target_from_json(to_json(t));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, t) << name;
  }
}

TEST(TargetTest, KnowsVectorRegistersAndWaveSizes) {
  EXPECT_EQ(vector_lanes(target("x86-64-avx2")), 8);
  EXPECT_EQ(vector_lanes(target("x86-64-avx512")), 16);
  EXPECT_EQ(vector_lanes(target("aarch64-neon")), 4);
  EXPECT_EQ(vector_lanes(Target{Backend::kCpu, "x86-64", ""}), 4);
  EXPECT_EQ(vector_registers(target("x86-64-avx2")), 16);
  EXPECT_EQ(vector_registers(target("x86-64-avx512")), 32);
  EXPECT_EQ(vector_registers(target("aarch64-neon")), 32);
  EXPECT_EQ(wave_size(target("sm_90a")), 32);
  EXPECT_EQ(wave_size(target("gfx90a")), 64);
  EXPECT_EQ(wave_size(target("gfx942")), 64);
  EXPECT_EQ(wave_size(target("gfx1100")), 32);
}

TEST(TargetTest, HasComparesWholeNamesAndSigns) {
  const Target t{Backend::kCpu, "x86-64", "+avx512f,-avx2,+fma"};
  EXPECT_TRUE(t.has("avx512f"));
  EXPECT_TRUE(t.has("fma"));
  EXPECT_FALSE(t.has("avx2"));
  EXPECT_FALSE(t.has("avx512"));
  EXPECT_FALSE(t.has("vx512f"));
  EXPECT_FALSE(t.has(""));
}

TEST(TargetTest, AmdModesReplaceTheDefaults) {
  EXPECT_EQ(target("gfx942").features, "+sramecc,-xnack");
  EXPECT_EQ(target("gfx942:sramecc+:xnack-"), target("gfx942"));
  EXPECT_EQ(target("gfx942:xnack+").features, "+sramecc,+xnack");
  EXPECT_EQ(target("gfx90a:sramecc-:xnack+").features, "+xnack,-sramecc");
  for (const char* bad : {"gfx942:xnack", "gfx942:fast+", "gfx942:", "gfx1100:xnack+", "sm_90a:xnack+",
                          "gfx9", "", "x86-64-avx2:avx2+"}) {
    const auto t = parse_target(bad);
    EXPECT_EQ(t.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(t.status().message()), HasSubstr(std::string("\"") + bad + "\""));
  }
}

TEST(TargetTest, SortsAndChecksFeatures) {
  EXPECT_EQ(canonical_features("+fma,+avx2").value(), "+avx2,+fma");
  EXPECT_EQ(canonical_features("").value(), "");
  EXPECT_FALSE(canonical_features("avx2").ok());
  EXPECT_FALSE(canonical_features("+avx2,+avx2").ok());
  EXPECT_FALSE(canonical_features("+avx2,-avx2").ok());
  EXPECT_FALSE(canonical_features("+").ok());
  const Json unsorted = {{"backend", "cpu"}, {"arch", "x86-64"}, {"features", "+fma,+avx2"}};
  EXPECT_EQ(target_from_json(unsorted).value().features, "+avx2,+fma");
}

DeviceFacts laptop() {
  DeviceFacts f;
  f.name = "8-core laptop";
  f.target = target("x86-64-avx2");
  f.facts["cores"] = {8, "datasheet"};
  f.facts["clock_hz"] = {3.6e9, "datasheet, base clock"};
  return f;
}

TEST(FactsTest, RoundTripsThroughJson) {
  const auto back = facts_from_json(to_json(laptop()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->name, "8-core laptop");
  EXPECT_EQ(back->target, target("x86-64-avx2"));
  EXPECT_EQ(back->facts.size(), 2u);
  EXPECT_EQ(back->fact_or("clock_hz", 1), 3.6e9);
  EXPECT_EQ(back->facts.at("clock_hz").source, "datasheet, base clock");
  EXPECT_EQ(back->fact_or("l2_bytes", 7), 7);
  EXPECT_EQ(back->machine, "");
}

TEST(FactsTest, AcceptsTheOptionalCalibrationField) {
  DeviceFacts f = laptop();
  EXPECT_FALSE(to_json(f).contains("calibration"));
  f.calibration = "measured with 2 workers: /x.json";
  EXPECT_EQ(facts_from_json(to_json(f)).value().calibration, f.calibration);
  f.machine = "Zen 3, by its model";
  EXPECT_EQ(facts_from_json(to_json(f)).value().calibration, f.calibration);
}

TEST(FactsTest, AcceptsTheOptionalMachineField) {
  DeviceFacts f = laptop();
  EXPECT_FALSE(to_json(f).contains("machine"));
  f.machine = "Zen 3, by its model";
  Json j = to_json(f);
  EXPECT_EQ(facts_from_json(j).value().machine, f.machine);
  j["machine"] = 3;
  EXPECT_THAT(std::string(facts_from_json(j).status().message()), HasSubstr("machine"));
  j = to_json(f);
  j["machines"] = "";
  EXPECT_FALSE(facts_from_json(j).ok());
}

TEST(FactsTest, AcceptsATargetByName) {
  Json j = to_json(laptop());
  j["target"] = "gfx942";
  EXPECT_EQ(facts_from_json(j).value().target, target("gfx942"));
  j["target"] = "gfx94";
  EXPECT_FALSE(facts_from_json(j).ok());
  j["target"] = 7;
  EXPECT_FALSE(facts_from_json(j).ok());
  j.erase("target");
  EXPECT_THAT(std::string(facts_from_json(j).status().message()), HasSubstr("target"));
}

TEST(FactsTest, RefusesInvalidFactsByName) {
  const auto with = [](const char* name, Json fact) {
    Json j = to_json(laptop());
    j["facts"][name] = std::move(fact);
    return facts_from_json(j).status();
  };
  EXPECT_TRUE(with("l2_bytes", {{"value", 1048576}, {"source", "cpuid leaf 4"}}).ok());
  EXPECT_THAT(std::string(with("l2_size", {{"value", 1}, {"source", "x"}}).message()),
              testing::AllOf(HasSubstr("l2_size"), HasSubstr("l2_bytes")));
  EXPECT_THAT(std::string(with("l2_bytes", {{"value", 1}, {"source", ""}}).message()),
              HasSubstr("no source"));
  EXPECT_FALSE(with("l2_bytes", {{"value", 1}}).ok());
  EXPECT_FALSE(with("l2_bytes", {{"value", -1}, {"source", "x"}}).ok());
  EXPECT_FALSE(with("l2_bytes", {{"value", "1"}, {"source", "x"}}).ok());
  EXPECT_FALSE(with("l2_bytes", Json(5)).ok());
  for (double bad : {-1.0, 1e18, 1e300, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (const char* name : {"l2_bytes", "clock_hz"}) {
      EXPECT_THAT(std::string(with(name, {{"value", bad}, {"source", "x"}}).message()), HasSubstr(name))
          << bad;
    }
  }
  // A device may lack a cache, but not a clock.
  for (const char* cache : {"l1d_bytes", "l2_bytes", "l3_bytes"})
    EXPECT_TRUE(with(cache, {{"value", 0}, {"source", "x"}}).ok()) << cache;
  EXPECT_THAT(std::string(with("clock_hz", {{"value", 0}, {"source", "x"}}).message()),
              HasSubstr("clock_hz"));
}

TEST(FactsTest, NamesTheFileInEveryLoadError) {
  const std::string path = testing::TempDir() + "lathe_facts_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << to_json(laptop()).dump(2);
  EXPECT_EQ(load_facts(path).value().fact_or("cores", 0), 8);
  std::ofstream(path) << "{\"name\":";
  EXPECT_THAT(std::string(load_facts(path).status().message()), HasSubstr(path));
  std::ofstream(path) << "{\"name\":\"x\"}";
  EXPECT_THAT(std::string(load_facts(path).status().message()), HasSubstr(path));
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_THAT(std::string(load_facts(path).status().message()), HasSubstr("1 MiB"));
  unlink(path.c_str());
  EXPECT_THAT(std::string(load_facts(path).status().message()), HasSubstr(path));
  EXPECT_FALSE(load_facts(testing::TempDir()).ok());
}

// Checks every facts file that is installed: it can be read, its target has a name, it has all facts of its
// backend, and its rates are plausible.
TEST(ShippedFacts, AreCompleteAndHaveKnownTargets) {
  std::set<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_FACTS_DIR)) {
    SCOPED_TRACE(entry.path());
    EXPECT_EQ(entry.path().extension(), ".json");
    const auto facts = load_facts(entry.path());
    ASSERT_TRUE(facts.ok()) << facts.status();
    std::ifstream in(entry.path());
    const Json json = Json::parse(in);
    ASSERT_TRUE(json["target"].is_string()) << "--target finds a file by its target's name";
    const std::string name = json["target"];
    ASSERT_TRUE(parse_target(name).ok()) << name;
    targets.insert(name);
    for (const auto& [fact, value] : facts->facts)
      EXPECT_GT(value.source.size(), 10u) << fact << ": " << value.source;
    if (facts->target.backend == Backend::kCpu) continue;
    for (const char* fact : {"compute_units", "clock_hz", "memory_bytes_per_second", "l2_bytes",
                             "shared_memory_bytes", "registers_per_unit", "max_workgroup_size",
                             "threads_per_unit", "launch_seconds", "flops_f32", "flops_matrix_f16"})
      EXPECT_EQ(facts->facts.count(fact), 1u) << fact;
    EXPECT_GT(facts->fact_or("flops_matrix_f16", 0), facts->fact_or("flops_f32", 0));
  }
  EXPECT_THAT(targets, testing::IsSupersetOf({"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a",
                                              "sm_120", "spirv64", "pvc", "bmg"}));
}

// Compares the stated rates with units * clock * FMAs per cycle. A multiprocessor has 64 f32 FMA lanes on Turing
// and A100 and 128 on all others; Intel's Xe-cores and AMD's compute units have 128 (packed or dual issue).
// Matrix units do a power of two of FMAs per cycle.
TEST(ShippedFacts, StateRatesThatFollowFromUnitsAndClock) {
  struct Chip {
    const char* file;
    double lanes, matrix_fmas;
  };
  for (const Chip& chip :
       {Chip{"t4", 64, 512}, Chip{"a100", 64, 1024}, Chip{"a10", 128, 512}, Chip{"l4", 128, 512},
        Chip{"rtx-4090", 128, 256}, Chip{"h100", 128, 2048}, Chip{"h200", 128, 2048}, Chip{"b200", 128, 4096},
        Chip{"rtx-5090", 128, 256}, Chip{"mi210", 128, 512}, Chip{"mi250x", 128, 512},
        Chip{"mi300x", 128, 1024}, Chip{"mi355x", 128, 2048}, Chip{"rx-7900-xtx", 128, 256},
        Chip{"rx-9070-xt", 128, 512}, Chip{"max-1550", 128, 2048}, Chip{"arc-b580", 128, 1024},
        Chip{"arc-a770", 128, 1024}}) {
    const auto facts = load_facts(std::string(LATHE_FACTS_DIR) + "/" + chip.file + ".json");
    ASSERT_TRUE(facts.ok()) << facts.status();
    const double cycles = facts->fact_or("compute_units", 0) * facts->fact_or("clock_hz", 0);
    EXPECT_NEAR(facts->fact_or("flops_f32", 0) / (2 * chip.lanes * cycles), 1, 0.01) << chip.file;
    // For some chips the tensor core rate is stated at a lower clock.
    EXPECT_NEAR(facts->fact_or("flops_matrix_f16", 0) / (2 * chip.matrix_fmas * cycles), 1, 0.08)
        << chip.file;
  }
}

}  // namespace
}  // namespace lathe
