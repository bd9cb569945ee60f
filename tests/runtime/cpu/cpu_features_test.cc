#include "runtime/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_split.h"
#include "system_tree.h"

namespace lathe {
namespace {

constexpr uint32_t bit(int n) { return 1u << n; }

// Bits as in Intel's manual.
X86Registers haswell() {
  X86Registers r;
  r.leaf1_ecx = bit(12) | bit(23) | bit(27) | bit(28) | bit(29);
  r.extended1_ecx = bit(5);
  r.leaf7_ebx = bit(3) | bit(5) | bit(8);
  r.xcr0 = 0x7;
  return r;
}

X86Registers skylake_server() {
  X86Registers r = haswell();
  r.leaf7_ebx |= bit(16) | bit(17) | bit(28) | bit(30) | bit(31);
  r.xcr0 = 0xe7;
  return r;
}

Target target_of(const X86Registers& r) { return {Backend::kCpu, "x86-64", features_from_cpuid(r)}; }

// A host's target must equal the named target for such hosts, so that it finds entries made for that name.
TEST(CpuFeatures, HostsEqualTheNamedTargets) {
  EXPECT_EQ(target_of(haswell()), *parse_target("x86-64-avx2"));
  X86Registers alder_lake = haswell();
  alder_lake.leaf7_1_eax |= bit(4);
  EXPECT_EQ(target_of(alder_lake), *parse_target("x86-64-avxvnni"));
  EXPECT_EQ(target_of(skylake_server()), *parse_target("x86-64-avx512"));
  X86Registers sapphire_rapids = skylake_server();
  sapphire_rapids.leaf7_ebx |= bit(21) | bit(29);  // IFMA, SHA
  sapphire_rapids.xcr0 |= 0x60000;                 // tiles
  EXPECT_EQ(target_of(sapphire_rapids), *parse_target("x86-64-avx512"));
  sapphire_rapids.leaf7_ecx |= bit(11);
  EXPECT_EQ(target_of(sapphire_rapids), *parse_target("x86-64-avx512vnni"));
  sapphire_rapids.leaf7_1_eax |= bit(5);
  EXPECT_EQ(target_of(sapphire_rapids), *parse_target("x86-64-avx512bf16"));
  sapphire_rapids.leaf7_edx |= bit(22) | bit(24) | bit(25);
  EXPECT_EQ(target_of(sapphire_rapids), *parse_target("x86-64-amx"));
  sapphire_rapids.xcr0 &= ~uint64_t{0x40000};  // the system saves the tile configuration but not the tiles
  EXPECT_EQ(target_of(sapphire_rapids), *parse_target("x86-64-avx512bf16"));
  constexpr uint64_t kNeoverseN1 = bit(1) | bit(10) | bit(20), kSve = bit(22), kSve2 = bit(1),
                     kBf16 = bit(14), kI8mm = bit(13);
  EXPECT_EQ(features_from_hwcap(bit(1) | bit(10), 0), parse_target("aarch64-neon")->features);
  EXPECT_EQ(features_from_hwcap(kNeoverseN1, 0), parse_target("aarch64-dotprod")->features);
  EXPECT_EQ(features_from_hwcap(kNeoverseN1 | kSve, kBf16 | kI8mm), parse_target("aarch64-bf16")->features);
  EXPECT_EQ(features_from_hwcap(kNeoverseN1 | kSve, kBf16 | kI8mm | kSve2),
            parse_target("aarch64-sve2")->features);
}

TEST(CpuFeatures, NeedRegistersThatTheSystemSaves) {
  X86Registers r = skylake_server();
  r.xcr0 = 0x7;  // no ZMM state
  EXPECT_EQ(target_of(r), target_of(haswell()));
  r.xcr0 = 0x3;  // no YMM state
  EXPECT_EQ(features_from_cpuid(r), "");
  r.xcr0 = 0;
  EXPECT_EQ(features_from_cpuid(r), "");
}

// If one feature of a set is missing, the whole set is not used.
TEST(CpuFeatures, SetsAreAllOrNothing) {
  for (int n : {16, 17, 28, 30, 31}) {
    X86Registers r = skylake_server();
    r.leaf7_ebx &= ~bit(n);
    EXPECT_EQ(target_of(r), target_of(haswell())) << "leaf 7 bit " << n;
  }
  for (const X86Registers& whole : {haswell(), skylake_server()}) {
    for (int n : {12, 23, 28, 29}) {
      X86Registers r = whole;
      r.leaf1_ecx &= ~bit(n);
      EXPECT_EQ(features_from_cpuid(r), "") << "leaf 1 bit " << n;
    }
    for (int n : {3, 5, 8}) {
      X86Registers r = whole;
      r.leaf7_ebx &= ~bit(n);
      EXPECT_EQ(features_from_cpuid(r), "") << "leaf 7 bit " << n;
    }
    X86Registers r = whole;
    r.extended1_ecx = 0;
    EXPECT_EQ(features_from_cpuid(r), "");
  }
  EXPECT_EQ(vector_lanes(target_of(X86Registers())), 4);
}

TEST(CpuFeatures, Aarch64UsesTheWidestCompleteSet) {
  EXPECT_EQ(features_from_hwcap(bit(1), 0), "+neon");
  EXPECT_EQ(features_from_hwcap(bit(10), 0), "");
  EXPECT_EQ(features_from_hwcap(0, ~uint64_t{0}), "");
  // Dot products without f16 instructions, SVE2 without bf16, or bf16 without i8mm, give the smaller set.
  EXPECT_EQ(features_from_hwcap(bit(1) | bit(20), 0), "+neon");
  EXPECT_EQ(features_from_hwcap(bit(1) | bit(10) | bit(20) | bit(22), bit(1)), kArmDotprod);
  EXPECT_EQ(features_from_hwcap(bit(1) | bit(10) | bit(20), bit(14)), kArmDotprod);
}

// The CpuFeature bits do not depend on the registers that the system saves. Bits as in Intel's manual.
TEST(CpuFeatures, DistinguishMicroarchitectures) {
  struct Case {
    uint32_t X86Registers::*word;
    int n;
    CpuFeature feature;
  };
  const Case cases[] = {
      {&X86Registers::leaf7_ebx, 24, kClwb},
      {&X86Registers::leaf7_ebx, 31, kAvx512Vl},
      {&X86Registers::leaf7_ecx, 6, kAvx512Vbmi2},
      {&X86Registers::leaf7_ecx, 9, kVaes},
      {&X86Registers::leaf7_edx, 8, kAvx512Vp2intersect},
      {&X86Registers::leaf7_edx, 23, kAvx512Fp16},
      {&X86Registers::leaf7_edx, 24, kAmxTile},
      {&X86Registers::leaf7_1_eax, 4, kAvxVnni},
      {&X86Registers::leaf7_1_eax, 5, kAvx512Bf16},
      {&X86Registers::leaf7_1_eax, 21, kAmxFp16},
      {&X86Registers::leaf7_1_edx, 4, kAvxVnniInt8},
  };
  uint32_t all = 0;
  for (const Case& c : cases) {
    X86Registers r;
    r.*c.word = bit(c.n);
    EXPECT_EQ(cpu_features_from_cpuid(r), c.feature) << cpu_feature_names(c.feature);
    all |= c.feature;
  }
  EXPECT_EQ(cpu_features_from_cpuid(haswell()), 0u);
  EXPECT_EQ(cpu_features_from_cpuid(skylake_server()), kAvx512Vl);
  EXPECT_EQ(cpu_features_from_hwcap(bit(22), 0), kSve);
  EXPECT_EQ(cpu_features_from_hwcap(0, bit(1)), kSve2);
  EXPECT_EQ(cpu_features_from_hwcap(0, bit(14)), kArmBf16Dot);
  EXPECT_EQ(cpu_features_from_hwcap(0, bit(23)), kSme);
  EXPECT_EQ(cpu_features_from_hwcap(0, uint64_t{1} << 36), kSve2p1);
  all |= kSve | kSve2 | kArmBf16Dot | kSme | kSve2p1;
  for (const NamedCpuFeature& f : named_cpu_features()) EXPECT_NE(all & f.feature, 0u) << f.name;
  EXPECT_EQ(cpu_feature_names(kAmxTile | kClwb), "clwb amx-tile");
}

// From Arm's description of the Main ID Register: implementer 0x41 is Arm.
TEST(CpuFeatures, IdentityFromMidr) {
  const CpuIdentity v2 = identity_from_midr(0x410fd4f0);
  EXPECT_EQ(v2.vendor, "ARM");
  EXPECT_EQ(v2.model, 0xd4f);
  EXPECT_EQ(v2.name, "ARM part 0xd4f");
  EXPECT_EQ(v2.stepping, 0);
  EXPECT_EQ(identity_from_midr(0x413fd0c1).stepping, 0x31) << "variant 3, revision 1";
  EXPECT_EQ(identity_from_midr(0xc00fac30).vendor, "implementer 0xc0");
}

// Processor 0 may be offline, or may be outside the mask and a different kind of core.
TEST(CpuFeatures, MidrComesFromAnAllowedProcessor) {
  SystemTree tree({2, 3});
  const auto file = [](int processor) {
    return processor_folder(processor) + "regs/identification/midr_el1";
  };
  tree.write(file(0), "0x00000000410fd050\n");
  EXPECT_EQ(read_midr(tree.system()), 0u);
  tree.write(file(3), "0x00000000410fd490\n");
  EXPECT_EQ(read_midr(tree.system()), 0x410fd490u);
  tree.write(file(2), "0x00000000410fd4f0\n");
  EXPECT_EQ(read_midr(tree.system()), 0x410fd4f0u);
}

#if defined(__x86_64__)
// The kernel lists what processor and system support together, under its own names.
TEST(CpuFeatures, HostAgreesWithProcCpuinfo) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (flags.empty() && std::getline(file, line)) {
    if (line.rfind("flags", 0) == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;) flags.insert(word);
    }
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags";
  const Target target = host_target();
  EXPECT_EQ(target.arch, "x86-64");
  // Linux's names for LLVM's features.
  const std::map<std::string, std::string> renamed = {{"bmi", "bmi1"},
                                                      {"lzcnt", "abm"},
                                                      {"avx512vnni", "avx512_vnni"},
                                                      {"avxvnni", "avx_vnni"},
                                                      {"avx512bf16", "avx512_bf16"},
                                                      {"amx-bf16", "amx_bf16"},
                                                      {"amx-int8", "amx_int8"},
                                                      {"amx-tile", "amx_tile"}};
  std::string expected;
  for (const absl::string_view set : kX86FeatureSets) {
    const std::vector<std::string> features = absl::StrSplit(set, ',');
    if (!expected.empty() || !std::all_of(features.begin(), features.end(), [&](const std::string& feature) {
          const auto found = renamed.find(feature.substr(1));
          return flags.count(found == renamed.end() ? feature.substr(1) : found->second) == 1;
        }))
      continue;
    expected = std::string(set);
  }
  EXPECT_EQ(target.features, expected);
}
#endif

// A process may use AMX after it has requested its registers. Then its instructions must run.
TEST(CpuFeatures, TilesWorkAfterTheyAreAcquired) {
  const Target permitted = permitted_target();
  if (!host_target().has("amx-tile")) {
    EXPECT_EQ(permitted, host_target());
    EXPECT_TRUE(acquire_registers(host_target()).ok());
    GTEST_SKIP() << "this processor has no AMX";
  }
  if (!permitted.has("amx-tile")) {
    EXPECT_EQ(acquire_registers(host_target()).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(permitted, *parse_target("x86-64-avx512bf16"));
    GTEST_SKIP() << "the system refuses AMX's registers";
  }
#if defined(__x86_64__)
  asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");  // tilerelease
  alignas(64) uint8_t config[64] = {1};
  config[16] = 64, config[48] = 16;  // tile 0: 16 lines of 64 bytes
  alignas(64) uint8_t tile[1024];
  std::fill(std::begin(tile), std::end(tile), uint8_t{0xff});
  asm volatile(
      ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00\n"        // ldtilecfg (%rax)
      ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0\n"        // tilezero %tmm0
      ".byte 0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x0b\n"  // tilestored %tmm0, (%rbx, %rcx)
      ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"          // tilerelease
      :
      : "a"(config), "b"(tile), "c"(int64_t{64})
      : "memory");
  EXPECT_EQ(std::count(std::begin(tile), std::end(tile), uint8_t{0}), 1024);
#endif
}

TEST(CpuFeatures, HostTargetIsCanonical) {
  const Target target = host_target();
  EXPECT_EQ(target.backend, Backend::kCpu);
  const std::vector<std::string> parts = absl::StrSplit(target.features, ',', absl::SkipEmpty());
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end())) << target.features;
  for (const std::string& part : parts) EXPECT_EQ(part[0], '+') << target.features;
  auto round_trip = target_from_json(to_json(target));
  ASSERT_TRUE(round_trip.ok()) << round_trip.status();
  EXPECT_EQ(*round_trip, target);
}

TEST(CpuFeatures, IdentityHasAName) {
  const CpuIdentity id = identify_cpu(this_system());
  EXPECT_FALSE(id.vendor.empty());
  EXPECT_FALSE(id.name.empty());
  EXPECT_EQ(id.name.find('\0'), std::string::npos);
}

}  // namespace
}  // namespace lathe
