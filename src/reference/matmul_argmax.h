// The matmul_argmaxes that the command runs, and the check of their results.
#pragma once

#include "reference/check.h"
#include "reference/op_request.h"

namespace lathe::reference {

struct MatmulArgmaxRequest : IndicesRequest {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_F32, logits_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: the same as dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  bool bias = false;
  bool packed = false;  // B is packed by lathe_pack_weights

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulArgmaxRequest& o) const;
};

struct MatmulArgmaxSpecs {
  OperandSpec a, b, bias, indices, values;  // the dtype is NONE if the request has no such operand
};
MatmulArgmaxSpecs specs_of(const MatmulArgmaxRequest& r);

struct MatmulArgmaxData {
  Operand a, b, bias, indices, values;
};

// Checks all rows if that is cheap, else the edges and random rows between them. Each logit has a range: its float64
// sum plus or minus the bound of check_matmul, rounded to the logits' dtype. A row's index is right if logits within
// these ranges can have their first maximum there. The value must lie in the range of that logit, and not below the
// lower end of any other. With integers the check is exact. If A may be rounded to int8, the logits of a NaN or infinity
// may be NaN or any infinity.
CheckResult check_matmul_argmax(const MatmulArgmaxRequest& r, const MatmulArgmaxData& data, Normal* random);

}  // namespace lathe::reference
