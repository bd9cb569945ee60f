// Runs work at idle priority, so that it does not slow the host's threads.
#pragma once

#include "absl/functional/function_ref.h"

namespace lathe {

// Runs `work` on a new thread and waits for it. Rethrows what `work` throws. The thread has Linux's
// SCHED_IDLE: it takes almost nothing from a core that others keep busy, and a thread that wakes interrupts
// it at once (at nice 19 the host's slowest calls get slower). It must be a new thread, because a thread
// cannot leave this policy again and its children inherit it.
//
// If the system refuses the policy, the thread has the caller's priority. If no thread can be started, `work`
// runs on the calling thread.
void run_idly(absl::FunctionRef<void()> work);

}  // namespace lathe
