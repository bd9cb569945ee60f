// The CPU quota of the process's Linux control groups (cgroups, versions 1 and 2).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cpu/cpu_system.h"

namespace lathe {

// The smallest quota, in CPUs, of the process's group and of the groups above it; infinity if none has a
// quota. Groups and mounts come from /proc/self/cgroup and /proc/self/mountinfo; without these, the usual
// mount points are read. Malformed files are ignored. Groups above the root of a cgroup namespace are visible
// only through a mount that is older than the namespace.
double cpu_quota(const CpuSystem& system);

// How many threads a quota can keep busy, rounded up: with 1.5 CPUs, one thread would leave a third unused.
// At least 1; INT32_MAX for infinity.
int32_t threads_for(double quota);

// The quota in a cgroup file, in CPUs; infinity if the text has none.
double parse_cpu_max(const std::string& text);  // version 2: "150000 100000" -> 1.5; "max 100000"
double parse_cfs_quota(const std::string& quota, const std::string& period);  // version 1: "-1" means none

}  // namespace lathe
