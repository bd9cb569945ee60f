// The CPU time that the process's control groups (cgroups of Linux, version 1 and 2) grant it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cpu/cpu_system.h"

namespace lathe {

// In CPUs: the least quota of the process's own group and of every group above it that a mounted hierarchy
// shows; infinity where none limits it. Groups and mounts come from /proc/self/cgroup and
// /proc/self/mountinfo; without these, the usual mount points are read. Files that make no sense are ignored.
// Groups above the root of a cgroup namespace cannot be seen unless an older mount shows them.
double cpu_quota(const CpuSystem& system);

// Threads that make use of a quota, rounded up: of 1.5 CPUs one thread would leave a third unused. At least
// 1; INT32_MAX for infinity.
int32_t threads_for(double quota);

// CPUs that the texts grant; infinity when they say nothing.
double parse_cpu_max(const std::string& text);  // version 2: "150000 100000" -> 1.5; "max 100000"
double parse_cfs_quota(const std::string& quota, const std::string& period);  // version 1: "-1" for none

}  // namespace lathe
