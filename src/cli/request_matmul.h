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
// If `r` has a packed B: changes the descriptor of an unpacked B to one of the packed B. *bytes is the packed size.
lathe_status describe_packed(lathe_device* device, const reference::MatmulRequest& r, lathe_matmul_desc* desc,
                             size_t* bytes);
// Makes `b` describe `matrices` packed weights of `bytes` in all.
void describe_packed_weight(uint32_t layout, size_t bytes, int64_t matrices, lathe_operand* b);

}  // namespace lathe::cli
