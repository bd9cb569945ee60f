// Grouped products in float64, and the check of their results.
#pragma once

#include <vector>

#include "reference/check.h"
#include "reference/matmul.h"

namespace lathe::reference {

struct GroupedMatmulRequest : OpRequest {
  lathe_grouping grouping = LATHE_GROUPING_OFFSETS;
  int64_t m = 0, n = 0, k = 0, groups = 1, used = 1;
  lathe_dtype dtype = LATHE_F32, out_dtype = LATHE_F32;
  lathe_dtype b_dtype = LATHE_DTYPE_NONE;  // NONE: the same as dtype
  lathe_math math = LATHE_MATH_STRICT;
  bool trans_b = true;
  float alpha = 1;
  bool bias = false;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  bool shared_rows = false;  // INDEXED: the slots of a token multiply the same row of A
  bool summed = false;       // INDEXED: D has one row per token
  lathe_gate gate = LATHE_GATE_NONE;
  lathe_gate_layout gate_layout = LATHE_GATE_HALVES;
  bool packed = false;  // B is packed by lathe_pack_weights

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  int64_t d_columns() const { return gate == LATHE_GATE_NONE ? n : n / 2; }
};

// The batch of B and of the bias is the groups; that of A and D depends on the grouping, as in lathe/grouped.h.
struct GroupedMatmulSpecs {
  OperandSpec a, b, bias, d;
};
GroupedMatmulSpecs specs_of(const GroupedMatmulRequest& r);

struct GroupedMatmulData {
  std::vector<int32_t> routing;
  std::vector<float> weights;  // summed: m by used
  Operand a, b, bias, d;
};

// A random routing. Some rows, groups or slots are unused; some groups may have many rows.
std::vector<int32_t> random_routing(const GroupedMatmulRequest& r, Normal* random);

// Checks every element, by check_matmul's bounds for the product of each group, and that no row is written that belongs
// to no group.
CheckResult check_grouped_matmul(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                                 Normal* random);

}  // namespace lathe::reference
