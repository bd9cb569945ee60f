// What a matmul has beyond the functions of every op (ops.h).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "reference/matmul.h"

namespace lathe::cli {

// The flags of a matmul request, followed by `more`.
std::vector<Flag> matmul_flags(const std::vector<Flag>& more);
// Reads a request from the flags. m, n and k stay 0.
absl::StatusOr<reference::MatmulRequest> matmul_weight_request(const Arguments& arguments);

}  // namespace lathe::cli
