// Keeps a worker off the processor on which the caller whose step it shares runs.
//
// A scheduler may wake a worker where its waker runs and leave both there for many milliseconds, while
// another processor idles (512 x 17 x 8191 on two processors: 1.65 ms a call, 0.9 where the worker was
// elsewhere).
#pragma once

#include <sched.h>

namespace lathe {

// Of one thread, to be used by it alone.
class CallerAvoidance {
 public:
  // Moves the calling thread to another of its processors if it runs on `processor` (sched_getcpu()'s; < 0:
  // unknown). Its affinity lacks that one from then on, until it is met on another. Another affinity
  // that somebody else gave the thread in between counts as a new one, and is left as it is where it has no
  // other processor. Costs a few nanoseconds, or three system calls where the thread moves.
  void leave(int processor);

 private:
  cpu_set_t allowed_ = {};  // as others gave it
  cpu_set_t without_ = {};  // the same but for the processor that was left
};

}  // namespace lathe
