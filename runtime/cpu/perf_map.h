// Names of linked code for `perf`: a line "START SIZE NAME" a function in /tmp/perf-PID.map, where perf (and
// what reads its format) looks for code that no file holds.
//
// Every batch of lines is one append to the file of the process that writes them: no lock, no state, so
// threads, other just-in-time compilers of the process (Python's and Node's append to the same file) and
// forks do not disturb one another. perf takes what a parent had over to its forks itself. The file stays:
// perf reads it after the end.
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

  // `directory` is perf's own unless a test has another.
  explicit PerfMap(Logger logger, std::string directory = "/tmp")
      : logger_(std::move(logger)), directory_(std::move(directory)) {}

  // A file that cannot be written, or that is a link or another user's, is a warning: nothing depends on the
  // names.
  void add(const std::vector<Code>& codes) const;
  // Of this process.
  std::string path() const;

 private:
  Logger logger_;
  std::string directory_;
};

}  // namespace lathe
