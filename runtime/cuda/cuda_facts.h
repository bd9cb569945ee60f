// What is known of a CUDA device: its driver's attributes, and by architecture what the driver does not tell.
#pragma once

#include "runtime/gpu/library.h"

namespace lathe {

// Each fact with its source. Facts of which the driver knows nothing (a memory clock of 0 under some
// hypervisors) are absent. kUnavailable for a device older than compute capability 7.5. The name is the
// caller's to fill in.
absl::StatusOr<DeviceFacts> query_cuda_facts(const gpu::Library& library, gpu::Device device);

}  // namespace lathe
