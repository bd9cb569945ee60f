// Timing beside libraries whose threads run on after a call.
#pragma once

namespace lathe {

// Threads of a library that was called before may spin for a while, on the cores of what is timed next
// (OpenBLAS' for 2^26 cycles, OpenMP's for milliseconds).
class SpinningThreads {
 public:
  // Waits until no thread of this process but the caller runs or wants a core: at most 0.2 s, and where that
  // was not enough once, threads are at work and not waited for again. Answers the seconds waited.
  double wait();

 private:
  bool work_on_ = false;
};

}  // namespace lathe
