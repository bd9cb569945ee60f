// Keeps a worker off the processor of the caller whose step it shares. A scheduler may wake a worker on its
// waker's processor and leave both there for many milliseconds while another processor is idle
// (docs/cpu-speed.md, Threads).
#pragma once

#include <sched.h>

namespace lathe {

// For one thread, and used by that thread only.
class CallerAvoidance {
 public:
  // Moves the calling thread to another of its processors if it runs on `processor` (from sched_getcpu(); < 0
  // if unknown). The thread's affinity then lacks that processor until the next move. If somebody else
  // changes the thread's affinity in between, the new one is the base of the next move. Does nothing if there
  // is no other processor. Costs a few nanoseconds, or three system calls if the thread moves.
  void leave(int processor);

 private:
  cpu_set_t allowed_ = {};  // the affinity that others gave the thread
  cpu_set_t without_ = {};  // the same without the processor that was left
};

}  // namespace lathe
