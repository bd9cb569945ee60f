#include "request/c_status.h"

#include "base/status.h"

namespace lathe {

lathe_status to_c_status(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk: return LATHE_OK;
    case absl::StatusCode::kInvalidArgument: return LATHE_INVALID_ARGUMENT;
    case absl::StatusCode::kUnimplemented: return LATHE_UNSUPPORTED;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown: return LATHE_NOT_AVAILABLE;
    case absl::StatusCode::kResourceExhausted: return LATHE_OUT_OF_MEMORY;
    case absl::StatusCode::kAborted: return LATHE_COMPILE_FAILED;
    case absl::StatusCode::kDeadlineExceeded: return LATHE_TIMEOUT;
    case absl::StatusCode::kCancelled: return LATHE_CANCELLED;
    case kMissCode: return LATHE_MISS;
    case kCapturingCode: return LATHE_CAPTURE_MISS;
    default: return LATHE_INTERNAL;
  }
}

}  // namespace lathe
