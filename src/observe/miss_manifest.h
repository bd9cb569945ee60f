// The manifest of misses: a file with every class that missed the dispatch table of a device.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/log.h"
#include "core/elementwise.h"
#include "request/dispatch_key.h"

namespace lathe {

// Thread-safe and fork-safe: a child of a fork adds its own misses to the same file. Processes may share the file;
// each adds its classes to those in it under a lock file (`<file>.lock`).
//
// If the lock cannot be had, because its holder hangs or the file system has no locks, all calls together wait for
// it for kPatienceSeconds. After that the classes are written without the lock, and written again with the next
// class and in the destructor. The file stays valid, but another process may overwrite such classes. One warning
// says so, and one in the destructor says how many classes are concerned.
class MissManifest {
 public:
  // Far longer than writing takes, even on a busy machine. A process that holds the lock longer is stopped.
  static constexpr double kPatienceSeconds = 2;

  // `path` "": no file.
  MissManifest(std::string path, const Logger& logger) : path_(std::move(path)), logger_(logger) {}
  MissManifest(const MissManifest&) = delete;
  MissManifest& operator=(const MissManifest&) = delete;
  ~MissManifest();

  bool enabled() const { return !path_.empty(); }
  // Adds a class that missed. If it is new in this process, it is in the file when this returns; otherwise this
  // costs one lookup in a set. `program` is that of an elementwise class. A file that is not a manifest is not
  // changed. A failure is logged once and never reported to the caller.
  void add(const DispatchKey& key,
           const std::shared_ptr<const ElementwiseProgram>& program = nullptr) noexcept;

 private:
  struct State;  // one per process
  State& state();
  void write(State& state);

  const std::string path_;
  const Logger& logger_;
  std::atomic<State*> state_{nullptr};
};

}  // namespace lathe
