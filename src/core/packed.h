// Packed weights: operand B of a matmul, laid out once as the CPU's "packed" kernels stream it, for every M.
//
// Form kColumns16: columns in panels of 16, one panel after the other, each row by row: element (k, n) of a K
// by N matrix is element (n / 16 * K + k) * 16 + n % 16. N is rounded up to whole panels; columns past it are
// 0. No instruction set shows in it: 16 is a multiple of every vector's lanes.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace lathe {

constexpr int64_t kPackedColumns = 16;
enum PackedForm : int16_t { kNotPacked = 0, kColumns16 = 1 };

// The public id: the version of these layouts, the dtype and the form, a byte or two each, so that a weight
// packed for another dtype or by a release that lays it out otherwise is known by it.
constexpr uint32_t kPackedVersion = 1;
constexpr uint32_t packed_layout_id(PackedForm form, DType dtype) {
  return kPackedVersion << 16 | static_cast<uint32_t>(dtype) << 8 | static_cast<uint32_t>(form);
}
constexpr bool is_packable(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16; }
// The form that an id names for elements of this dtype; kInvalidArgument says what is wrong with it.
absl::StatusOr<PackedForm> packed_form(uint32_t id, DType dtype);
// Elements of a packed K by N matrix.
constexpr int64_t packed_elements(int64_t k, int64_t n) {
  return (n + kPackedColumns - 1) / kPackedColumns * kPackedColumns * k;
}

// Packs `b`, K by N of elements of `size` bytes (2 or 4), element (k, n) at k * row + n * column.
struct PackedSource {
  const void* b;
  int64_t k, n, row, column;
};
void pack_columns16(const PackedSource& source, size_t size, void* packed);

}  // namespace lathe
