// The programs of elementwise ops: the body of a lathe_program, and those that a context has met, by the
// digest in their class. Who compiles a class later (another call, a warm-up, the background) finds it there.
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

// Thread-safe. Nothing is forgotten: a process has as many programs as its models have kinds of steps.
class ElementwisePrograms {
 public:
  void keep(const std::shared_ptr<const ElementwiseProgram>& program);
  // Null: none of that digest was kept.
  std::shared_ptr<const ElementwiseProgram> find(const ProblemClass& c) const;

 private:
  mutable ForkSafeMutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const ElementwiseProgram>> all_;  // under mutex_
};

}  // namespace lathe
