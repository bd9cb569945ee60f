// What a kernel family tells the oracle: its table of candidates, and for each whether it is legal and how
// long it should take. No MLIR here. One row a tile; one family a (op, backend, kernel name).
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"
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
  int32_t split_k;                                          // forced factor or 0
  const ExternalPolicy* external = nullptr;                 // null: no external libraries
  const std::vector<UserUkernel>* user_ukernels = nullptr;  // null: none
  // Null: every candidate is wanted. Else the fastest so far, and those that are slower or rejected need not
  // be appended: a family of a thousand rows then builds the few plans that were the fastest for a while.
  double* fastest = nullptr;

  // Whether a legal candidate of that price is to be appended, which it is then taken to be.
  bool wants(double seconds) const {
    if (fastest == nullptr) return true;
    if (!std::isfinite(seconds) || seconds >= *fastest) return false;
    *fastest = seconds;
    return true;
  }
  bool wants_rejected() const { return fastest == nullptr; }
};

// Appends one RankedPlan for every row of the family's table that is wanted: legal ones with a prediction,
// others with a reason.
using EnumerateFn = void (*)(const CandidateContext& context, std::vector<RankedPlan>* out);

struct KernelFamily {
  Op op;
  Backend backend;
  EnumerateFn enumerate;
  uint32_t kernels;  // a set of KernelKind: those of its plans
};
// kernels/families.cc: one row a family.
absl::Span<const KernelFamily> kernel_families();

}  // namespace lathe
