#include "request/elementwise_programs.h"

namespace lathe {

void ElementwisePrograms::keep(const std::shared_ptr<const ElementwiseProgram>& program) {
  const ForkSafeLock lock(mutex_);
  all_.emplace(std::make_pair(program->digest_lo, program->digest_hi), program);
}

std::shared_ptr<const ElementwiseProgram> ElementwisePrograms::find(const ProblemClass& c) const {
  const ForkSafeLock lock(mutex_);
  const auto at = all_.find({c.program_lo, c.program_hi});
  return at == all_.end() ? nullptr : at->second;
}

}  // namespace lathe
