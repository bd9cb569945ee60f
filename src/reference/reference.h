// The float64 reference that `lathe run` and `lathe selftest` check results against, and the error it grants.
#pragma once

#include <cstdint>
#include <string>

#include "reference/op_request.h"
#include "reference/operand.h"

namespace lathe::cli {

// What a request reads and what it has written. C and the residual as they were before the run, also where
// they are D itself.
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
  int64_t checked = 0, total = 0;    // elements compared, elements of the result
  int64_t judged = 0, to_judge = 0;  // of a payload's results, what was compared with its text;
  std::string unjudged;              // why nothing was
  double worst = 0;                  // largest error as a fraction of its bound; > 1 fails
  std::string what;                  // how the elements were chosen; on failure, the worst one
};

// Compares the whole of D where that is cheap, else a grid of rows and columns (the edges and random ones in
// between) of some matrices of the batch, and in either case that every element was written and nothing
// beside them.
//
// The bound on |d - reference| is, with S = sum over k of |a b| and eps = 2^-23, a part of S for the sum, a
// few eps of the epilogue's terms, and half a unit in the last place of D's dtype. The part of S is
//   6 eps                   f32 sums in any order, up to K = 4096 (a sequential sum of K independent terms
//   errs by
//                           about 0.5 eps S, root mean square); beyond, growing as sqrt(K) for matrix units,
//                           which truncate where they add
//   2^-9 more               f32 rounded to tf32: 2^-10 of each factor, at most (A to bf16: 2^-8)
//   2^-10 more              fp8: Hopper's matrix units keep about 14 bits of a sum (DeepSeek-V3 Technical
//   Report,
//                           section 3.5.2), which K / 32 additions share
//   0                       bytes; and whole numbers (Fill::kIntegers) while S is below what the above keep
//   exactly
CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random);

// Exact: the index of each row's first NaN or else of its first maximum, and its value where asked.
CheckResult check_argmax(const ArgmaxRequest& r, const ArgmaxData& data);

// Every row where that is cheap, else the edges and random ones in between. A row's index is right when some
// logits, each within the bound of check_matmul of its sum in float64 and rounded to the logits' dtype, have
// their first maximum there; exact, then, for whole numbers. The value must be the greatest such logit could
// have been.
CheckResult check_matmul_argmax(const MatmulArgmaxRequest& r, const MatmulArgmaxData& data, Normal* random);

}  // namespace lathe::cli
