// A program run to its end, without a shell, with what it says kept.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe {

struct ExecutableRun {
  std::vector<std::string> arguments;    // the program's path first
  std::vector<std::string> environment;  // "NAME=value", all that it sees
  double timeout_seconds = 60;
};

struct ExecutableResult {
  std::string output;  // stdout and stderr as they came, at most a megabyte of it
  // Of waitpid(2). -1: unknown, since the host process ignores SIGCHLD or reaps children that are not its
  // own.
  int status = -1;
};

// The program has no stdin, none of this process' file descriptors, default signals, and a process group of
// its own. kNotFound where it cannot be started; kDeadlineExceeded, with the group killed, where it does not
// end in time. Thread-safe; takes whatever time the program takes.
absl::StatusOr<ExecutableResult> run_executable(const ExecutableRun& run);

}  // namespace lathe
