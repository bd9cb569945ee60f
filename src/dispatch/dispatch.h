// The hot path: a checked request, through the dispatch table, to a launch.
#pragma once

#include "dispatch/device.h"
#include "dispatch/recent_call.h"
#include "request/request.h"

namespace lathe {

// Returns the table's entry. On a miss, the policy decides: make the entry now, run on a generic kernel, or fail
// with a miss_error. While the stream is being captured, a miss is a capturing_error under every policy.
absl::StatusOr<const DispatchEntry*> find_or_prepare(lathe_device& device, const Request& request,
                                                     Purpose purpose);

// Serves a request for which needs_no_kernel() is true.
absl::Status run_without_kernel(const Request& request);

LaunchConfig launch_config_for(const DispatchEntry& entry, const Request& request);

// Use this if the entry's kernel replaces the one for which the caller sized the workspace. If the workspace is
// too small for it, the launch uses the device's own.
void leave_small_workspace(const lathe_device& device, const DispatchEntry& entry, Request& request);

// Sets the arguments that depend on `entry` and launches. `slice` null: the whole launch.
absl::Status launch_request(lathe_device& device, const DispatchEntry& entry, Request& request,
                            const Slice* slice);

// Repeats the `recent` call with the pointers of `desc`.
template <typename Desc>
absl::Status run_again(lathe_device& device, RecentCall<Desc>& recent, void* stream, const Desc& desc);

// Runs an op once: lathe_matmul() and so on. `Desc` is the op's descriptor.
template <typename Desc>
absl::Status run_op(lathe_device& device, void* stream, const Desc* desc);

}  // namespace lathe
