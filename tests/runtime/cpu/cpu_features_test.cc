#include "runtime/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_split.h"

namespace lathe {
namespace {

constexpr uint32_t bit(int n) { return 1u << n; }

// Bits by Intel's manual.
X86Registers haswell() {
  X86Registers r;
  r.leaf1_ecx = bit(12) | bit(27) | bit(28) | bit(29);
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

TEST(CpuFeatures, Avx2Machine) {
  EXPECT_EQ(features_from_cpuid(haswell()), "+avx,+avx2,+bmi,+bmi2,+f16c,+fma");
}

TEST(CpuFeatures, Avx512Machine) {
  EXPECT_EQ(features_from_cpuid(skylake_server()),
            "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi,+bmi2,+f16c,+fma");
}

TEST(CpuFeatures, TheSystemMustSaveTheRegisters) {
  X86Registers r = skylake_server();
  r.xcr0 = 0x7;  // no ZMM state
  EXPECT_EQ(features_from_cpuid(r), features_from_cpuid(haswell()));
  r.xcr0 = 0x3;  // no YMM state
  EXPECT_EQ(features_from_cpuid(r), "+bmi,+bmi2");
  r.xcr0 = 0;
  EXPECT_EQ(features_from_cpuid(r), "+bmi,+bmi2");
}

TEST(CpuFeatures, TilesNeedTheirOwnState) {
  X86Registers r = skylake_server();
  r.leaf7_edx = bit(22) | bit(23) | bit(24) | bit(25);
  r.leaf7_ecx = bit(11);
  r.leaf7_1_eax = bit(4) | bit(5);
  EXPECT_EQ(features_from_cpuid(r).find("amx"), std::string::npos);
  r.xcr0 |= 0x60000;
  EXPECT_EQ(features_from_cpuid(r),
            "+amx-bf16,+amx-int8,+amx-tile,+avx,+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+"
            "avx512fp16,"
            "+avx512vl,+avx512vnni,+avxvnni,+bmi,+bmi2,+f16c,+fma");
}

TEST(CpuFeatures, Aarch64) {
  EXPECT_EQ(features_from_hwcap(1 << 1, 0), "+neon");
  EXPECT_EQ(features_from_hwcap(1 << 1 | 1 << 10 | 1 << 20, 1 << 13 | 1 << 14),
            "+bf16,+dotprod,+fullfp16,+i8mm,+neon");
  EXPECT_EQ(features_from_hwcap(0, 0), "");
}

#if defined(__x86_64__)
// The kernel lists what processor and system offer together, under names of its own.
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
  const std::pair<const char*, const char*> names[] = {{"avx", "avx"},
                                                       {"avx2", "avx2"},
                                                       {"bmi", "bmi1"},
                                                       {"bmi2", "bmi2"},
                                                       {"f16c", "f16c"},
                                                       {"fma", "fma"},
                                                       {"avx512f", "avx512f"},
                                                       {"avx512bw", "avx512bw"},
                                                       {"avx512cd", "avx512cd"},
                                                       {"avx512dq", "avx512dq"},
                                                       {"avx512vl", "avx512vl"},
                                                       {"avx512vnni", "avx512_vnni"},
                                                       {"avx512bf16", "avx512_bf16"},
                                                       {"avx512fp16", "avx512_fp16"},
                                                       {"avxvnni", "avx_vnni"},
                                                       {"amx-bf16", "amx_bf16"},
                                                       {"amx-int8", "amx_int8"},
                                                       {"amx-tile", "amx_tile"}};
  for (const auto& [ours, linux] : names) EXPECT_EQ(target.has(ours), flags.count(linux) == 1) << ours;
}
#endif

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
  const CpuIdentity id = identify_cpu();
  EXPECT_FALSE(id.vendor.empty());
  EXPECT_FALSE(id.name.empty());
  EXPECT_EQ(id.name.find('\0'), std::string::npos);
}

}  // namespace
}  // namespace lathe
