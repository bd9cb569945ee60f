// What a process spent its time on beside running kernels, for chrome://tracing, Perfetto and their like.
#pragma once

#include <chrono>
#include <string>

#include "base/log.h"
#include "cache/file_io.h"
#include "core/json.h"

namespace lathe {

// Chrome's JSON array format, of which the closing bracket may be missing: each event is a line that is
// appended by one write, so that threads and processes share a file without a lock and a crash leaves what
// happened before it. Times are those of CLOCK_MONOTONIC, the same for all processes of a machine.
// Thread-safe and fork-safe. Never on the path of a hit.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  // `path` "": nothing is traced. A file that is there already is continued; what cannot be opened, or
  // is no regular file, is a warning.
  Trace(const std::string& path, const Logger& logger);

  bool enabled() const { return file_.valid(); }
  // What began at `start` and ends now. Categories: "miss", "compile", "load", "warm-up".
  void span(const char* category, const std::string& name, Clock::time_point start,
            Json arguments) const noexcept;

 private:
  FileDescriptor file_;
};

}  // namespace lathe
