// Where facts about the machine come from: files below /proc and /sys, and the affinity mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

// Plain data, so that tests can describe other machines.
struct CpuSystem {
  std::string root;                 // prefix of every path; "": the files of this system
  std::vector<int32_t> processors;  // logical processors in the affinity mask, ascending; never empty
};
// This system, with the affinity mask of the calling thread. If the mask cannot be read, it has only
// processor 0.
CpuSystem this_system();

// Returns the text of a file below /sys or /proc; "" if it cannot be read.
std::string read_system_file(const CpuSystem& system, absl::string_view path);
// "/sys/devices/system/cpu/cpu7/" for processor 7.
std::string processor_folder(int32_t processor);

// Counts the physical cores in the mask. If the system does not report cores (no /sys, and a /proc/cpuinfo
// without core numbers), each processor counts as one.
int32_t count_cores(const CpuSystem& system);

}  // namespace lathe
