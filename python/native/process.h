// The process's context and CPU device. Every function needs the GIL, which also guards the state.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>

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

// Closes the device and the context if no call uses them. The next call opens new ones.
void close_device();
// For the child of a fork: forgets the parent's device, whose threads the child does not have, without closing it.
void forget_device();

}  // namespace lathe_python
