// The float64 reference that `lathe run` checks results against, and the error bound it grants.
#pragma once

#include <cstdint>
#include <string>

#include "cli/numbers.h"
#include "cli/request.h"

namespace lathe::cli {

struct MatmulData {
  Array a, b, c, bias, residual, d;
};

struct CheckResult {
  bool ok = false;
  int64_t checked = 0, total = 0;  // elements compared, elements of the result
  double worst = 0;                // largest error as a fraction of its bound; > 1 fails
  std::string what;                // how the elements were chosen; on failure, the worst one
};

// Compares the whole of D where that is cheap, else a grid of rows and columns (the edges and random ones in
// between) of some matrices of the batch, and in either case that no element still holds its poison.
//
// The bound on |d - reference| is, with S = sum over k of |a b|: 6 eps |alpha| S for sums in f32 in any order
// (a sequential sum of K independent terms errs by about 0.5 eps S, root mean square), plus a few eps of the
// epilogue's terms, plus half a unit in the last place of D's dtype.
CheckResult check_matmul(const MatmulRequest& r, const MatmulData& data, Normal* random);

// Exact: the lowest index of each row's maximum, and its value where asked.
CheckResult check_argmax(const ArgmaxRequest& r, const Array& x, const Array& indices, const Array& values);

}  // namespace lathe::cli
