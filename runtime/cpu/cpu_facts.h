// The facts of the processor that this process runs on, each with its source, and its identity. Nothing is measured
// here, so ranks on equal machines get equal facts.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/calibration.h"
#include "core/facts.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/cpu_system.h"

namespace lathe {

// Costs a few hundred microseconds (it reads system files); call it once and keep the result.
DeviceFacts query_cpu_facts();
// The same for code that targets a named target ("x86-64-avx2"). kInvalidArgument: the target is unknown, or
// the processor lacks a feature, which the message names.
absl::StatusOr<DeviceFacts> query_cpu_facts_as(absl::string_view target);

// The facts of the processor `id` in `system`. If its cores differ, the facts are those of the first allowed
// one. If the system reports no cache sizes, they come from the C library, which only knows the processor
// that this process runs on.
DeviceFacts cpu_facts(const CpuSystem& system, const CpuIdentity& id, const Target& target);

// The identity under which measured facts of this machine are stored. `facts`: from cpu_facts.
MachineIdentity machine_identity(const CpuSystem& system, const CpuIdentity& id, const DeviceFacts& facts);
MachineIdentity query_machine_identity(
    const DeviceFacts& facts);  // of the processor that this process runs on

// How many threads can run at once: the logical processors of the affinity mask, or fewer if a cgroup's CPU
// quota allows fewer (threads_for in cpu_quota.h).
int32_t allowed_processors(const CpuSystem& system = this_system());
// The default number of workers: the physical cores of the mask, or fewer if a quota allows fewer. More
// threads would use up the quota early and be stopped for the rest of each period.
int32_t default_workers(const CpuSystem& system = this_system());

// Parsers of system texts; -1 if the text has no value.
int64_t parse_cache_size(const std::string& text);   // "48K\n" -> 49152
double parse_brand_hertz(const std::string& brand);  // "... CPU @ 2.20GHz" -> 2.2e9

}  // namespace lathe
