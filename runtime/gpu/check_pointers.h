// The `validate` option: every pointer of a launch looked up in the driver before it can fault.
#pragma once

#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// kInvalidArgument names the first operand that is in memory the driver does not know (a host array) or in
// another device's. Host memory that was allocated or registered through the driver, and managed memory,
// pass. About a microsecond a pointer. Addresses are looked up, not extents.
absl::Status check_pointers(const Library& library, Device device, const Launch& launch);

}  // namespace lathe::gpu
