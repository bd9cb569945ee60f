// What assemblers of PTX (`ptxas -v`, nvJitLink's -verbose, the CUDA driver's linker) say of the kernels they
// assemble, and which of them a kernel is for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

// What an artifact's metadata calls its "assembler" where the code is PTX.
inline constexpr char kNoAssembler[] = "none: the driver assembles the PTX";
inline constexpr char kAssembledByLoader[] =
    "none: the driver assembles the PTX when it loads it, since linkers ignore setmaxnreg";

// Whether PTX is to be assembled by ptxas or by the driver when it loads it, as a whole program. nvJitLink
// and the driver's linker compile for linking, as `ptxas -c` does, and so ignore setmaxnreg (C7504): what was
// meant to have 232 registers spills in 168.
bool is_worse_linked(absl::string_view ptx);

struct KernelResources {
  int64_t registers = 0;     // a thread's
  int64_t shared_bytes = 0;  // static
  int64_t stack_bytes = 0;   // a thread's
  int64_t spill_bytes = 0;   // stores and loads together
};

struct AssemblerLog {
  std::map<std::string, KernelResources> kernels;  // by symbol
  // Whatever costs speed or may: warnings, advisories with a C number (setmaxnreg ignored, wgmma serialised),
  // and a line for each kernel that spills. Empty for a kernel that came out as meant.
  std::vector<std::string> messages;
};

// Lines of unknown form are passed over.
AssemblerLog parse_assembler_log(absl::string_view text);

}  // namespace lathe
