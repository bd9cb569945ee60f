// Where programs that turn PTX into a cubin may be. The caller's environment said so once, in context
// creation; the compiler library reads none itself.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/json.h"

namespace lathe {

struct AssemblerSearch {
  // This program alone, and an error if it is of no use; "": every `ptxas` of the directories is tried in
  // turn, the first that knows the target and the PTX's version is taken.
  std::string ptxas;
  std::vector<std::string> directories;            // PATH's, then those of the toolkits
  std::vector<std::string> nvjitlink_directories;  // of its library, after those that the loader knows
  std::vector<std::string> temporary = {"/tmp", "/dev/shm"};  // the first that takes its files has them
  double timeout_seconds = 300;                               // for one kernel; 0.05 to 1 s is usual
};

Json to_json(const AssemblerSearch& s);
absl::StatusOr<AssemblerSearch> assembler_search_from_json(const Json& j);

}  // namespace lathe
