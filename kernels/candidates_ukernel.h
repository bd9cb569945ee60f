// ukernels as candidates: kernels written in C (kernels/<op>/ukernel), compiled to bitcode when Lathe is
// built, and compared with those that the emitters generate. One row each. The choice is made only here: the
// row's names go into the plan, and compilation follows them.
#pragma once

#include <string>
#include <vector>

#include "kernels/candidates.h"

namespace lathe {

struct UkernelRow {
  Op op;
  Backend backend;
  DType a;
  const char* function;    // its name in the C file
  const char* bitcode;     // "argmax/rows": kernels/argmax/ukernel/rows.c
  const char* attributes;  // of the function (UkernelRef)
  // Why it does not support a class of these dtypes, "" if it does.
  std::string (*refusal)(const CandidateContext& context);
  // The tiling that it needs. The caller fills in `ukernel`.
  CompileConfig (*tiling)(const CandidateContext& context);
  int64_t shared_bytes;  // shared memory of a workgroup
  // Appends the config with a prediction for every split factor worth pricing.
  void (*price)(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out);
};
// The rows of all ops.
const std::vector<UkernelRow>& ukernel_rows();

// Of the compilations of `bitcode` ("argmax/rows") that the target can run, the most demanding:
// "argmax/rows@x86-64-v4". "" if there is none.
std::string bitcode_for(const std::string& bitcode, const Target& target);

// Appends every row for the context's op, backend and dtypes, and the user's ukernels for them.
void enumerate_ukernels(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
