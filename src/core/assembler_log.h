// Reads the log of a PTX assembler: `ptxas -v`, nvJitLink with -verbose, or the CUDA driver's linker. Also
// says which assemblers are unsuitable for a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

// Values of "assembler" in an artifact's metadata if the code is PTX.
inline constexpr char kNoAssembler[] = "none: the driver assembles the PTX";
inline constexpr char kAssembledByLoader[] =
    "none: the driver assembles the PTX when it loads it, since linkers ignore setmaxnreg";

// Whether this PTX must be assembled as a whole program, by ptxas or by the driver at load time. nvJitLink
// and the driver's linker produce relocatable code, as `ptxas -c` does. They ignore setmaxnreg (advisory
// C7504), so warps that expect more registers spill.
bool is_worse_linked(absl::string_view ptx);

struct KernelResources {
  int64_t registers = 0;     // per thread
  int64_t shared_bytes = 0;  // static shared memory
  int64_t stack_bytes = 0;   // per thread
  int64_t spill_bytes = 0;   // sum of stores and loads
};

struct AssemblerLog {
  std::map<std::string, KernelResources> kernels;  // by symbol
  // Possible performance problems: warnings, advisories with a C number (setmaxnreg ignored, wgmma
  // serialised), and one line per kernel that spills. Empty if there are none.
  std::vector<std::string> messages;
};

// Ignores lines that it does not recognise.
AssemblerLog parse_assembler_log(absl::string_view text);

}  // namespace lathe
