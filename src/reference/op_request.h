// What the requests of all ops share. The command runs requests and the reference checks them.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>

#include "reference/operand.h"

namespace lathe::reference {

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

// `common` has the padding, the misalignment and the batch.
OperandSpec matrix_spec(OperandSpec common, lathe_dtype dtype, int64_t rows, int64_t columns);

}  // namespace lathe::reference
