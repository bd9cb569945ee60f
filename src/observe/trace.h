// A trace of what a process does besides running kernels, for chrome://tracing, Perfetto and similar tools.
#pragma once

#include <chrono>
#include <string>

#include "base/log.h"
#include "cache/file_io.h"
#include "core/json.h"

namespace lathe {

// Chrome's JSON array format, in which the closing bracket is optional. Each event is one line, appended by one
// write. So threads and processes share a file without a lock, and a crash keeps the events before it. Times are
// those of CLOCK_MONOTONIC, which all processes of a machine share. Thread-safe and fork-safe. Hits are not traced.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  // `path` "": no trace. An existing file is continued. If it cannot be opened or is not a regular file, a warning
  // is logged and nothing is traced.
  Trace(const std::string& path, const Logger& logger);

  bool enabled() const { return file_.valid(); }
  // Writes an event that began at `start` and ends now. Categories: "miss", "compile", "load", "warm-up".
  void span(const char* category, const std::string& name, Clock::time_point start,
            Json arguments) const noexcept;

 private:
  FileDescriptor file_;
};

}  // namespace lathe
