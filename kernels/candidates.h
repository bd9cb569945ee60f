// What a kernel family tells the oracle: its table of candidates, and for each whether it is legal and how long it
// should take. No MLIR here. One row a tile; one family a (op, backend, kernel name).
#pragma once

#include <string>
#include <vector>

#include "core/external.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/user_ukernel.h"

namespace lathe {

struct CandidateContext {
  const ProblemClass& problem;
  const DeviceFacts& facts;
  int32_t workers;
  int32_t split_k;  // forced factor or 0
  const ExternalPolicy* external = nullptr;  // null: no external libraries
  const std::vector<UserUkernel>* user_ukernels = nullptr;  // null: none
};

// Appends one RankedPlan for every row of the family's table: legal ones with a prediction, others with a reason.
using EnumerateFn = void (*)(const CandidateContext& context, std::vector<RankedPlan>* out);

struct KernelFamily {
  Op op;
  Backend backend;
  EnumerateFn enumerate;
};
// kernels/families.cc: one row a family.
const std::vector<KernelFamily>& kernel_families();

}  // namespace lathe
