// Programs of elementwise ops: the body of a lathe_program, and the programs that a context knows. A class has only
// the digest of its program; the context has the program itself for later compilations of the class.
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

// Thread-safe. Programs are never removed: a process has only as many as its models have kinds of steps.
class ElementwisePrograms {
 public:
  void keep(const std::shared_ptr<const ElementwiseProgram>& program);
  // The program with the digest of the class. Null if it was not kept.
  std::shared_ptr<const ElementwiseProgram> find(const ProblemClass& c) const;

 private:
  mutable ForkSafeMutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const ElementwiseProgram>> all_;  // under mutex_
};

}  // namespace lathe
