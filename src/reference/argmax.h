// The argmaxes that the command runs, and the check of their results.
#pragma once

#include "reference/check.h"
#include "reference/op_request.h"

namespace lathe::reference {

struct ArgmaxRequest : IndicesRequest {
  int64_t rows = 0, n = 0;
  lathe_dtype dtype = LATHE_F32;

  std::vector<int64_t> sizes() const { return {rows, n}; }
  bool operator==(const ArgmaxRequest& o) const;
};

struct ArgmaxSpecs {
  OperandSpec x, indices, values;  // the dtype of `values` is NONE if they are not requested
};
ArgmaxSpecs specs_of(const ArgmaxRequest& r);

struct ArgmaxData {
  Operand x, indices, values;
};

// Exact check: the index of each row's first NaN, else of its first maximum, and the value if requested.
CheckResult check_argmax(const ArgmaxRequest& r, const ArgmaxData& data);

}  // namespace lathe::reference
