// The C API's status for each of Abseil's status codes.
#pragma once

#include "absl/status/status.h"
#include "lathe/types.h"

namespace lathe {

lathe_status to_c_status(absl::StatusCode code);

}  // namespace lathe
