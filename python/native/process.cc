#include "process.h"

#include <cxxabi.h>
#include <unistd.h>

namespace lathe_python {
namespace {

namespace nb = nanobind;

struct Process {
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  int running = 0;  // calls that use the device
};
Process process;
lathe_miss_policy miss_policy = LATHE_MISS_DEFAULT;

void open_device() {
  lathe_context* context = nullptr;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.miss_policy = miss_policy;
  check(lathe_context_create(&options, &context));
  const lathe_status status = lathe_device_open(context, "cpu", &process.device);
  if (status != LATHE_OK) lathe_context_destroy(context);  // leaves lathe_last_error() as it is
  check(status);
  process.context = context;
}

}  // namespace

lathe_device* device() {
  if (process.device == nullptr) open_device();
  return process.device;
}

lathe_context* context() {
  device();
  return process.context;
}

void check(lathe_status status) {
  if (status == LATHE_OK) return;
  const nb::object type = nb::module_::import_("lathe._errors").attr("Error");
  const nb::object error = type(static_cast<int>(status), nb::str(lathe_last_error()));
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

Running::Running() {
  ++process.running;
  thread_ = PyEval_SaveThread();
}

Running::~Running() {
  try {
    PyEval_RestoreThread(thread_);
  } catch (abi::__forced_unwind&) {
    // The interpreter is ending and ends this daemon thread. Unwinding would release Python's objects without the GIL,
    // so the thread waits for the end of the process instead, as in Python 3.14.
    for (;;) pause();
  }
  --process.running;
}

void use_miss_policy(lathe_miss_policy policy) {
  miss_policy = policy;
  if (process.context != nullptr) check(lathe_context_set_miss(process.context, policy, nullptr, nullptr));
}

void close_device() {
  if (process.running > 0 || process.device == nullptr) return;
  lathe_device_close(process.device);
  lathe_context_destroy(process.context);
  process = Process{};
}

void forget_device() { process = Process{}; }

}  // namespace lathe_python
