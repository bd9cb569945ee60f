// The process that executes kernels (worker.py), and requests to it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/gpu/emulator/driver/arena.h"

namespace lathe::emulator {

class Worker {
 public:
  // Starts it, with device memory at the arena's addresses. kUnavailable says why there is none: the
  // environment names no emulator.
  static absl::StatusOr<std::unique_ptr<Worker>> start(const Arena& arena);
  ~Worker();

  // One request and its answer behind "ok". kInternal with the process's words; kAborted when the process
  // ended, which a kernel's fault does.
  absl::StatusOr<std::string> ask(const std::string& request);

 private:
  Worker() = default;
  absl::StatusOr<std::string> answer();

  int process_ = -1;
  FILE* requests_ = nullptr;
  FILE* answers_ = nullptr;
};

}  // namespace lathe::emulator
