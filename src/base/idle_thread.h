// Work that runs where nothing else wants the core.
#pragma once

#include "absl/functional/function_ref.h"

namespace lathe {

// Runs `work` on a thread of its own and waits for it; what it throws comes out here. The thread has Linux's
// SCHED_IDLE: beside threads that keep a core busy it takes 0.3 % of it (nice 19 takes 1.4 %, which the 99th
// percentile of their calls shows), and one of them that wakes interrupts it at once. A thread of its own
// because none can leave that policy again, and what it starts inherits it. Where the policy is refused it
// has the caller's priority; where there is no thread to be had, so has the work.
void run_idly(absl::FunctionRef<void()> work);

}  // namespace lathe
