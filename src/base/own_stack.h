// Runs work that needs more stack than the caller's thread may have.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace lathe {

// Runs `work` on a thread of its own with 8 MiB of stack, LLVM's own choice for a thread that compiles, and
// waits for it. Rethrows what `work` throws. The thread takes no signals and has the caller's scheduling
// and execution environment. Costs some tens of microseconds.
//
// If the thread cannot be started, `work` runs on the calling thread, provided that three quarters of 8 MiB
// are left on its stack. Otherwise the result is kResourceExhausted, and `work` did not run.
absl::Status run_on_own_stack(absl::FunctionRef<void()> work);

}  // namespace lathe
