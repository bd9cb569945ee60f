// Grouped products on GPUs: one launch with all groups. The routing stays on the device.
#pragma once

#include "core/manifest.h"
#include "dispatch/device.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// Runs a request that was read for Purpose::kRun. With the context option `validate`, and unless the stream is being
// captured, the routing is copied to the host and checked first, which waits for the stream.
absl::Status run_grouped_on_gpu(lathe_device& device, void* stream, GroupedRequest& request);

// Bytes for `columns` of f32 of each slot, in which a launch keeps u until it has the gate.
size_t kept_bytes(int64_t slots, int64_t columns);
// What a manifest says about a request that was read for Purpose::kWarm.
GroupedSizes sizes_of(const GroupedRequest& request);

}  // namespace lathe
