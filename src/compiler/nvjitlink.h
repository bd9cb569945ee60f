// libnvJitLink, opened at run time where a machine has it: PTX to a cubin in process, with neither driver nor
// GPU.
//
// It honours no setmaxnreg (advisory C7504), and it compiles for linking: in the SIMT matmul of 64x4096x4096
// bf16, whose index arithmetic calls a division, 145 registers a thread where ptxas takes 95 (both 13.0).
// ptxas is the better one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

struct JitLinked {
  std::string version;  // "13.0"
  std::string cubin;
  std::string log;  // as of `ptxas -v`
};

// kNotFound where there is no library or one of an unknown version; kUnimplemented where it does not know the
// target; kAborted with its words where it takes offence at the PTX. The library stays mapped. Thread-safe; 80 ms
// for a small kernel.
absl::StatusOr<JitLinked> nvjitlink_ptx(const std::string& ptx, absl::string_view arch,
                                        const std::vector<std::string>& library_directories);

}  // namespace lathe
