#include "base/own_thread.h"

#include <unistd.h>

#include <exception>
#include <new>

#include "base/execution_environment.h"
#include "base/signals_blocked.h"

namespace lathe {

bool OwnThread::is_of_parent() const {
  const pid_t pid = pid_.load(std::memory_order_relaxed);
  return pid != 0 && pid != getpid();
}

bool OwnThread::start(const std::function<void()>& work) {
  if (thread_.joinable()) return true;
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([work] {
      ExecutionEnvironment::enter_for_good();
      work();
    });
  } catch (const std::exception&) {
    // None, or no memory for one.
  }
  pid_.store(getpid(), std::memory_order_relaxed);
  return thread_.joinable();
}

void OwnThread::end() {
  if (is_of_parent()) {
    // A thread that is not there can be neither joined nor destroyed, and the end of a condition variable
    // that it waited on would wait for it: another takes its place.
    if (thread_.joinable()) new std::thread(std::move(thread_));
    new (&changed) std::condition_variable;
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stops = true;
  }
  changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace lathe
