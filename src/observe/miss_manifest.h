// What a process met, as a manifest on disk: every class that missed a device's dispatch table.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/log.h"
#include "core/elementwise.h"
#include "request/dispatch_key.h"

namespace lathe {

// Thread-safe, and fork-safe: a child records for itself, into the same file. Processes that record into one
// file join what they met under a lock beside it (`<file>.lock`). Behind a holder that does not move callers
// wait for kPatienceSeconds, all of them together; then, as on a file system without locks, what they met is
// written without it, and again with the next class and at the end. The file is whole nevertheless; that
// another process may write over such classes is said, once, and at the end how many those are.
class Recorder {
 public:
  // Writing takes a millisecond, a hundred where ten processes share a core; who holds the lock for longer is
  // stopped.
  static constexpr double kPatienceSeconds = 2;

  // `path` "": nothing is recorded.
  Recorder(std::string path, const Logger& logger) : path_(std::move(path)), logger_(logger) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  bool enabled() const { return !path_.empty(); }
  // For misses. The first of a class in this process is in the file when this returns; others cost a look
  // into a set. A file that is no manifest is left alone. What goes wrong is logged, once, and is nobody's
  // failure.
  // `program`: an elementwise class'.
  void note(const DispatchKey& key,
            const std::shared_ptr<const ElementwiseProgram>& program = nullptr) noexcept;

 private:
  struct State;  // of one process
  State& state();
  void write(State& state);

  const std::string path_;
  const Logger& logger_;
  std::atomic<State*> state_{nullptr};
};

}  // namespace lathe
