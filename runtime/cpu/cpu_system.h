// Where facts about the machine come from: files below /proc and /sys, and the affinity mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

// Plain data, so that tests describe machines that they do not run on.
struct CpuSystem {
  std::string root;                 // goes before every path; "" for the system's own files
  std::vector<int32_t> processors;  // logical processors in the affinity mask, ascending; never empty
};
// Of the calling thread. A mask that cannot be read is taken for processor 0 alone.
CpuSystem this_system();

// The text of "/sys/..." or "/proc/..."; "" if it cannot be read.
std::string read_system_file(const CpuSystem& system, absl::string_view path);
// "/sys/devices/system/cpu/cpu7/" for processor 7.
std::string processor_folder(int32_t processor);

// Physical cores that the mask's processors are hardware threads of. Where nothing tells (no /sys, and a
// /proc/cpuinfo without core numbers), each processor counts as one.
int32_t count_cores(const CpuSystem& system);

}  // namespace lathe
