// The facts of the processor this process runs on, each with its source. Nothing is measured: ranks on equal
// machines get equal facts.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/facts.h"

namespace lathe {

// A few hundred microseconds (system files); call once and keep.
DeviceFacts query_cpu_facts();
// The same, code being for a named target ("x86-64-avx2"). kInvalidArgument for one that is unknown or asks
// for what this processor lacks, which is named.
absl::StatusOr<DeviceFacts> query_cpu_facts_as(absl::string_view target);

// Logical processors in this process's affinity mask.
int32_t allowed_processors();
// Physical cores among them.
int32_t allowed_cores();
// Worker slots when the caller names none: the allowed cores, or fewer where a cgroup's CPU quota grants
// fewer (more threads than the quota would be stopped for the rest of each period).
int32_t default_workers();

// Parsers of the system's texts; -1 when the text says nothing.
int64_t parse_cache_size(const std::string& text);    // "48K\n" -> 49152
double parse_brand_hertz(const std::string& brand);   // "... CPU @ 2.20GHz" -> 2.2e9
int32_t parse_cpu_quota(const std::string& cpu_max);  // cgroup v2 "150000 100000" -> 2; "max 100000" -> -1

}  // namespace lathe
