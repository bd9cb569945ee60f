// The ops, one row each. The enum Op, the declarations of the readers of descriptors and the C functions of an op are
// generated from this list.
#pragma once

#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"

namespace lathe {

enum OpTrait : uint32_t {
  kMultiplies = 1,      // multiplies matrices, so an N or K of 0 makes an empty product
  kReturnsIndices = 2,  // D holds indices
  kRowLengths = 4,      // its classes have a bucket of row lengths (row_lo, row_hi) in place of N and K
  kHasProgram = 8,      // its classes name an elementwise program
};

// X(enumerator, value, name, rows, traits)
//   name  in classes and messages; the op has lathe_<name>_desc, read_<name>() and C functions lathe_<name>() ...
//   rows  BUCKETS: a weight has one class per bucket of M. OPEN: one class serves every number of rows.
#define LATHE_OPS(X)                                                         \
  X(kMatmul, 1, matmul, BUCKETS, kMultiplies)                                \
  X(kArgmax, 2, argmax, OPEN, kReturnsIndices | kRowLengths)                 \
  X(kMatmulArgmax, 3, matmul_argmax, BUCKETS, kMultiplies | kReturnsIndices) \
  X(kElementwise, 4, elementwise, OPEN, kHasProgram)

#define LATHE_ENUMERATOR(op, value, name, rows, traits) op = value,
enum class Op : int32_t { LATHE_OPS(LATHE_ENUMERATOR) };
#undef LATHE_ENUMERATOR

struct OpRow {
  Op op;
  absl::string_view name;
  bool has_open_rows;
  uint32_t traits;
};
namespace ops {
inline constexpr bool BUCKETS = false, OPEN = true;
#define LATHE_ROW(op, value, name, rows, traits) {Op::op, #name, rows, traits},
inline constexpr OpRow kRows[] = {LATHE_OPS(LATHE_ROW)};
#undef LATHE_ROW
inline constexpr OpRow kUnknown = {Op{}, "unknown", false, 0};
constexpr bool are_in_order() {
  int32_t value = 0;
  for (const OpRow& row : kRows)
    if (row.op != Op{++value}) return false;
  return true;
}
static_assert(are_in_order(), "row_of() needs the values 1, 2, 3 ...");
}  // namespace ops

constexpr const OpRow& row_of(Op op) {
  const auto index = static_cast<uint32_t>(op) - 1;  // the values of ops are 1, 2, 3 ...
  return index < std::size(ops::kRows) ? ops::kRows[index] : ops::kUnknown;
}
constexpr absl::string_view name_of(Op op) { return row_of(op).name; }
// Whether one class serves every number of rows.
constexpr bool has_open_rows(Op op) { return row_of(op).has_open_rows; }
constexpr bool multiplies(Op op) { return (row_of(op).traits & kMultiplies) != 0; }
constexpr bool has_row_lengths(Op op) { return (row_of(op).traits & kRowLengths) != 0; }
constexpr bool has_program(Op op) { return (row_of(op).traits & kHasProgram) != 0; }
constexpr bool returns_indices(Op op) { return (row_of(op).traits & kReturnsIndices) != 0; }

}  // namespace lathe
