// What this processor's instruction set offers, as far as code generation asks, and which processor it is.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/facts.h"

namespace lathe {

// Identity of an x86-64 processor (cpuid) or an AArch64 one (MIDR).
struct CpuIdentity {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD"; "ARM" (implementer 0x41), else "implementer 0x.."
  int32_t family = 0;  // x86: display family; AArch64: 0
  int32_t model = 0;   // x86: display model; AArch64: part number
  std::string name;    // "Intel(R) Xeon(R) Processor"; "ARM part 0xd40"
};
CpuIdentity identify_cpu();

// The x86 registers that features_from_cpuid reads; plain data so that tests describe processors they do not
// run on.
struct X86Registers {
  uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0;
  uint32_t extended1_ecx = 0;  // leaf 0x80000001
  uint64_t xcr0 = 0;           // what the operating system saves; 0 without OSXSAVE
};
// The widest of kX86FeatureSets that the processor has whole and whose registers the system saves; "" where
// there is none: such a host runs plain x86-64 code.
std::string features_from_cpuid(const X86Registers& r);
// Likewise of kArmFeatureSets, from Linux's AT_HWCAP and AT_HWCAP2.
std::string features_from_hwcap(uint64_t hwcap, uint64_t hwcap2);

// What the processor this process runs on and its system offer.
Target host_target();
// Asks Linux for the registers of the target's instructions that a process has by asking alone: AMX's, for
// all of its threads, which then need alternate signal stacks of 11 KiB at least. Once given they stay.
// kFailedPrecondition, with the system's cause, where it refuses.
absl::Status acquire_registers(const Target& target);
// host_target(), whose registers this process was given; without AMX where they were refused.
Target permitted_target();

}  // namespace lathe
