// Work that needs more stack than a caller's thread may have.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace lathe {

// Runs `work` on a thread of its own with 8 MiB of stack, LLVM's own choice for a thread that compiles, and
// waits for it; what it throws comes out here. The thread takes no signals and has the caller's scheduling
// and execution environment. Costs some tens of microseconds.
//
// Where there is no such thread to be had, `work` runs here if as much of this thread's stack is left.
// Otherwise kResourceExhausted, and it has not run.
absl::Status run_on_own_stack(absl::FunctionRef<void()> work);

}  // namespace lathe
