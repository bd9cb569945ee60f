// The elementwise requests that the command explains, dumps, tunes and warms.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/op_request.h"

namespace lathe::cli {

// An elementwise request. The command does not run it, so it has no batch and no data.
struct ElementwiseRequest : reference::OpRequest {
  int64_t m = 0, n = 0;
  std::string path, text;  // the program's file and its contents
  std::shared_ptr<lathe_program> program;

  std::vector<int64_t> sizes() const { return {m, n}; }
};

}  // namespace lathe::cli
