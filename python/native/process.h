// The process's context and devices. Every function needs the GIL, which also guards the state.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "place.h"

namespace lathe_python {

// Made by the first call, with the options that the environment names. Throws lathe.Error.
lathe_context* context();
// Opened by the first call. Throws lathe.Error.
lathe_device* device(Place place);

// Throws lathe.Error with lathe_last_error() unless `status` is OK. Call it on the thread that got the status.
void check(lathe_status status);

// Releases the GIL while a call runs, and keeps the devices open as long as a call uses one.
class Running {
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  PyThreadState* thread_;
};

// Calls launch(device, stream) for the target without the GIL. Throws lathe.Error unless it returns OK.
template <typename Launch>
void run(const Target& target, const Launch& launch) {
  lathe_device* used = device(target.place());
  lathe_status status;
  {
    Running running;
    status = launch(used, target.stream());
    if (status == LATHE_OK && target.waits()) status = lathe_stream_synchronize(used, target.stream());
  }
  check(status);
}

// Sets the miss policy of this process's devices, also of those that are opened later.
void use_miss_policy(lathe_miss_policy policy);

// Makes the tasks of every call run on the threads of an OpenMP library that the process has loaded (GCC's interface),
// on at most `workers` of them. Closes open devices; the next call opens another. Without effect in a child of
// fork, where OpenMP has no threads. Throws ValueError if the library lacks the functions or if calls are running.
void use_openmp(const std::string& library, int32_t workers);

// Closes the devices and the context if no call uses them. The next call opens new ones.
void close_devices();
// For the child of a fork: forgets the parent's devices, whose threads the child does not have, without closing them.
void forget_devices();

}  // namespace lathe_python
