// Grouped products. On the CPU the products of all groups run as one launch.
#pragma once

#include "dispatch/device.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// As lathe_grouped_matmul.
absl::Status run_grouped_matmul(lathe_device& device, void* stream, const lathe_grouped_matmul_desc* desc);
// Reads the request that lathe_plan_grouped_matmul plans.
absl::Status read_planned_group(const lathe_device& device, const lathe_grouped_matmul_desc* desc,
                                Request* out);

}  // namespace lathe
