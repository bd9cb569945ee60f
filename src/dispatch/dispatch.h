// The hot path: a checked request, through the dispatch table, to a launch.
#pragma once

#include "dispatch/device.h"
#include "dispatch/recent_call.h"
#include "request/request.h"

namespace lathe {

// Returns the table's entry or, if the policy allows blocking, makes one. Otherwise returns a miss_error. On
// a stream that is being captured, a miss is a capturing_error for every policy.
absl::StatusOr<const DispatchEntry*> find_or_prepare(lathe_device& device, const Request& request,
                                                     Purpose purpose);

// Serves a request that needs_no_kernel().
absl::Status run_without_kernel(const Request& request);

LaunchConfig launch_config_for(const DispatchEntry& entry, const Request& request);

// For a kernel in another's place, whose size the caller's workspace has: what is too small for this one is
// not used, and the device's own is.
void leave_small_workspace(const lathe_device& device, const DispatchEntry& entry, Request& request);

// Completes the request's arguments for `entry` and launches. `slice` null: the whole launch.
absl::Status launch_request(lathe_device& device, const DispatchEntry& entry, Request& request,
                            const Slice* slice);

// A `recent` call once more, with the pointers of `desc`.
template <typename Desc>
absl::Status run_again(lathe_device& device, RecentCall<Desc>& recent, void* stream, const Desc& desc);

absl::Status run_matmul(lathe_device* device, void* stream, const lathe_matmul_desc* desc);
absl::Status run_argmax(lathe_device* device, void* stream, const lathe_argmax_desc* desc);
absl::Status run_matmul_argmax(lathe_device* device, void* stream, const lathe_matmul_argmax_desc* desc);
absl::Status run_elementwise(lathe_device* device, void* stream, const lathe_elementwise_desc* desc);

}  // namespace lathe
