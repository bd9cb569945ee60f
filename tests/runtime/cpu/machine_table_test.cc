#include "runtime/cpu/machine_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/X86TargetParser.h"

namespace lathe {
namespace {

using testing::HasSubstr;

constexpr char kIntel[] = "GenuineIntel", kAmd[] = "AuthenticAMD", kArm[] = "ARM";

Machine machine(const char* vendor, int32_t family, int32_t model, uint32_t features = 0) {
  CpuIdentity id;
  id.vendor = vendor;
  id.family = family;
  id.model = model;
  id.features = features;
  return find_machine(id);
}
const MachineRow& row(const char* vendor, int32_t family, int32_t model) {
  return *machine(vendor, family, model).row;
}
const MachineRow* row_named(const std::string& name) {
  for (const MachineRow& r : machine_rows())
    if (name == r.name) return &r;
  return nullptr;
}

TEST(MachineTable, FindsServersByTheirModel) {
  EXPECT_STREQ(row(kIntel, 6, 143).name, "Sapphire Rapids");
  EXPECT_STREQ(row(kIntel, 6, 207).name, "Emerald Rapids");
  EXPECT_STREQ(row(kAmd, 0x19, 0x01).name, "Zen 3 EPYC");
  EXPECT_STREQ(row(kAmd, 0x19, 0x11).name, "Zen 4 EPYC");
  EXPECT_STREQ(row(kAmd, 0x19, 0x61).name, "Zen 4");
  EXPECT_STREQ(row(kAmd, 0x1a, 0x02).name, "Zen 5 EPYC");
  for (const int32_t model : {0x24, 0x38, 0x60})
    EXPECT_STREQ(row(kAmd, 0x1a, model).name, "Zen 5 mobile") << model;
  EXPECT_STREQ(row(kArm, 0, 0xd40).name, "Neoverse V1");
}

TEST(MachineTable, UnknownProcessorGetsTheDefault) {
  for (const Machine& m : {machine(kIntel, 6, 1), machine(kIntel, 5, 143), machine("Nobody", 6, 143),
                           machine("Nobody", 6, 143, kAmxTile | kSve2)}) {
    EXPECT_EQ(m.match, MachineMatch::kDefault);
    EXPECT_STREQ(m.row->vendor, "");
    EXPECT_GE(m.row->fma_units, 1);
    EXPECT_GT(m.row->core_bytes_per_second, 0);
    EXPECT_GE(m.row->memory_bytes_per_second, m.row->core_bytes_per_second);
    EXPECT_THAT(m.text, HasSubstr("from defaults"));
  }
  EXPECT_THAT(machine("Nobody", 6, 143).text, HasSubstr("family 0x6, model 0x8f"));
}

// If no other source has a clock, the row's clock is used, so it must be plausible.
TEST(MachineTable, EveryMachineHasAClock) {
  for (const char* vendor : {kIntel, kAmd, kArm, "unknown"}) {
    for (int32_t family : {0, 6, 0x17, 0x19, 0x1a}) {
      for (int32_t model = 0; model < 0x1000; ++model) {
        const MachineRow& r = row(vendor, family, model);
        ASSERT_GE(r.clock_hz, 1e9) << r.name;
        ASSERT_LE(r.clock_hz, 5e9) << r.name;
      }
    }
  }
}

// Each model has at most one row. Numbers between rows belong to other products (Lunar Lake, Alder Lake-N).
TEST(MachineTable, EachModelHasAtMostOneRow) {
  std::map<std::string, std::string> seen;
  for (const MachineRow& r : machine_rows()) {
    for (const ModelRange& range : r.models) {
      for (int32_t model = range.first; model <= range.last; ++model) {
        const std::string key =
            std::string(r.vendor) + std::to_string(r.family) + "/" + std::to_string(model);
        EXPECT_TRUE(seen.emplace(key, r.name).second) << key << " is " << seen[key] << " and " << r.name;
      }
    }
  }
  for (const int32_t model : {0xbd, 0xbe})
    EXPECT_EQ(machine(kIntel, 6, model).match, MachineMatch::kDefault) << model;
}

// Some virtual machines report Rocket Lake's model on server cores.
TEST(MachineTable, RocketLakeModelWithAmxIsTreatedAsAServer) {
  constexpr uint32_t kRocketLake = kVaes | kAvx512Vl | kAvx512Vbmi2;
  const Machine real = machine(kIntel, 6, 0xa7, kRocketLake);
  EXPECT_STREQ(real.row->name, "Rocket Lake");
  EXPECT_EQ(real.row->fma_units_512, 1);
  EXPECT_EQ(real.match, MachineMatch::kModel);
  EXPECT_EQ(real.text, "Rocket Lake, by its model (family 0x6, model 0xa7)");

  const Machine server = machine(kIntel, 6, 0xa7, kRocketLake | kClwb | kAmxTile);
  EXPECT_STREQ(server.row->name, "Sapphire Rapids");
  EXPECT_EQ(server.row->fma_units_512, 2);
  EXPECT_EQ(server.match, MachineMatch::kOtherFeatures);
  EXPECT_EQ(
      server.text,
      "like Sapphire Rapids, by its features (amx-tile): its model (family 0x6, model 0xa7) is Rocket Lake, "
      "which cannot have clwb amx-tile");
  // The hypervisor may hide AMX but keep features that came with it.
  for (const uint32_t feature : {kAvx512Bf16, kAvx512Fp16})
    EXPECT_STREQ(machine(kIntel, 6, 0xa7, kRocketLake | feature).row->name, "Sapphire Rapids") << feature;
  EXPECT_EQ(machine(kIntel, 6, 0xa7, kRocketLake | kClwb).row->fma_units_512, 2);
}

// A hypervisor may hide any feature, so a missing feature proves nothing.
TEST(MachineTable, RowsMatchWithoutFeatures) {
  for (const MachineRow& r : machine_rows())
    for (const uint32_t features : {0u, r.features}) {
      const Machine m = machine(r.vendor, r.family, r.models[0].first, features);
      EXPECT_EQ(m.row, &r) << r.name;
      EXPECT_EQ(m.match, MachineMatch::kModel) << r.name;
    }
}

TEST(MachineTable, RowDoesNotMatchAFeatureItCannotHave) {
  for (const MachineRow& r : machine_rows()) {
    int impossible = 0;
    for (const NamedCpuFeature& f : named_cpu_features()) {
      if ((r.features & f.feature) != 0) continue;
      ++impossible;
      const Machine m = machine(r.vendor, r.family, r.models[0].first, r.features | f.feature);
      EXPECT_TRUE(m.match == MachineMatch::kOtherFeatures || m.match == MachineMatch::kDefault) << r.name;
      EXPECT_THAT(m.text,
                  HasSubstr(std::string("is ") + r.name + ", which cannot have " + std::string(f.name)));
    }
    EXPECT_GT(impossible, 0) << r.name;
  }
}

TEST(MachineTable, FeaturesDecideIfTheModelIsUnknown) {
  struct Case {
    const char* vendor;
    int32_t family;
    uint32_t features;
    const char* name;
    int32_t fma_units_512;
  };
  constexpr uint32_t kServer = kClwb | kVaes | kAvx512Vl | kAvx512Vbmi2;
  const Case cases[] = {
      {kIntel, 19, kServer | kAvx512Bf16 | kAvx512Fp16 | kAvxVnni | kAmxTile | kAmxFp16 | kAvxVnniInt8,
       "Granite Rapids", 2},
      {kIntel, 6, kServer | kAvx512Bf16 | kAvx512Fp16 | kAvxVnni | kAmxTile, "Sapphire Rapids", 2},
      {kIntel, 6, kServer, "Ice Lake-SP", 2},
      {kIntel, 6, kClwb | kAvx512Vl, "Skylake-SP, Cascade Lake", 2},
      {kIntel, 6, kServer | kAvx512Vp2intersect, "Tiger Lake", 1},
      {kIntel, 6, kClwb | kVaes | kAvxVnni | kAvxVnniInt8, "Alder Lake", 1},
      {kAmd, 0x1a, kServer | kAvx512Bf16 | kAvxVnni | kAvx512Vp2intersect | kAvx512Fp16, "Zen 5", 2},
      {kAmd, 0x19, kServer | kAvx512Bf16, "Zen 4", 1},
      {kAmd, 0x19, kClwb | kVaes, "Zen 3", 1},
      {kAmd, 0x17, kClwb, "Zen 2", 1},
      {kArm, 0, kSve | kSve2 | kArmBf16Dot | kSme, "Neoverse N2", 2},
      {kArm, 0, kSve | kArmBf16Dot, "Neoverse V1", 4},
  };
  for (const Case& c : cases) {
    const Machine m = machine(c.vendor, c.family, 0xfe, c.features);
    EXPECT_STREQ(m.row->name, c.name);
    EXPECT_EQ(m.row->fma_units_512, c.fma_units_512) << c.name;
    EXPECT_EQ(m.match, MachineMatch::kFeatures) << c.name;
    EXPECT_THAT(m.text, testing::AllOf(HasSubstr(c.name), HasSubstr("is unknown"))) << m.text;
  }
  EXPECT_EQ(machine(kArm, 0, 0xd0c, kSve | kSve2).match, MachineMatch::kOtherFeatures);
}

// LLVM's list of features of a core, which is independent of the table.
uint32_t llvm_features(const std::string& cpu, bool arm) {
  std::set<std::string> names;
  if (arm) {
    const auto info = llvm::AArch64::parseCpu(cpu);
    EXPECT_TRUE(info.has_value()) << cpu;
    if (!info) return 0;
    std::vector<llvm::StringRef> features;
    llvm::AArch64::getExtensionFeatures(info->getImpliedExtensions(), features);
    for (const llvm::StringRef f : features) names.insert(f.str().substr(1));
  } else {
    llvm::SmallVector<llvm::StringRef> features;
    llvm::X86::getFeaturesForCPU(cpu, features);
    EXPECT_FALSE(features.empty()) << cpu;
    for (const llvm::StringRef f : features) names.insert(f.str());
  }
  uint32_t set = 0;
  for (const NamedCpuFeature& f : named_cpu_features())
    if (names.count(std::string(f.name)) != 0) set |= f.feature;
  return set;
}

TEST(MachineTable, FeaturesAgreeWithLlvm) {
  struct Case {
    const char* row;
    std::vector<const char*> cpus;
    uint32_t beyond = 0;  // features that LLVM does not list; see the constant's comment
  };
  // LLVM lists no AVX-512 for Alder Lake, but its first steppings have it.
  constexpr uint32_t kFirstAlderLakes =
      kAvx512Vl | kAvx512Vbmi2 | kAvx512Vp2intersect | kAvx512Bf16 | kAvx512Fp16;
  const std::vector<Case> cases = {
      {"Skylake-SP, Cascade Lake", {"skylake-avx512", "cascadelake", "cooperlake"}},
      {"Ice Lake-SP", {"icelake-server"}},
      {"Sapphire Rapids", {"sapphirerapids"}},
      {"Emerald Rapids", {"emeraldrapids"}},
      {"Granite Rapids", {"graniterapids", "graniterapids-d"}},
      {"Ice Lake", {"icelake-client"}},
      {"Tiger Lake", {"tigerlake"}},
      {"Rocket Lake", {"rocketlake"}},
      {"Alder Lake", {"alderlake"}, kFirstAlderLakes},
      {"Raptor Lake", {"raptorlake"}},
      {"Zen 1", {"znver1"}},
      {"Zen 2 EPYC", {"znver2"}},
      {"Zen 2", {"znver2"}},
      {"Zen 3 EPYC", {"znver3"}},
      {"Zen 3", {"znver3"}},
      {"Zen 4 EPYC", {"znver4"}},
      {"Zen 4", {"znver4"}},
      {"Zen 4c EPYC", {"znver4"}},
      {"Zen 5 EPYC", {"znver5"}},
      {"Zen 5", {"znver5"}},
      {"Zen 5 mobile", {"znver5"}},
      {"Neoverse N1", {"neoverse-n1"}},
      {"Neoverse V1", {"neoverse-v1"}},
      {"Neoverse N2", {"neoverse-n2"}},
      {"Neoverse V2", {"neoverse-v2"}},
  };
  EXPECT_EQ(cases.size(), machine_rows().size());
  for (const Case& c : cases) {
    const MachineRow* r = row_named(c.row);
    ASSERT_NE(r, nullptr) << c.row;
    uint32_t has = c.beyond;
    for (const char* cpu : c.cpus) has |= llvm_features(cpu, std::string(r->vendor) == kArm);
    EXPECT_EQ(cpu_feature_names(r->features), cpu_feature_names(has)) << c.row;
  }
}

}  // namespace
}  // namespace lathe
