// The float64 reference that `lathe run` and `lathe selftest` check results against, and the error that it allows.
#pragma once

#include <cstdint>
#include <string>

#include "reference/op_request.h"
#include "reference/operand.h"

namespace lathe::cli {

// The operands of a request, with its result. C and the residual are as they were before the run, even if they share
// D's memory.
struct MatmulData {
  Operand a, b, c, bias, residual, d;
};
struct ArgmaxData {
  Operand x, indices, values;
};
struct MatmulArgmaxData {
  Operand a, b, bias, indices, values;
};

struct CheckResult {
  bool ok = false;
  int64_t checked = 0, total = 0;    // compared elements, all elements of the result
  int64_t judged = 0, to_judge = 0;  // payloads: elements of the results compared with the text, all elements
  std::string unjudged;              // payloads: why nothing was compared with the text
  double worst = 0;                  // the largest error, as a fraction of its bound; above 1 the check fails
  std::string what;                  // how the elements were chosen; on failure, the worst element
};

// Compares all of D if that is cheap. Otherwise compares some rows and columns (the edges, and random ones between
// them) of some matrices of the batch. Always checks that every element was written, and nothing outside the elements.
//
// Let S = sum over k of |a b| and eps = 2^-23. The bound on |d - reference| is the sum of a part of S, a few eps times
// the epilogue's terms, and half a unit in the last place of D's dtype. The part of S is
//   6 eps       for f32 sums in any order up to K = 4096 (the root mean square error of a sequential sum of
//               independent terms is about 0.5 eps S). For larger K it grows as sqrt(K), because matrix units
//               truncate when they add.
//   + 2^-9      if f32 may be rounded to tf32 (at most 2^-10 for each factor)
//   + 2^-8      if A may be rounded to bf16
//   + 2^-10     for fp8: Hopper's matrix units keep about 14 bits of the sum in each of the K / 32 additions
//               (DeepSeek-V3 Technical Report, section 3.5.2)
//   0           for i8, and for integers (Fill::kIntegers) while S is small enough for exact sums
// If A may be rounded to int8 (LATHE_MATH_INT8), half a scale for each element of A is added.
CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random);

// Exact check: the index of each row's first NaN, else of its first maximum, and the value if requested.
CheckResult check_argmax(const ArgmaxRequest& r, const ArgmaxData& data);

// Checks all rows if that is cheap, else the edges and random rows between them. Each logit has a range: its float64
// sum plus or minus the bound of check_matmul, rounded to the logits' dtype. A row's index is right if logits within
// these ranges can have their first maximum there. The value must lie in the range of that logit, and not below the
// lower end of any other. With integers the check is exact.
CheckResult check_matmul_argmax(const MatmulArgmaxRequest& r, const MatmulArgmaxData& data, Normal* random);

}  // namespace lathe::cli
