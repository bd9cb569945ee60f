// Maps Abseil's status codes to those of the C API.
#pragma once

#include "absl/status/status.h"
#include "lathe/types.h"

namespace lathe {

lathe_status to_c_status(absl::StatusCode code);

}  // namespace lathe
