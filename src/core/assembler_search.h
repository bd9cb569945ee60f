// Where to look for an assembler that turns PTX into a cubin. The environment is read once, when a context is
// created; the compiler library itself never reads it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/json.h"

namespace lathe {

struct AssemblerSearch {
  // Use only this program, and fail if it does not work. If empty, try `ptxas` in each directory in turn and
  // take the first that supports the target and the PTX version.
  std::string ptxas;
  std::vector<std::string> directories;            // those of PATH, then those of the CUDA toolkits
  std::vector<std::string> nvjitlink_directories;  // searched after the dynamic loader's own directories
  std::vector<std::string> temporary = {"/tmp", "/dev/shm"};  // the first that is writable is used
  double timeout_seconds = 300;                               // per kernel; 0.05 to 1 s is usual
};

Json to_json(const AssemblerSearch& s);
absl::StatusOr<AssemblerSearch> assembler_search_from_json(const Json& j);

}  // namespace lathe
