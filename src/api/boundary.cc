#include "api/boundary.h"

#include <string>

#include "base/thread_owned.h"
#include "options/raw_enum.h"

namespace lathe {
namespace {

// The text that lathe_last_error() returns: this thread's message, or the name of the status if the message could not
// be stored.
thread_local const char* last_error = "";

}  // namespace

lathe_status report_failure(lathe_status status, absl::string_view message) noexcept {
  try {
    std::string* const stored = of_this_thread<std::string>();
    if (stored == nullptr) throw std::bad_alloc();
    stored->assign(message.data(), message.size());
    last_error = stored->c_str();
  } catch (...) {
    last_error = lathe_status_name(status);
  }
  return status;
}

lathe_status report_failure(const absl::Status& status) noexcept {
  return report_failure(to_c_status(status.code()), status.message());
}

}  // namespace lathe

extern "C" {

const char* lathe_status_name(lathe_status status) {
  switch (lathe::raw(status)) {
    case LATHE_OK: return "OK";
    case LATHE_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case LATHE_UNSUPPORTED: return "UNSUPPORTED";
    case LATHE_NOT_AVAILABLE: return "NOT_AVAILABLE";
    case LATHE_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case LATHE_COMPILE_FAILED: return "COMPILE_FAILED";
    case LATHE_MISS: return "MISS";
    case LATHE_CAPTURE_MISS: return "CAPTURE_MISS";
    case LATHE_TIMEOUT: return "TIMEOUT";
    case LATHE_CANCELLED: return "CANCELLED";
    case LATHE_INTERNAL: return "INTERNAL";
  }
  return "UNKNOWN_STATUS";
}

const char* lathe_last_error(void) { return lathe::last_error; }

#define LATHE_STRING_INNER(x) #x
#define LATHE_STRING(x) LATHE_STRING_INNER(x)
const char* lathe_version(void) {
  return LATHE_STRING(LATHE_VERSION_MAJOR) "." LATHE_STRING(LATHE_VERSION_MINOR) "." LATHE_STRING(
      LATHE_VERSION_PATCH);
}

}  // extern "C"
