// Requests of each op with the places of their operands: what the float64 reference checks and the command runs.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>

#include "reference/operand.h"

namespace lathe::cli {

// Fields that every op has.
struct OpRequest {
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;
  int32_t split_k = 0, candidate = 0;
  int64_t padding = 0;
  // What only a run has.
  size_t misalign = 0;
  Fill fill = Fill::kNormal;

  bool operator==(const OpRequest& o) const;
};

// Fields of the ops whose result is indices.
struct IndicesRequest : OpRequest {
  lathe_dtype index_dtype = LATHE_I64;
  bool values = false;
  int64_t index_offset = 0;

  bool operator==(const IndicesRequest& o) const;
};

struct MatmulRequest : OpRequest {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  float alpha = 1, beta = 0;
  bool bias = false, residual = false;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  bool packed = false;  // B, by lathe_pack_weights
  // What only a run has.
  bool c_in_place = false, residual_in_place = false;  // the operand is D itself
  bool broadcast_a = false, broadcast_b = false;

  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulRequest& o) const;
};

// The default dtype of the result: that of A and B, or f32 where these are i8 or fp8.
lathe_dtype default_result(lathe_dtype dtype);

// The place of each operand of `r`.
struct MatmulForms {
  OperandForm a, b, c, bias, residual, d;  // of dtype NONE where the request has no such operand
};
MatmulForms forms_of(const MatmulRequest& r);

struct ArgmaxRequest : IndicesRequest {
  int64_t rows = 0, n = 0;
  lathe_dtype dtype = LATHE_F32;

  bool operator==(const ArgmaxRequest& o) const;
};

struct ArgmaxForms {
  OperandForm x, indices, values;  // values: of dtype NONE where not asked for
};
ArgmaxForms forms_of(const ArgmaxRequest& r);

struct MatmulArgmaxRequest : IndicesRequest {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_F32, logits_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_a = false, trans_b = true;
  bool bias = false;

  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  bool operator==(const MatmulArgmaxRequest& o) const;
};

struct MatmulArgmaxForms {
  OperandForm a, b, bias, indices, values;  // of dtype NONE where the request has no such operand
};
MatmulArgmaxForms forms_of(const MatmulArgmaxRequest& r);

}  // namespace lathe::cli
