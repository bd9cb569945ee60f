// The requests of each op, and the layout of their operands in memory. The command runs them and the reference checks
// them.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <vector>

#include "reference/operand.h"

namespace lathe::cli {

// The fields of all ops. Each request also has sizes(), which begins with the number of rows.
struct OpRequest {
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;
  int32_t split_k = 0, candidate = 0;
  int64_t padding = 0;
  // Only used by runs.
  size_t misalign = 0;
  Fill fill = Fill::kNormal;

  bool operator==(const OpRequest& o) const;
};

// The fields of ops that return indices.
struct IndicesRequest : OpRequest {
  lathe_dtype index_dtype = LATHE_I64;
  bool values = false;
  int64_t index_offset = 0;

  bool operator==(const IndicesRequest& o) const;
};

struct MatmulRequest : OpRequest {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: the same as dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  float alpha = 1, beta = 0;
  bool bias = false, residual = false;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  bool packed = false;  // B is packed by lathe_pack_weights
  // Only used by runs.
  bool c_in_place = false, residual_in_place = false;  // the operand shares D's memory
  bool broadcast_a = false, broadcast_b = false;

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulRequest& o) const;
};

// The default dtype of the result: that of A, or f32 if A is i8 or fp8.
lathe_dtype default_result(lathe_dtype dtype);

// Size and layout of each operand. Its dtype is NONE if the request has no such operand.
struct MatmulSpecs {
  OperandSpec a, b, c, bias, residual, d;
};
MatmulSpecs specs_of(const MatmulRequest& r);

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

struct MatmulArgmaxRequest : IndicesRequest {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_F32, logits_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: the same as dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  bool bias = false;

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulArgmaxRequest& o) const;
};

struct MatmulArgmaxSpecs {
  OperandSpec a, b, bias, indices, values;  // the dtype is NONE if the request has no such operand
};
MatmulArgmaxSpecs specs_of(const MatmulArgmaxRequest& r);

}  // namespace lathe::cli
