// External libraries as candidates: products that an installed library computes, compared with Lathe's own
// kernels. One row each. The choice is made only here: the row's names go into the plan, and compilation and
// launch follow them. Which libraries exist and may be used is policy (core/external.h), passed in.
#pragma once

#include <string>
#include <vector>

#include "kernels/candidates.h"

namespace lathe {

struct ExternalRow {
  ExternalId id;
  Backend backend;
  Op op;
  const char* routine;  // the library's name for it; runtime/external implements it
  DType a;              // dtype of A and B
  std::vector<DType> d;
  // The parts of the epilogue that it supports; others are refused.
  bool adds_c;              // beta * C, with C of D's dtype
  std::vector<DType> bias;  // the bias's dtypes; kNone: D's
  bool adds_residual;       // f32, f16 or bf16
  // Why it does not support a class that fits the fields above, "" if it does.
  std::string (*refusal)(const CandidateContext& context);
  // Predicted time of one launch with `threads` threads of the CPU.
  double (*seconds)(const CandidateContext& context, int32_t threads);
  const char* numbers;  // the numeric recipe
};
// The rows of every library.
const std::vector<ExternalRow>& external_rows();

// Appends a plan for every row of the context's op, backend and dtypes.
void enumerate_externals(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
