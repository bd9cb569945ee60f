// The boundary of the C API: turns absl::Status and exceptions into lathe_status, and stores the thread's last error.
#pragma once

#include <exception>
#include <new>

#include "absl/strings/string_view.h"
#include "base/execution_environment.h"
#include "base/status.h"
#include "lathe/lathe.h"
#include "request/c_status.h"

namespace lathe {

// Stores `message` for lathe_last_error() of this thread, and returns `status`. Never throws: if the copy of the
// message cannot be allocated, the name of the status replaces it.
[[gnu::cold]] lathe_status report_failure(lathe_status status, absl::string_view message) noexcept;
[[gnu::cold]] lathe_status report_failure(const absl::Status& status) noexcept;

// Runs `body` in Lathe's execution environment, and turns its absl::Status or its exception into a lathe_status.
template <typename F>
lathe_status at_boundary(F&& body) noexcept {
  const ExecutionEnvironment environment;
  try {
    absl::Status status = body();
    if (__builtin_expect(status.ok(), 1)) return LATHE_OK;
    return report_failure(status);
  } catch (const std::bad_alloc&) {
    return report_failure(LATHE_OUT_OF_MEMORY, "the host is out of memory");
  } catch (const std::exception& e) {
    return report_failure(LATHE_INTERNAL, e.what());
  } catch (...) {
    return report_failure(LATHE_INTERNAL, "an unknown exception reached the C API");
  }
}

}  // namespace lathe
