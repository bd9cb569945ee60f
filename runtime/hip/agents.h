// What the HSA runtime below HIP reports about a device: its instruction set with its modes, and compute
// units.
//
// HIP reports the instruction set only in hipDeviceProp_t, whose layout changed with 6.0. HSA's functions and
// numbers are a standard plus AMD's extension, unchanged since ROCm 1. HIP's library depends on HSA's, so the
// functions are found through it and run in the same process. They therefore see an xnack mode that the
// environment (HSA_XNACK) changes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/gpu/library.h"

namespace lathe {

// A device's PCI address, which both HIP and HSA report.
struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0;
};

struct Agent {
  std::string isa;             // "gfx942:sramecc+:xnack-", as the loader compares it with a code object
  uint32_t compute_units = 0;  // on RDNA, HIP counts workgroup processors of two units
  uint32_t waves_per_unit = 0;
  uint32_t wave_size = 0;
};

// Finds the GPU at that address. A partitioned GPU has several agents there, which are equal in these values.
// kUnavailable: not found; the message has the cause.
absl::StatusOr<Agent> find_agent(const gpu::Library& library, const PciAddress& at);

}  // namespace lathe
