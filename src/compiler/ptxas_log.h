// What `ptxas -v` and nvJitLink's -verbose say of the kernels they assemble.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lathe {

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
