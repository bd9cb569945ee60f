// Packed weights: operand B of a matmul, laid out once as the CPU's "packed" kernels stream it, for every M.
//
// Form kColumns16: columns in panels of 16, one panel after the other, each word by word along K. A word
// holds four elements of K of i8 and two of bf16, as 32 bits do, else one: with w of them and K rounded up to
// whole words, element (k, n) of a K by N matrix is element (n / 16 * K + k / w * w) * 16 + n % 16 * w + k %
// w. N is rounded up to whole panels; what lies past N and K is 0. No instruction set shows in it: 16 is a
// multiple of every vector's lanes, bytes are multiplied by four and bf16 by two wherever one instruction
// does it, and a pair of bf16 becomes two f32 by a shift and a mask.
//
// Form kByColumn, of so few columns that more than a fifth of what panels hold would be padding: column after
// column along K, packed_pitch() elements apart: whole lines, and no multiple of 1 KiB, so that columns side
// by side do not share a cache's sets. It is a plain COLUMN_MAJOR B with that leading dimension, and is
// multiplied by the kernels of one.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace lathe {

constexpr int64_t kPackedColumns = 16;
enum PackedForm : int16_t { kNotPacked = 0, kColumns16 = 1, kByColumn = 2 };
// The form that a weight of N columns takes.
PackedForm packed_form_of(int64_t n);

// The public id: the version of these layouts, the dtype and the form, a byte or two each, so that a weight
// packed for another dtype or by a release that lays it out otherwise is known by it.
constexpr uint32_t kPackedVersion = 1;
constexpr uint32_t packed_layout_id(PackedForm form, DType dtype) {
  return kPackedVersion << 16 | static_cast<uint32_t>(dtype) << 8 | static_cast<uint32_t>(form);
}
constexpr bool is_packable(DType dtype) { return is_float(dtype) || dtype == DType::kI8; }
constexpr char kPackableNames[] = "f32, f16, bf16 and i8";  // for messages
// Elements of K in a word.
constexpr int64_t packed_word(DType dtype) { return dtype == DType::kI8 ? 4 : dtype == DType::kBF16 ? 2 : 1; }
constexpr int64_t packed_depth(int64_t k, DType dtype) {
  return (k + packed_word(dtype) - 1) / packed_word(dtype) * packed_word(dtype);
}
// The form that an id names for elements of this dtype; kInvalidArgument says what is wrong with it.
absl::StatusOr<PackedForm> packed_form(uint32_t id, DType dtype);
// Elements from one column to the next of form kByColumn.
int64_t packed_pitch(int64_t k, DType dtype);
// Elements of a packed K by N matrix.
int64_t packed_elements(PackedForm form, int64_t k, int64_t n, DType dtype);

// Packs `b`, K by N, element (k, n) at k * row + n * column.
struct PackedSource {
  const void* b;
  int64_t k, n, row, column;
};
void pack(PackedForm form, const PackedSource& source, DType dtype, void* packed);

}  // namespace lathe
