// The `validate` option: looks up every pointer of a launch in the driver before a kernel can fault on it.
#pragma once

#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// kInvalidArgument names the first operand whose memory is unknown to the driver (a host array) or on another
// device. Managed memory, and host memory that was allocated or registered through the driver, are accepted.
// Costs about a microsecond per pointer. Checks the address only, not the size.
absl::Status check_pointers(const Library& library, Device device, const Launch& launch);

}  // namespace lathe::gpu
