#include "base/own_stack.h"

#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "base/execution_environment.h"
#include "base/signals_blocked.h"

namespace lathe {
namespace {

constexpr size_t kStackBytes = size_t{8} << 20;

struct Call {
  absl::FunctionRef<void()> work;
  std::exception_ptr thrown;
};

void* run(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  ExecutionEnvironment::enter_for_good();
  try {
    call.work();
  } catch (...) {
    call.thrown = std::current_exception();
  }
  return nullptr;
}

// Returns 0 or an errno.
int start(Call* call, pthread_t* thread) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  int error = pthread_attr_setstacksize(&attributes, kStackBytes);
  const SignalsBlocked blocked;
  if (error == 0) error = pthread_create(thread, &attributes, run, call);
  pthread_attr_destroy(&attributes);
  return error;
}

// Bytes left on the calling thread's stack, which grows down; 0 if unknown.
size_t stack_left() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t bytes = 0;
  const int error = pthread_attr_getstack(&attributes, &lowest, &bytes);
  pthread_attr_destroy(&attributes);
  const char here = 0;
  const auto at = reinterpret_cast<uintptr_t>(&here), end = reinterpret_cast<uintptr_t>(lowest);
  const bool is_on_it = at > end && at - end < bytes;  // false on a fibre, which has another stack
  return error == 0 && is_on_it ? at - end : 0;
}

}  // namespace

absl::Status run_on_own_stack(absl::FunctionRef<void()> work) {
  Call call = {work, nullptr};
  pthread_t thread;
  if (const int error = start(&call, &thread); error != 0) {
    if (stack_left() < kStackBytes * 3 / 4)
      return absl::ResourceExhaustedError(
          absl::StrCat("no thread with a stack of ", kStackBytes >> 20, " MiB: ", std::strerror(error)));
    work();
    return absl::OkStatus();
  }
  pthread_join(thread, nullptr);
  if (call.thrown) std::rethrow_exception(call.thrown);
  return absl::OkStatus();
}

}  // namespace lathe
