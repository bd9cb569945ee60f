// The facts of a CUDA device: its driver's attributes, and a table for what the driver does not report.
#pragma once

#include "runtime/gpu/library.h"

namespace lathe {

// Returns each fact with its source. Facts that the driver does not know (such as a memory clock of 0 under
// some hypervisors) are absent. The caller must fill in the name. kUnavailable: the compute capability is
// below 7.5.
absl::StatusOr<DeviceFacts> query_cuda_facts(const gpu::Library& library, gpu::Device device);

}  // namespace lathe
