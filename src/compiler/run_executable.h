// Runs a program without a shell, waits for its end and captures its output.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe {

struct ExecutableRun {
  std::vector<std::string> arguments;    // the first is the path of the program
  std::vector<std::string> environment;  // "NAME=value"; the program gets no other variables
  double timeout_seconds = 60;
};

struct ExecutableResult {
  std::string output;  // stdout and stderr interleaved, at most 1 MiB
  // The status of waitpid(2). -1 if it is unknown, because the host process ignores SIGCHLD or reaps children
  // that it did not start.
  int status = -1;
};

// The program gets an empty stdin, no other file descriptors of this process, default signal handlers and its
// own process group. kNotFound if it cannot be started; kDeadlineExceeded if it exceeds the timeout, after
// killing its group. Thread-safe.
absl::StatusOr<ExecutableResult> run_executable(const ExecutableRun& run);

}  // namespace lathe
