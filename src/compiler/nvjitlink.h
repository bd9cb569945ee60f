// Assembles PTX to a cubin in process with libnvJitLink, which is opened at run time if it is installed. Needs
// neither a driver nor a GPU.
//
// nvJitLink always compiles relocatable code, as `ptxas -c` does, whatever its options. So its code is worse
// than that of ptxas: it ignores setmaxnreg (C7504), addresses in shared memory are not constants, which costs
// registers, and it estimates no occupancy unless the kernel has .minnctapersm. Prefer ptxas.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

struct JitLinked {
  std::string version;  // "13.0"
  std::string cubin;
  std::string log;  // in the format of `ptxas -v`
};

// kNotFound if the library is absent or has an unknown version; kUnimplemented if it does not support the
// target; kAborted, with its error log, if it refuses the PTX. The library stays mapped. Thread-safe: calls are
// serialised. Takes about 80 ms for a small kernel.
absl::StatusOr<JitLinked> nvjitlink_ptx(const std::string& ptx, absl::string_view arch,
                                        const std::vector<std::string>& nvjitlink_directories);

}  // namespace lathe
