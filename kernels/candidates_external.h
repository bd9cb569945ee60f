// External libraries as candidates: products that a library on the machine does, beside those of Lathe's own
// kernels. One row each; which is chosen is decided here and nowhere later: the row's names go into the plan,
// and what is compiled and run obeys them. Which libraries there are and may be used is policy
// (core/external.h), handed in.
#pragma once

#include <string>
#include <vector>

#include "kernels/candidates.h"

namespace lathe {

struct ExternalRow {
  ExternalId id;
  Backend backend;
  Op op;
  const char* routine;  // as the library calls it; what it means is runtime/external's
  DType a;              // of A and B
  std::vector<DType> d;
  // What it can do at the end, refused otherwise.
  bool adds_c;              // beta * C, where C has D's dtype
  std::vector<DType> bias;  // what it may be of; kNone: D's
  bool adds_residual;       // of f32, f16 or bf16
  // Why it does not serve a class that all of the above does, "" if it does.
  std::string (*refusal)(const CandidateContext& context);
  // Of one launch on that many threads of the CPU.
  double (*seconds)(const CandidateContext& context, int32_t threads);
  const char* numbers;  // the numeric recipe
};
// The rows of every library.
const std::vector<ExternalRow>& external_rows();

// Appends a plan for every row of the context's op, backend and dtypes.
void enumerate_externals(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
