// The facts of a HIP device.
#pragma once

#include "runtime/gpu/library.h"

namespace lathe {

// kUnavailable: this version of Lathe has no kernels for the device.
absl::StatusOr<DeviceFacts> query_hip_facts(const gpu::Library& library, gpu::Device device);

}  // namespace lathe
