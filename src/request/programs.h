// The programs of elementwise ops: the body of a lathe_program, and a context's store of all programs that it
// has seen. A class holds only its program's digest, so a later compilation looks the program up here.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/fork_safe_mutex.h"
#include "core/elementwise.h"

struct lathe_program {
  const std::shared_ptr<const lathe::ElementwiseProgram> program;
};

namespace lathe {

// Thread-safe. Programs are never removed: there are only as many as the models have kinds of steps.
class Programs {
 public:
  void keep(const std::shared_ptr<const ElementwiseProgram>& program);
  // Null if no program with the class's digest was kept.
  std::shared_ptr<const ElementwiseProgram> find(const ProblemClass& c) const;

 private:
  mutable ForkSafeMutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const ElementwiseProgram>> all_;  // under mutex_
};

}  // namespace lathe
