// Numbers that no instruction and no file of the system tells, by processor: one row a microarchitecture.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "runtime/cpu/cpu_features.h"

namespace lathe {

struct ModelRange {
  int32_t first = 0, last = -1;  // both inclusive; empty by default
};

struct MachineRow {
  const char* vendor;
  int32_t family;
  ModelRange models[2];
  const char* name;
  // All CpuFeatures that a processor of these models can have. If it has any other feature, its hypervisor
  // reports a false model. Missing features prove nothing: hypervisors hide them.
  uint32_t features;
  // Fused multiply-adds of the kernels' widest vectors that one core starts in a cycle: with 512-bit vectors,
  // and with the next narrower (256-bit; 128-bit on AArch64).
  int32_t fma_units_512, fma_units;
  double memory_bytes_per_second;  // one socket, all channels at the platform's rated speed
  const char* memory_source;
  // What one core reads from memory: bounded by the lines it can have in flight over the latency, so far
  // below the socket's share. An estimate for the class of processor, not a rated number.
  double core_bytes_per_second;
  // What the class holds on all cores, for systems that name no clock (virtual machines of AMD and Arm
  // processors).
  double clock_hz;
  // What a core's loop over memory is held to: one that could go faster than memory asks for more lines than
  // can be under way and gets fewer (kernels/matmul/cpu/shape.h). 0: nobody measured it, and loops are not
  // held.
  double pace_bytes_per_second = 0;
  // What a core reads where it fetches ahead, by instructions, in the rows that it reads: each line holds one
  // of L1's few buffers for as long as memory takes, which the core's own prefetchers do not. 0: nobody
  // measured it, and it is taken for no less.
  double ahead_bytes_per_second = 0;
  // What a core reads of one stream, for which its prefetchers look only so far ahead. 0: as ahead.
  double stream_bytes_per_second = 0;
};

// How a processor's row was found.
enum class MachineMatch {
  kModel,          // by vendor, family and model
  kFeatures,       // by features, because no row has its model
  kOtherFeatures,  // by features, because the row of its model cannot have all of them
  kDefault,        // neither the model nor the features are known
};
struct Machine {
  const MachineRow* row;  // for kDefault, a row with vendor ""
  MachineMatch match;
  std::string text;  // "Emerald Rapids, by its model (family 0x6, model 0xcf)"
};
Machine find_machine(const CpuIdentity& id);

// For tests.
absl::Span<const MachineRow> machine_rows();

}  // namespace lathe
