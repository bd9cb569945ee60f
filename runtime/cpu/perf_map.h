// Names of linked code for `perf`: one line "START SIZE NAME" per function in /tmp/perf-PID.map, where perf
// and similar tools look for code that belongs to no file.
//
// Each batch of lines is one append, with no lock and no state. So threads, other JIT compilers in the
// process (Python and Node append to the same file) and forks do not disturb each other. perf itself copies a
// parent's names to its children. The file is not deleted, because perf reads it after the process ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"

namespace lathe {

class PerfMap {
 public:
  struct Code {
    uint64_t start = 0, size = 0;
    std::string name;
  };

  // `directory` is the one that perf reads; tests pass another.
  explicit PerfMap(Logger logger, std::string directory = "/tmp")
      : logger_(std::move(logger)), directory_(std::move(directory)) {}

  // If the file cannot be written, or is a link or another user's, this logs a warning and does nothing else.
  void add(const std::vector<Code>& codes) const;
  // The file of this process.
  std::string path() const;

 private:
  Logger logger_;
  std::string directory_;
};

}  // namespace lathe
