// What a process met, as a manifest on disk: every class that missed a device's dispatch table.
#pragma once

#include <atomic>
#include <string>

#include "api/dispatch_table.h"
#include "base/log.h"

namespace lathe {

// Thread-safe, and fork-safe: a child records for itself, into the same file. Processes that record into one
// file join what they met under a lock beside it (`<file>.lock`); without the lock (a file system that has
// none, a holder that is stopped) the file is whole nevertheless, and a process writes all that it met again
// with its next class and at its end.
class Recorder {
 public:
  // `path` "": nothing is recorded.
  Recorder(std::string path, const Logger& logger) : path_(std::move(path)), logger_(logger) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  bool enabled() const { return !path_.empty(); }
  // For misses. The first of a class in this process is in the file when this returns; others cost a look
  // into a set. A file that is no manifest is left alone. What goes wrong is logged, once, and is nobody's
  // failure.
  void note(const DispatchKey& key) noexcept;

 private:
  struct State;  // of one process
  State& state();
  void write(State& state);

  const std::string path_;
  const Logger& logger_;
  std::atomic<State*> state_{nullptr};
};

}  // namespace lathe
