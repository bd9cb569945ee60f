// The process's context and CPU device. Every function needs the GIL, which also guards the state.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

namespace lathe_python {

// The device, opened by the first call, with the options that the environment names. Throws lathe.Error.
lathe_device* device();
lathe_context* context();

// Throws lathe.Error with lathe_last_error() unless `status` is OK. Call it on the thread that got the status.
void check(lathe_status status);

// Releases the GIL while a call runs, and keeps the device open as long as a call uses it.
class Running {
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  PyThreadState* thread_;
};

// Sets the miss policy of this process's devices, also of those that are opened later.
void use_miss_policy(lathe_miss_policy policy);

// Makes the tasks of every call run on the threads of an OpenMP library that the process has loaded (GCC's interface),
// on at most `workers` of them. Closes an open device; the next call opens another. Without effect in a child of
// fork, where OpenMP has no threads. Throws ValueError if the library lacks the functions or if calls are running.
void use_openmp(const std::string& library, int32_t workers);

// Closes the device and the context if no call uses them. The next call opens new ones.
void close_device();
// For the child of a fork: forgets the parent's device, whose threads the child does not have, without closing it.
void forget_device();

}  // namespace lathe_python
