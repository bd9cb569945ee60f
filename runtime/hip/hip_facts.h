// Facts of a HIP device.
#pragma once

#include "runtime/gpu/library.h"

namespace lathe {

// kUnavailable for a device that this version makes no code for.
absl::StatusOr<DeviceFacts> query_hip_facts(const gpu::Library& library, gpu::Device device);

}  // namespace lathe
