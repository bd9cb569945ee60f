// Properties of processors that neither an instruction nor a system file reports: one row per
// microarchitecture.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "core/cpu_costs.h"
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
  // All CpuFeatures that a processor of these models can have. If it reports any other, its hypervisor
  // reports a false model. A missing feature proves nothing, because hypervisors hide features.
  uint32_t features;
  // Fused multiply-adds of full vectors that one core can start per cycle: with 512-bit vectors, and with the
  // next narrower ones (256-bit; 128-bit on AArch64).
  int32_t fma_units_512, fma_units;
  double memory_bytes_per_second;  // one socket, all channels at the platform's rated speed
  const char* memory_source;
  // What one core can read from memory. It is limited by the cache lines in flight over the latency, far
  // below the socket's rate. An estimate for the class of processor.
  double core_bytes_per_second;
  // The clock that all cores sustain, for systems that report none (virtual machines of AMD and Arm
  // processors).
  double clock_hz;
  // The rate that loops over memory are throttled to: a faster loop requests more cache lines than can be in
  // flight and becomes slower (`pace` in DotConfig). 0: not measured; loops are not throttled.
  double pace_bytes_per_second = 0;
  // What one core reads with software prefetch. A prefetched line occupies an L1 fill buffer for the whole
  // memory latency; the hardware prefetchers do not need one. 0: not measured; taken as
  // core_bytes_per_second.
  double ahead_bytes_per_second = 0;
  // What one core reads from a single stream, which hardware prefetchers follow only a limited distance. 0:
  // taken as ahead_bytes_per_second.
  double stream_bytes_per_second = 0;
  // The coefficients of the cost model (core/cpu_costs.h).
  absl::string_view costs = kDefaultCosts;
  // Whether software prefetches should bring lines into L1. Measured on Zen 5 EPYC only.
  bool prefetch_into_l1 = false;
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

// All rows, for tests.
absl::Span<const MachineRow> machine_rows();

}  // namespace lathe
