#include "base/idle_thread.h"

#include <sched.h>

#include <exception>
#include <system_error>
#include <thread>

#include "base/signals_blocked.h"

namespace lathe {

void run_idly(absl::FunctionRef<void()> work) {
  std::exception_ptr thrown;
  std::thread thread;
  try {
    const SignalsBlocked blocked;
    thread = std::thread([&] {
      const sched_param none = {};
      sched_setscheduler(0, SCHED_IDLE, &none);
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
  } catch (const std::system_error&) {
    return work();
  }
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace lathe
