// Waits for threads of other libraries that spin after a call, so that they do not disturb a measurement.
#pragma once

namespace lathe {

// After a call, threads of OpenBLAS or OpenMP spin for some milliseconds on the cores that the next
// measurement needs.
class SpinningThreads {
 public:
  // Waits until no thread of this process except the caller runs or waits for a core, but at most 0.2 s. If
  // 0.2 s were not enough once, the threads do real work, and later calls do not wait. Returns the seconds
  // waited.
  double wait();

 private:
  bool work_on_ = false;
};

}  // namespace lathe
