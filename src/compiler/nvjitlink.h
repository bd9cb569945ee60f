// libnvJitLink, opened at run time where a machine has it: PTX to a cubin in process, with neither driver nor
// GPU.
//
// It compiles for linking, whatever it is told: its registers, spills and advisories are those of `ptxas -c`,
// kernel for kernel (13.0, with -O3, without, with -split-compile, -Xptxas=-ewp, -no-cache). So it honours no
// setmaxnreg (C7504: 158 registers for 128x256 of wgmma, where ptxas launches with 168 and moves them to the
// consumers); places in shared memory are not constants yet (190 for 178 in the staged mma 16x128x64); and it
// does not reckon by itself how many workgroups fit a unit, so a kernel must say so with .minnctapersm (the
// merge of splits: 94 for 32 without, the same with it). ptxas is the better one.
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
// target; kAborted with its words where it takes offence at the PTX. The library stays mapped. Thread-safe;
// 80 ms for a small kernel.
absl::StatusOr<JitLinked> nvjitlink_ptx(const std::string& ptx, absl::string_view arch,
                                        const std::vector<std::string>& nvjitlink_directories);

}  // namespace lathe
