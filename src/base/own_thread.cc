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
    // The system has no thread or no memory for one; joinable() is false below.
  }
  pid_.store(getpid(), std::memory_order_relaxed);
  return thread_.joinable();
}

void OwnThread::end() {
  if (is_of_parent()) {
    // The thread does not exist in this process, so it cannot be joined or destroyed, and destroying the
    // condition variable would wait for it. Leak the first and replace the second.
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
