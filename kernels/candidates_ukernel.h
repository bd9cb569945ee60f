// ukernels as candidates: kernels written in C (kernels/<op>/ukernel), compiled to bitcode when Lathe is
// built, beside those that the emitters generate. One row each; which is chosen is decided here and nowhere
// later: the row's names go into the plan, and what is compiled obeys them.
#pragma once

#include <string>
#include <vector>

#include "kernels/candidates.h"

namespace lathe {

struct UkernelRow {
  Op op;
  Backend backend;
  DType a;
  const char* function;    // as the C file calls it
  const char* bitcode;     // "argmax/rows": kernels/argmax/ukernel/rows.c
  const char* attributes;  // of the function (UkernelRef)
  // Why it does not serve a class of these dtypes, "" if it does.
  std::string (*refusal)(const CandidateContext& context);
  // The tiling it needs; its `kernel` and `ukernel` are filled in.
  CompileConfig (*tiling)(const CandidateContext& context);
  int64_t shared_bytes;  // of a workgroup
  // Appends the config with a prediction, once for every factor of a split worth pricing.
  void (*price)(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out);
};
// The rows of every op.
const std::vector<UkernelRow>& ukernel_rows();

// One of "argmax/rows"'s compilations whose instructions the target has, the most demanding:
// "argmax/rows@x86-64-v4";
// "" if there is none.
std::string bitcode_for(const std::string& bitcode, const Target& target);

// Every row of the context's op, backend and dtypes, and the user's ukernels of them.
void enumerate_ukernels(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
