// Grouped products on the CPU: the products of all groups, run as one launch.
#pragma once

#include "dispatch/device.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// As lathe_grouped_matmul.
absl::Status run_grouped_matmul(lathe_device& device, void* stream, const lathe_grouped_matmul_desc* desc);

}  // namespace lathe
