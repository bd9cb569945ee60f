#include "base/spinning_threads.h"

#include <time.h>

#include <chrono>
#include <thread>

namespace lathe {
namespace {

double process_seconds() {  // of all cores
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double SpinningThreads::wait() {
  constexpr double kStepSeconds = 5e-4, kIdleSeconds = 1e-4, kMostSeconds = 0.2;
  double waited = 0;
  for (bool idle = work_on_; !idle && !work_on_; work_on_ = waited > kMostSeconds) {
    const double used = process_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(kStepSeconds));
    waited += kStepSeconds;
    idle = process_seconds() - used < kIdleSeconds;
  }
  return waited;
}

}  // namespace lathe
