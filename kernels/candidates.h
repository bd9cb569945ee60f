// What a kernel family tells the oracle: a table of candidates, for each whether it is legal and its
// predicted time. No MLIR here. A family is a function that lists the plans of one or more kernels for an
// op and a backend.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/external.h"
#include "core/facts.h"
#include "core/kernels.h"
#include "core/ops.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/user_ukernel.h"

namespace lathe {

struct CandidateContext {
  const ProblemClass& problem;
  const DeviceFacts& facts;
  int32_t workers;
  int32_t split_k;                                          // forced number of splits, or 0
  const ExternalPolicy* external = nullptr;                 // null: no external libraries
  const std::vector<UserUkernel>* user_ukernels = nullptr;  // null: none
  // Null: every candidate is wanted. Otherwise the time of the fastest candidate so far; slower and
  // rejected ones need not be appended, so that a family with thousands of rows builds few plans.
  double* fastest = nullptr;

  // Whether to append a legal candidate with this time. If so, it becomes the fastest.
  bool wants(double seconds) const {
    if (fastest == nullptr) return true;
    if (!std::isfinite(seconds) || seconds >= *fastest) return false;
    *fastest = seconds;
    return true;
  }
  bool wants_rejected() const { return fastest == nullptr; }
};

// Appends one RankedPlan for every wanted row of the family's table: legal ones with a prediction, others
// with a reason.
using EnumerateFn = void (*)(const CandidateContext& context, std::vector<RankedPlan>* out);

struct KernelFamily {
  Backend backend;
  EnumerateFn enumerate;
  uint32_t kernels;  // a set of KernelKind: the kernels of its plans
};
// For each op, the table in kernels/<op>/families.cc: matmul_families() and so on.
#define LATHE_FAMILIES(op, value, name, rows, traits) absl::Span<const KernelFamily> name##_families();
LATHE_OPS(LATHE_FAMILIES)
#undef LATHE_FAMILIES
absl::Span<const KernelFamily> families_of(Op op);

// Whether a table of families names only kernels that serve the op on the family's backend.
template <size_t kCount>
constexpr bool only_serving(const KernelFamily (&families)[kCount], Op op) {
  for (const KernelFamily& family : families)
    for (const KernelRow& kernel : kKernels)
      if ((family.kernels & set_of(kernel.kind)) != 0 && !kernel.serves(op, family.backend)) return false;
  return true;
}
// Whether a table of families has every kernel that serves the op, on each of the kernel's backends.
template <size_t kCount>
constexpr bool every_serving(const KernelFamily (&families)[kCount], Op op) {
  for (const KernelRow& kernel : kKernels) {
    if (!kernel.serves(op)) continue;
    uint32_t backends = 0;
    for (const KernelFamily& family : families)
      if ((family.kernels & set_of(kernel.kind)) != 0) backends |= set_of(family.backend);
    if (backends != kernel.backends) return false;
  }
  return true;
}

}  // namespace lathe
