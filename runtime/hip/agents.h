// What the HSA runtime below HIP knows of a device: its instruction set with its modes, and compute units.
//
// HIP itself tells the former in hipDeviceProp_t alone, whose layout changed with 6.0; HSA's functions and
// numbers are those of a standard and of AMD's extension, the same since ROCm 1. HIP's library depends on
// HSA's, so that the functions are found through it, and its answers are of the same process: an xnack mode
// that the environment (HSA_XNACK) changes is seen.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/gpu/library.h"

namespace lathe {

// Where a device sits, as both HIP and HSA tell it.
struct PciAddress {
  uint32_t domain = 0, bus = 0, device = 0;
};

struct Agent {
  std::string isa;             // "gfx942:sramecc+:xnack-", as the loader compares it with a code object's
  uint32_t compute_units = 0;  // HIP counts workgroup processors, two units each, on RDNA
  uint32_t waves_per_unit = 0;
  uint32_t wave_size = 0;
};

// The GPU at that place; a partitioned one has several agents there, alike in all of this. kUnavailable names
// the cause.
absl::StatusOr<Agent> find_agent(const gpu::Library& library, const PciAddress& at);

}  // namespace lathe
