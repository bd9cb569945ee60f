#include "runtime/cpu/machine_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lathe {
namespace {

// Features that the cores can have, from the vendors' instruction set references. machine_table_test.cc
// compares them with LLVM's lists and names the exceptions.

// Cooper Lake has the model number of Skylake-SP, but also has bf16.
constexpr uint32_t kSkylakeServer = kClwb | kAvx512Vl | kAvx512Bf16;
constexpr uint32_t kIceLake = kVaes | kAvx512Vl | kAvx512Vbmi2, kIceLakeServer = kIceLake | kClwb;
constexpr uint32_t kTigerLake = kIceLakeServer | kAvx512Vp2intersect;
constexpr uint32_t kSapphireRapids = kIceLakeServer | kAvx512Bf16 | kAvx512Fp16 | kAvxVnni | kAmxTile;
constexpr uint32_t kGraniteRapids = kSapphireRapids | kAmxFp16;
constexpr uint32_t kRaptorLake = kClwb | kVaes | kAvxVnni;
// The first steppings had AVX-512, until a microcode update disabled it.
constexpr uint32_t kAlderLake = kTigerLake | kAvx512Bf16 | kAvx512Fp16 | kAvxVnni;
constexpr uint32_t kZen2 = kClwb, kZen3 = kZen2 | kVaes;
constexpr uint32_t kZen4 = kZen3 | kAvx512Vl | kAvx512Vbmi2 | kAvx512Bf16;
constexpr uint32_t kZen5 = kZen4 | kAvxVnni | kAvx512Vp2intersect;
constexpr uint32_t kNeoverseV1 = kSve | kArmBf16Dot, kNeoverseN2 = kNeoverseV1 | kSve2;

// Memory rates are channels * 8 bytes * transfers per second (vendors' product pages). Clocks are AMD's "all
// core boost" or were measured (Emerald Rapids, EPYC 7003 to 9005), otherwise typical base clocks. Read rates
// of one core were measured on those processors (docs/cpu-speed.md) and are estimates for the others.
// clang-format off
constexpr MachineRow kRows[] = {
    {"GenuineIntel", 6, {{0x55, 0x55}}, "Skylake-SP, Cascade Lake", kSkylakeServer,
     2, 2, 128e9, "6 channels DDR4-2666", 12e9, 2.5e9},
    {"GenuineIntel", 6, {{0x6a, 0x6c}}, "Ice Lake-SP", kIceLakeServer,
     2, 2, 204.8e9, "8 channels DDR4-3200", 12e9, 2.4e9},
    {"GenuineIntel", 6, {{0x8f, 0x8f}}, "Sapphire Rapids", kSapphireRapids,
     2, 2, 307.2e9, "8 channels DDR5-4800", 15e9, 2.0e9},
    {"GenuineIntel", 6, {{0xcf, 0xcf}}, "Emerald Rapids", kSapphireRapids,
     2, 2, 358.4e9, "8 channels DDR5-5600", 21e9, 2.7e9, 0, 0, 13e9},
    {"GenuineIntel", 6, {{0xad, 0xae}}, "Granite Rapids", kGraniteRapids,
     2, 2, 614.4e9, "12 channels DDR5-6400", 15e9, 2.1e9},
    // Client cores with AVX-512 lack the second 512-bit FMA unit.
    {"GenuineIntel", 6, {{0x7d, 0x7e}}, "Ice Lake", kIceLake,
     1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 1.3e9},
    {"GenuineIntel", 6, {{0x8c, 0x8d}}, "Tiger Lake", kTigerLake,
     1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 2.6e9},
    {"GenuineIntel", 6, {{0xa7, 0xa7}}, "Rocket Lake", kIceLake,
     1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 3.5e9},
    {"GenuineIntel", 6, {{0x97, 0x9a}}, "Alder Lake", kAlderLake,
     1, 2, 76.8e9, "2 channels DDR5-4800", 25e9, 3.2e9},
    {"GenuineIntel", 6, {{0xb7, 0xba}, {0xbf, 0xbf}}, "Raptor Lake", kRaptorLake,
     1, 2, 89.6e9, "2 channels DDR5-5600", 25e9, 3.4e9},
    // Zen 1 executes a 256-bit operation as two halves of 128 bits, Zen 4 a 512-bit one as two of 256 bits.
    {"AuthenticAMD", 0x17, {{0x01, 0x2f}}, "Zen 1", 0,
     1, 1, 170.6e9, "8 channels DDR4-2666", 18e9, 2.2e9, 0, 0, 0, "zen3"},
    {"AuthenticAMD", 0x17, {{0x31, 0x31}}, "Zen 2 EPYC", kZen2,
     1, 2, 204.8e9, "8 channels DDR4-3200", 20e9, 2.25e9, 0, 0, 0, "zen3"},
    {"AuthenticAMD", 0x17, {{0x60, 0x7f}}, "Zen 2", kZen2,
     1, 2, 51.2e9, "2 channels DDR4-3200", 25e9, 3.0e9, 0, 0, 0, "zen3"},
    {"AuthenticAMD", 0x19, {{0x00, 0x0f}}, "Zen 3 EPYC", kZen3,
     1, 2, 204.8e9, "8 channels DDR4-3200", 20e9, 3.2e9, 0, 12e9, 0, "zen3"},
    {"AuthenticAMD", 0x19, {{0x10, 0x1f}}, "Zen 4 EPYC", kZen4,
     1, 2, 460.8e9, "12 channels DDR5-4800", 33e9, 3.55e9, 35e9, 0, 0, "zen4"},
    {"AuthenticAMD", 0x19, {{0x20, 0x5f}}, "Zen 3", kZen3,
     1, 2, 51.2e9, "2 channels DDR4-3200", 25e9, 3.4e9, 0, 0, 0, "zen3"},
    {"AuthenticAMD", 0x19, {{0x60, 0x7f}}, "Zen 4", kZen4,
     1, 2, 83.2e9, "2 channels DDR5-5200", 30e9, 4.2e9, 0, 0, 0, "zen4"},
    {"AuthenticAMD", 0x19, {{0xa0, 0xaf}}, "Zen 4c EPYC", kZen4,
     1, 2, 460.8e9, "12 channels DDR5-4800", 33e9, 3.1e9, 0, 0, 0, "zen4"},
    {"AuthenticAMD", 0x1a, {{0x00, 0x1f}}, "Zen 5 EPYC", kZen5,
     2, 2, 576e9, "12 channels DDR5-6000", 40e9, 3.9e9, 43e9, 0, 0, "zen5", true},
    {"AuthenticAMD", 0x1a, {{0x40, 0x4f}}, "Zen 5", kZen5,
     2, 2, 89.6e9, "2 channels DDR5-5600", 35e9, 4.0e9, 0, 0, 0, "zen5", true},
    {"AuthenticAMD", 0x1a, {{0x20, 0x3f}, {0x60, 0x6f}}, "Zen 5 mobile", kZen5,
     1, 2, 120e9, "128 bits of LPDDR5X-7500", 30e9, 2.0e9, 0, 0, 0, "zen5"},
    {"ARM", 0, {{0xd0c, 0xd0c}}, "Neoverse N1", 0,
     2, 2, 204.8e9, "8 channels DDR4-3200", 18e9, 2.5e9},
    {"ARM", 0, {{0xd40, 0xd40}}, "Neoverse V1", kNeoverseV1,
     4, 4, 307.2e9, "8 channels DDR5-4800", 25e9, 2.6e9},
    {"ARM", 0, {{0xd49, 0xd49}}, "Neoverse N2", kNeoverseN2,
     2, 2, 204.8e9, "8 channels DDR4-3200", 25e9, 2.75e9},
    {"ARM", 0, {{0xd4f, 0xd4f}}, "Neoverse V2", kNeoverseN2,
     4, 4, 537.6e9, "12 channels DDR5-5600", 30e9, 2.8e9},
};
// clang-format on

// An unknown processor is treated as a desktop.
constexpr MachineRow kDefault = {"",   0,    {}, "unknown processor", 0, 1, 2, 51.2e9, "2 channels DDR4-3200",
                                 20e9, 2.5e9};

// For processors whose model is unknown or contradicts their features. The first rule whose features are all
// present names the row.
struct FeatureRule {
  const char* vendor;
  uint32_t features;
  const char* name;
};
// All Intel client models with AVX-512 have a row, so an unknown model with AVX-512 is a server. AMD servers
// and clients have the same features, so an unknown model is treated as a desktop.
constexpr FeatureRule kRules[] = {
    {"GenuineIntel", kAmxFp16, "Granite Rapids"},
    {"GenuineIntel", kAmxTile, "Sapphire Rapids"},
    {"GenuineIntel", kAvx512Fp16, "Sapphire Rapids"},
    {"GenuineIntel", kAvx512Bf16, "Sapphire Rapids"},
    {"GenuineIntel", kAvx512Vp2intersect, "Tiger Lake"},
    {"GenuineIntel", kAvx512Vbmi2, "Ice Lake-SP"},
    {"GenuineIntel", kAvx512Vl, "Skylake-SP, Cascade Lake"},
    {"GenuineIntel", kAvxVnni, "Alder Lake"},
    {"AuthenticAMD", kAvx512Vl | kAvxVnni, "Zen 5"},
    {"AuthenticAMD", kAvx512Vl | kAvx512Vp2intersect, "Zen 5"},
    {"AuthenticAMD", kAvx512Vl, "Zen 4"},
    {"AuthenticAMD", kVaes, "Zen 3"},
    {"AuthenticAMD", kClwb, "Zen 2"},
    {"ARM", kSve2, "Neoverse N2"},
    {"ARM", kSve, "Neoverse V1"},
};

const MachineRow* row_of_model(const CpuIdentity& id) {
  for (const MachineRow& row : kRows) {
    if (id.vendor != row.vendor || id.family != row.family) continue;
    for (const ModelRange& range : row.models)
      if (id.model >= range.first && id.model <= range.last) return &row;
  }
  return nullptr;
}

const FeatureRule* rule_of_features(const CpuIdentity& id) {
  for (const FeatureRule& rule : kRules)
    if (id.vendor == rule.vendor && (id.features & rule.features) == rule.features) return &rule;
  return nullptr;
}

const MachineRow& row_named(absl::string_view name) {
  for (const MachineRow& row : kRows)
    if (name == row.name) return row;
  return kDefault;
}

// Returns "(family 0x6, model 0xcf)", or "(part 0xd40)" for AArch64.
std::string model_text(const CpuIdentity& id) {
  if (id.family == 0) return absl::StrCat("(part 0x", absl::Hex(id.model), ")");
  return absl::StrCat("(family 0x", absl::Hex(id.family), ", model 0x", absl::Hex(id.model), ")");
}

}  // namespace

Machine find_machine(const CpuIdentity& id) {
  const std::string model = model_text(id);
  const MachineRow* const row = row_of_model(id);
  const uint32_t impossible = row != nullptr ? id.features & ~row->features : 0;
  if (row != nullptr && impossible == 0)
    return {row, MachineMatch::kModel, absl::StrCat(row->name, ", by its model ", model)};
  const std::string cause = row == nullptr
                                ? absl::StrCat("its model ", model, " is unknown")
                                : absl::StrCat("its model ", model, " is ", row->name, ", which cannot have ",
                                               cpu_feature_names(impossible));
  const FeatureRule* const rule = rule_of_features(id);
  if (rule == nullptr)
    return {&kDefault, MachineMatch::kDefault,
            absl::StrCat(kDefault.name, ", from defaults: ", cause, ", and its features match no processor")};
  return {&row_named(rule->name), row == nullptr ? MachineMatch::kFeatures : MachineMatch::kOtherFeatures,
          absl::StrCat("like ", rule->name, ", by its features (", cpu_feature_names(rule->features),
                       "): ", cause)};
}

absl::Span<const MachineRow> machine_rows() { return kRows; }

}  // namespace lathe
