// The features of this processor's instruction set that code generation uses, and the processor's identity.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/facts.h"
#include "runtime/cpu/cpu_system.h"

namespace lathe {

// Features that distinguish microarchitectures (machine_table.h), as bits of a set. Unlike the features of a
// target, they do not depend on the registers that the system saves or that the process requests.
enum CpuFeature : uint32_t {
  kClwb = 1u << 0,
  kVaes = 1u << 1,
  kAvxVnni = 1u << 2,
  kAvxVnniInt8 = 1u << 3,
  kAvx512Vl = 1u << 4,
  kAvx512Vbmi2 = 1u << 5,
  kAvx512Vp2intersect = 1u << 6,
  kAvx512Bf16 = 1u << 7,
  kAvx512Fp16 = 1u << 8,
  kAmxTile = 1u << 9,
  kAmxFp16 = 1u << 10,
  kArmBf16Dot = 1u << 11,
  kSve = 1u << 12,
  kSve2 = 1u << 13,
  kSve2p1 = 1u << 14,
  kSme = 1u << 15,
};
struct NamedCpuFeature {
  CpuFeature feature;
  absl::string_view name;  // as LLVM names it
};
absl::Span<const NamedCpuFeature> named_cpu_features();
// The names of the features in a set, in the order of the table: "amx-tile avx512fp16".
std::string cpu_feature_names(uint32_t features);

// Identity of an x86-64 processor (cpuid) or an AArch64 one (MIDR).
struct CpuIdentity {
  std::string vendor;     // "GenuineIntel", "AuthenticAMD"; "ARM" (implementer 0x41), else "implementer 0x.."
  int32_t family = 0;     // x86: display family; AArch64: 0
  int32_t model = 0;      // x86: display model; AArch64: part number
  std::string name;       // "Intel(R) Xeon(R) Processor"; "ARM part 0xd40"
  uint32_t features = 0;  // a set of CpuFeature
  double clock_hz = 0;    // from cpuid; 0: cpuid does not report it
  std::string clock_source;  // the cpuid leaf
  int32_t stepping = 0;      // AArch64: variant * 16 + revision
  // x86: the signature of cpuid leaf 0x40000000, "none" without a hypervisor. AArch64, which has no such register:
  // the vendor in the system's DMI tables, "unknown" without these.
  std::string hypervisor = "none";
};
// Reads the MIDR of an AArch64 processor from `system`.
CpuIdentity identify_cpu(const CpuSystem& system);
// For AArch64: MIDR_EL1 has the implementer in bits 31..24, the variant in bits 23..20, the part number in bits
// 15..4 and the revision in bits 3..0.
CpuIdentity identity_from_midr(uint64_t midr);
// MIDR_EL1 of the first processor in `system` whose value can be read; 0 if there is none.
uint64_t read_midr(const CpuSystem& system);

// The x86 registers that features_from_cpuid reads. Plain data, so that tests can describe other processors.
struct X86Registers {
  uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0, leaf7_1_edx = 0;
  uint32_t extended1_ecx = 0;  // leaf 0x80000001
  uint64_t xcr0 = 0;           // what the operating system saves; 0 without OSXSAVE
};
// The widest of kX86FeatureSets that the processor fully has and whose registers the system saves; "" if
// there is none, and the host then runs plain x86-64 code.
std::string features_from_cpuid(const X86Registers& r);
// The same for kArmFeatureSets, from Linux's AT_HWCAP and AT_HWCAP2.
std::string features_from_hwcap(uint64_t hwcap, uint64_t hwcap2);
// The CpuFeature set, from the same inputs.
uint32_t cpu_features_from_cpuid(const X86Registers& r);
uint32_t cpu_features_from_hwcap(uint64_t hwcap, uint64_t hwcap2);

// The target that this processor and its system support.
Target host_target();
// Requests the registers that Linux gives a process only on request: those of AMX, if the target has it. The
// request holds for all threads and cannot be undone; each thread's alternate signal stack then needs at
// least 11 KiB. kUnavailable, with the system's error, if Linux refuses.
absl::Status acquire_registers(const Target& target);
// host_target() after acquire_registers; without AMX if the registers were refused.
Target permitted_target();

}  // namespace lathe
