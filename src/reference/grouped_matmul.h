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
  // As in MatmulRequest.
  std::string a_format, b_format;
  bool even = false;  // only used by runs: the routing is even_routing(), not random_routing()

  std::vector<int64_t> sizes() const { return {m, n, k}; }
  lathe_dtype weight_dtype() const { return b_dtype == LATHE_DTYPE_NONE ? dtype : b_dtype; }
  int64_t d_columns() const { return gate == LATHE_GATE_NONE ? n : n / 2; }
  bool operator==(const GroupedMatmulRequest& o) const;
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

// Every row and slot is used, and groups have about as many rows as each other. The slots of a token have different
// groups, if there are enough of them.
std::vector<int32_t> even_routing(const GroupedMatmulRequest& r, Normal* random);
// What a routing uses: rows of A that are multiplied (a row counts once per slot), and groups that have rows.
struct RoutingUse {
  int64_t rows = 0, groups = 0;
};
RoutingUse use_of(const GroupedMatmulRequest& r, const std::vector<int32_t>& routing);

// Compares by check_matmul's bounds for the product of each group: every element, or those of some rows if that is not
// cheap. Always checks that no row is written that belongs to no group, and that all others are.
CheckResult check_grouped_matmul(const GroupedMatmulRequest& r, const GroupedMatmulData& data,
                                 Normal* random);

}  // namespace lathe::reference
