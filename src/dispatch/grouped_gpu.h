// Grouped products on GPUs: one launch with all groups. The routing stays on the device.
#pragma once

#include "dispatch/device.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// Runs a request that was read for Purpose::kRun. With the context option `validate`, and unless the stream is being
// captured, the routing is copied to the host and checked first, which waits for the stream.
absl::Status run_grouped_on_gpu(lathe_device& device, void* stream, GroupedRequest& request);

}  // namespace lathe
