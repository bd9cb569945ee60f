#include "process.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

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

// The functions of an OpenMP library that use_openmp names. `workers` 0: Lathe's own threads.
struct OpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*thread_number)() = nullptr;
  int (*max_threads)() = nullptr;
  int32_t workers = 0;
};
OpenMp openmp;
std::atomic<bool> forked{false};

struct Region {
  lathe_task_fn body;
  void* context;
  int64_t count;
  std::atomic<int64_t> next{0};

  void work(int32_t worker) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed))
      body(context, i, worker);
  }
};

void run_openmp(void*, int64_t count, lathe_task_fn body, void* context) {
  Region region{body, context, count};
  // The caller's limit may have become lower since (torch.set_num_threads).
  const int64_t threads = std::min({count, int64_t{openmp.workers}, int64_t{openmp.max_threads()}});
  // OpenMP's threads do not exist in the child of a fork, and waiting for them would never end.
  if (threads <= 1 || forked.load(std::memory_order_relaxed)) return region.work(0);
  openmp.parallel([](void* data) { static_cast<Region*>(data)->work(openmp.thread_number()); }, &region,
                  static_cast<unsigned>(threads), 0);
}

void open_device() {
  lathe_context* context = nullptr;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  if (openmp.workers > 0) {
    options.parallel_for = run_openmp;
    options.workers = openmp.workers;
  }
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

void forget_device() {
  process = Process{};
  forked = true;
}

void use_openmp(const std::string& library, int32_t workers) {
  if (workers < 1 || workers > 1024) throw nb::value_error("workers must be from 1 to 1024");
  if (process.running > 0) throw nb::value_error("calls of Lathe are running");
  OpenMp found;
  // Only a library that is loaded already: another copy would have other threads.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) {
    found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(handle, "GOMP_parallel"));
    found.thread_number =
        reinterpret_cast<decltype(found.thread_number)>(dlsym(handle, "omp_get_thread_num"));
    found.max_threads = reinterpret_cast<decltype(found.max_threads)>(dlsym(handle, "omp_get_max_threads"));
  }
  if (found.parallel == nullptr || found.thread_number == nullptr || found.max_threads == nullptr)
    throw nb::value_error((library + " is not loaded, or lacks the functions of OpenMP").c_str());
  close_device();
  found.workers = workers;
  openmp = found;
}

}  // namespace lathe_python
