// Reads the descriptor of a grouped product: the class that its groups share, and where their rows lie.
#pragma once

#include <cstdint>
#include <optional>

#include "lathe/grouped.h"
#include "request/request.h"

namespace lathe {

// Where the rows of an operand lie. A slot is one use of a row; slots are numbered from 0. Slot s starts at
// s / inner * outer_bytes + s % inner * inner_bytes.
struct SlotPlaces {
  int64_t outer_bytes, inner_bytes;
};

// One product of each group: class, N, K and the arguments that all groups share. M, its bucket and the operands'
// addresses are those of no group yet.
struct GroupProduct {
  Request request;
  int64_t b_offset = 0;                       // bytes from the start of a group's B
  int64_t first_column = 0, column_step = 1;  // of the group's bias
};

// On the CPU a group whose rows are not all the same distance apart in A and in D has a class of Rows::kIndexed, whatever
// the grouping: its kernel reads a list of where they are. One row is always at one distance.
constexpr int64_t kFewestListedRows = 2;

struct GroupedRequest {
  // The product that gives the rows of D. With a gate it is that of g, multiplied by `up`, an f32 residual. D is f32 if
  // slots are summed.
  GroupProduct product;
  std::optional<GroupProduct> up;  // with a gate: the product of u, with a D of f32
  int64_t n = 0;                   // columns of B
  lathe_grouping grouping = LATHE_GROUPING_OFFSETS;
  int64_t m = 0, groups = 0, used = 1;
  int64_t slots = 0;  // COUNTS: groups * m. INDEXED: m * used. Otherwise m
  int64_t inner = 1;  // COUNTS: m. INDEXED: used. Otherwise 1
  SlotPlaces a, d;    // d: not used if slots are summed
  const int32_t* routing = nullptr;
  int64_t routing_stride = 0;  // elements, INDEXED only
  const char *a_data = nullptr, *b_data = nullptr, *bias = nullptr;
  char* d_data = nullptr;
  // Used if product.request.scaled has block scales. A call on the CPU then decodes all rows of A
  // to f32. `b_lines`: columns of a group's B; `b_pitch`: elements from one to the next.
  int64_t b_lines = 0, b_pitch = 0;
  // Bytes from one group's to the next group's.
  int64_t b_stride = 0, bias_stride = 0, scale_b_stride = 0, zero_b_stride = 0;
  // Sums over slots: null if slots are not summed. D then has rows of dtype `sum`, ldd elements apart.
  const float* weights = nullptr;
  int64_t weights_stride = 0;
  DType sum = DType::kNone;
  int64_t sum_row_bytes = 0;
  bool nothing_to_do = false;

  bool is_summed() const { return sum != DType::kNone; }
  bool decodes_a() const { return product.request.scaled && product.request.scaled->a.exists(); }
  // The block scales of A lie as its rows do: matrices of M lines.
  int64_t scale_matrices() const {
    return grouping == LATHE_GROUPING_COUNTS ? groups : grouping == LATHE_GROUPING_INDEXED ? used : 1;
  }
};

// With Purpose::kPlan, the products are those of a group if the rows are spread evenly over the groups.
absl::Status read_grouped_matmul(const lathe_grouped_matmul_desc* desc, Purpose purpose,
                                 const RequestContext& context, void* stream, GroupedRequest* out);

// "grouped_matmul f32 a=n b=t m=7 n=4096 k=33 groups=8 used=2", with the sizes that the caller gave.
std::string describe(const GroupedRequest& request);

}  // namespace lathe
