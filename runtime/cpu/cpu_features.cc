#include "runtime/cpu/cpu_features.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace lathe {
namespace {

// Bits of XCR0: the register state that the system saves.
constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;

#if defined(__x86_64__)
X86Registers read_x86_registers() {
  X86Registers r;
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) r.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
    r.leaf7_ebx = ebx, r.leaf7_ecx = ecx, r.leaf7_edx = edx;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) r.leaf7_1_eax = eax, r.leaf7_1_edx = edx;
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx)) r.extended1_ecx = ecx;
  constexpr uint32_t kOsxsave = 1u << 27;
  if (r.leaf1_ecx & kOsxsave) {
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    r.xcr0 = uint64_t{high} << 32 | low;
  }
  return r;
}

std::string brand_string() {
  uint32_t words[12];
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* w = words + 4 * i;
    if (!__get_cpuid(0x80000002 + i, &w[0], &w[1], &w[2], &w[3])) return "";
  }
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  return std::string(absl::StripAsciiWhitespace(text));
}

// Intel and AMD reserve bit 31 of leaf 1's ecx, and leaves from 0x40000000 on, for hypervisors.
std::string hypervisor_signature() {
  uint32_t eax, words[3] = {}, ecx = 0, unused;
  if (!__get_cpuid(1, &eax, &unused, &ecx, &unused) || (ecx >> 31 & 1) == 0) return "none";
  __cpuid(0x40000000, eax, words[0], words[1], words[2]);
  char text[sizeof(words) + 1] = {};
  std::memcpy(text, words, sizeof(words));
  std::string signature;
  for (const char* c = text; *c != 0; ++c)
    if (*c >= ' ' && *c <= '~') signature += *c;
  return signature.empty() ? "unknown" : signature;
}

void read_clock(CpuIdentity* id) {
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0x16, &eax, &ebx, &ecx, &edx) && (eax & 0xffff) != 0) {
    id->clock_hz = (eax & 0xffff) * 1e6;
    id->clock_source = "cpuid leaf 0x16 (base)";
  } else if (__get_cpuid(0x15, &eax, &ebx, &ecx, &edx) && eax != 0 && ebx != 0 && ecx != 0) {
    id->clock_hz = static_cast<double>(ecx) * ebx / eax;
    id->clock_source = "cpuid leaf 0x15 (time stamp counter)";
  }
}
#endif

struct FeatureBit {
  absl::string_view name;
  uint64_t word;  // bit 0 is 1 if the processor has the feature
};

// Returns the first of `sets` whose features are all present; "" if there is none. A name without a row is
// never present.
template <size_t kSets, size_t kBits>
std::string widest_set(const absl::string_view (&sets)[kSets], const FeatureBit (&bits)[kBits]) {
  const auto offered = [&](absl::string_view feature) {
    return std::any_of(std::begin(bits), std::end(bits), [&](const FeatureBit& bit) {
      return feature.substr(1) == bit.name && (bit.word & 1) != 0;
    });
  };
  for (const absl::string_view set : sets) {
    const std::vector<absl::string_view> features = absl::StrSplit(set, ',');
    if (std::all_of(features.begin(), features.end(), offered)) return std::string(set);
  }
  return "";
}

struct CpuFeatureBit {
  CpuFeature feature;
  uint64_t word;  // bit 0 is 1 if the processor has the feature
};
template <size_t kBits>
uint32_t set_of(const CpuFeatureBit (&bits)[kBits]) {
  uint32_t set = 0;
  for (const CpuFeatureBit& bit : bits)
    if ((bit.word & 1) != 0) set |= bit.feature;
  return set;
}

constexpr NamedCpuFeature kNamedFeatures[] = {
    {kClwb, "clwb"},
    {kVaes, "vaes"},
    {kAvxVnni, "avxvnni"},
    {kAvxVnniInt8, "avxvnniint8"},
    {kAvx512Vl, "avx512vl"},
    {kAvx512Vbmi2, "avx512vbmi2"},
    {kAvx512Vp2intersect, "avx512vp2intersect"},
    {kAvx512Bf16, "avx512bf16"},
    {kAvx512Fp16, "avx512fp16"},
    {kAmxTile, "amx-tile"},
    {kAmxFp16, "amx-fp16"},
    {kArmBf16Dot, "bf16"},
    {kSve, "sve"},
    {kSve2, "sve2"},
    {kSve2p1, "sve2p1"},
    {kSme, "sme"},
};

}  // namespace

absl::Span<const NamedCpuFeature> named_cpu_features() { return kNamedFeatures; }

std::string cpu_feature_names(uint32_t features) {
  std::vector<absl::string_view> names;
  for (const NamedCpuFeature& row : kNamedFeatures)
    if (features & row.feature) names.push_back(row.name);
  return absl::StrJoin(names, " ");
}

uint32_t cpu_features_from_cpuid(const X86Registers& r) {
  // Intel SDM volume 2A and the Architecture Instruction Set Extensions reference, CPUID leaf 7.
  const CpuFeatureBit bits[] = {
      {kClwb, r.leaf7_ebx >> 24},
      {kAvx512Vl, r.leaf7_ebx >> 31},
      {kAvx512Vbmi2, r.leaf7_ecx >> 6},
      {kVaes, r.leaf7_ecx >> 9},
      {kAvx512Vp2intersect, r.leaf7_edx >> 8},
      {kAvx512Fp16, r.leaf7_edx >> 23},
      {kAmxTile, r.leaf7_edx >> 24},
      {kAvxVnni, r.leaf7_1_eax >> 4},
      {kAvx512Bf16, r.leaf7_1_eax >> 5},
      {kAmxFp16, r.leaf7_1_eax >> 21},
      {kAvxVnniInt8, r.leaf7_1_edx >> 4},
  };
  return set_of(bits);
}

uint32_t cpu_features_from_hwcap(uint64_t hwcap, uint64_t hwcap2) {
  // Linux, arch/arm64/include/uapi/asm/hwcap.h.
  const CpuFeatureBit bits[] = {
      {kSve, hwcap >> 22},  {kSve2, hwcap2 >> 1},    {kArmBf16Dot, hwcap2 >> 14},
      {kSme, hwcap2 >> 23}, {kSve2p1, hwcap2 >> 36},
  };
  return set_of(bits);
}

std::string features_from_cpuid(const X86Registers& r) {
  const auto saved = [&](uint32_t word, int bit, uint64_t needs_state) {
    return (r.xcr0 & needs_state) == needs_state ? uint64_t{word} >> bit : 0;
  };
  // Intel SDM volume 2A, CPUID: leaves 1, 7 and 0x80000001. One row for every name in kX86FeatureSets.
  const FeatureBit bits[] = {
      {"fma", saved(r.leaf1_ecx, 12, kYmm)},
      {"popcnt", saved(r.leaf1_ecx, 23, 0)},
      {"avx", saved(r.leaf1_ecx, 28, kYmm)},
      {"f16c", saved(r.leaf1_ecx, 29, kYmm)},
      {"bmi", saved(r.leaf7_ebx, 3, 0)},
      {"avx2", saved(r.leaf7_ebx, 5, kYmm)},
      {"bmi2", saved(r.leaf7_ebx, 8, 0)},
      {"avxvnni", saved(r.leaf7_1_eax, 4, kYmm)},
      {"avx512f", saved(r.leaf7_ebx, 16, kZmm)},
      {"avx512dq", saved(r.leaf7_ebx, 17, kZmm)},
      {"avx512cd", saved(r.leaf7_ebx, 28, kZmm)},
      {"avx512bw", saved(r.leaf7_ebx, 30, kZmm)},
      {"avx512vl", saved(r.leaf7_ebx, 31, kZmm)},
      {"avx512vnni", saved(r.leaf7_ecx, 11, kZmm)},
      {"avx512bf16", saved(r.leaf7_1_eax, 5, kZmm)},
      {"amx-bf16", saved(r.leaf7_edx, 22, kTiles)},
      {"amx-tile", saved(r.leaf7_edx, 24, kTiles)},
      {"amx-int8", saved(r.leaf7_edx, 25, kTiles)},
      {"lzcnt", saved(r.extended1_ecx, 5, 0)},
  };
  return widest_set(kX86FeatureSets, bits);
}

std::string features_from_hwcap(uint64_t hwcap, uint64_t hwcap2) {
  // Linux, arch/arm64/include/uapi/asm/hwcap.h. One row for every name in kArmFeatureSets.
  const FeatureBit bits[] = {
      {"neon", hwcap >> 1},  {"fullfp16", hwcap >> 10}, {"dotprod", hwcap >> 20}, {"sve", hwcap >> 22},
      {"sve2", hwcap2 >> 1}, {"bf16", hwcap2 >> 14},    {"i8mm", hwcap2 >> 13},
  };
  return widest_set(kArmFeatureSets, bits);
}

CpuIdentity identity_from_midr(uint64_t midr) {
  CpuIdentity id;
  const uint64_t implementer = midr >> 24 & 0xff;
  id.vendor = implementer == 0x41 ? "ARM" : absl::StrCat("implementer 0x", absl::Hex(implementer));
  id.model = static_cast<int32_t>(midr >> 4 & 0xfff);
  id.stepping = static_cast<int32_t>((midr >> 20 & 0xf) << 4 | (midr & 0xf));
  id.name = absl::StrCat(id.vendor, " part 0x", absl::Hex(id.model));
  return id;
}

uint64_t read_midr(const CpuSystem& system) {
  for (const int32_t processor : system.processors) {
    const std::string text =
        read_system_file(system, processor_folder(processor) + "regs/identification/midr_el1");
    if (const uint64_t midr = std::strtoull(text.c_str(), nullptr, 16); midr != 0) return midr;
  }
  return 0;
}

#if defined(__x86_64__)
CpuIdentity identify_cpu(const CpuSystem&) {
  CpuIdentity id;
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx)) {
    char vendor[13] = {};
    std::memcpy(vendor, &ebx, 4);
    std::memcpy(vendor + 4, &edx, 4);
    std::memcpy(vendor + 8, &ecx, 4);
    id.vendor = vendor;
  }
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
    const int32_t family = eax >> 8 & 0xf, model = eax >> 4 & 0xf;
    id.family = family == 0xf ? family + (eax >> 20 & 0xff) : family;
    id.model = family == 0x6 || family == 0xf ? (eax >> 16 & 0xf) << 4 | model : model;
    id.stepping = static_cast<int32_t>(eax & 0xf);
  }
  id.name = brand_string();
  if (id.name.empty()) id.name = absl::StrCat(id.vendor, " family ", id.family, " model ", id.model);
  id.features = cpu_features_from_cpuid(read_x86_registers());
  id.hypervisor = hypervisor_signature();
  read_clock(&id);
  return id;
}

Target host_target() { return {Backend::kCpu, "x86-64", features_from_cpuid(read_x86_registers())}; }

// Linux, Documentation/arch/x86/xstate.rst.
absl::Status acquire_registers(const Target& target) {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (!target.has("amx-tile") || syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0)
    return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cpu: the system refuses this process the registers of AMX: ", std::strerror(errno),
                   errno == ENOSPC ? " (a thread's alternate signal stack is too small for them)" : ""));
}

Target permitted_target() {
  X86Registers registers = read_x86_registers();
  Target target = {Backend::kCpu, "x86-64", features_from_cpuid(registers)};
  if (acquire_registers(target).ok()) return target;
  registers.xcr0 &= ~kTiles;
  return {Backend::kCpu, "x86-64", features_from_cpuid(registers)};
}
#elif defined(__aarch64__)
CpuIdentity identify_cpu(const CpuSystem& system) {
  constexpr uint64_t kReadsIdRegisters = 1u << 11;  // HWCAP_CPUID: Linux emulates reads of the register
  const uint64_t hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
  uint64_t midr = read_midr(system);
  if (midr == 0 && (hwcap & kReadsIdRegisters) != 0) asm("mrs %0, MIDR_EL1" : "=r"(midr));
  CpuIdentity id = identity_from_midr(midr);
  id.features = cpu_features_from_hwcap(hwcap, hwcap2);
  const std::string vendor = read_system_file(system, "/sys/class/dmi/id/sys_vendor");
  id.hypervisor = std::string(absl::StripAsciiWhitespace(vendor));
  if (id.hypervisor.empty()) id.hypervisor = "unknown";
  return id;
}

Target host_target() {
  return {Backend::kCpu, "aarch64", features_from_hwcap(getauxval(AT_HWCAP), getauxval(AT_HWCAP2))};
}
absl::Status acquire_registers(const Target&) { return absl::OkStatus(); }
Target permitted_target() { return host_target(); }
#else
#error "Lathe runs on x86-64 and AArch64"
#endif

}  // namespace lathe
