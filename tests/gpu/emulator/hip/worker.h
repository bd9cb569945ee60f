// The process that executes kernels (worker.py), and the requests to it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/gpu/emulator/driver/arena.h"

namespace lathe::emulator {

class Worker {
 public:
  // Starts the process with device memory mapped at the arena's addresses. kUnavailable if it cannot start, with the
  // reason, for example that the environment names no emulator.
  static absl::StatusOr<std::unique_ptr<Worker>> start(const Arena& arena);
  ~Worker();

  // Sends one request and returns the answer that follows "ok". kInternal with the error text of the process;
  // kAborted if the process has ended, as it does after a fault in a kernel.
  absl::StatusOr<std::string> ask(const std::string& request);

 private:
  Worker() = default;
  absl::StatusOr<std::string> answer();

  int process_ = -1;
  FILE* requests_ = nullptr;
  FILE* answers_ = nullptr;
};

}  // namespace lathe::emulator
