#include "process.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace lathe_python {
namespace {

namespace nb = nanobind;

struct OpenDevice {
  Place place;
  lathe_device* device;
};
struct Process {
  lathe_context* context = nullptr;
  std::vector<OpenDevice> devices;
  int running = 0;  // calls that use a device
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

void make_context() {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  if (openmp.workers > 0) {
    options.parallel_for = run_openmp;
    options.workers = openmp.workers;
  }
  options.miss_policy = miss_policy;
  check(lathe_context_create(&options, &process.context));
}

}  // namespace

lathe_context* context() {
  if (process.context == nullptr) make_context();
  return process.context;
}

lathe_device* device(Place place) {
  for (const OpenDevice& open : process.devices)
    if (open.place == place) return open.device;
  lathe_device* opened = nullptr;
  check(lathe_device_open(context(), device_name(place).c_str(), &opened));
  process.devices.push_back({place, opened});
  return opened;
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

void close_devices() {
  if (process.running > 0) return;
  for (const OpenDevice& open : process.devices) lathe_device_close(open.device);
  lathe_context_destroy(process.context);
  process = Process{};
}

void forget_devices() {
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
  close_devices();
  found.workers = workers;
  openmp = found;
}

}  // namespace lathe_python
