// Packed weights: operand B of a matmul or matmul_argmax, laid out once in the order in which the CPU's "packed"
// kernels read it. One layout serves every M and every instruction set.
//
// Layout kColumns16: panels of 16 columns, one after the other. Inside a panel, words of w elements of one
// column follow each other along N, then along K. w is 4 for i8, 2 for bf16 and 1 otherwise, because the
// dot-product instructions multiply 4 bytes or 2 bf16 at a time. K is rounded up to whole words and N to whole
// panels, padded with 0. Element (k, n) is at (n / 16 * K + k / w * w) * 16 + n % 16 * w + k % w.
//
// Block formats use the same panels. The blocks of 16 columns lie side by side, piece by piece: the bytes before the
// codes' first whole word (a scale of 2 bytes, or 1), then words of 4 bytes, then what is left. The piece that begins
// at byte i of the block and has s bytes is, for column n, at byte 16 * p + n % 16 * s of the 16 blocks. The place p is
// packed_place(): i, but for q6_k.
//
// Layout kByColumn: used for few columns, if more than a fifth of the panels would be padding. Columns follow
// each other, packed_pitch() elements apart. This is a plain COLUMN_MAJOR B with that leading dimension, so
// the kernels for unpacked B multiply it. The pitch is a whole number of cache lines but not a multiple of
// 1 KiB, so that neighbouring columns use different cache sets.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace lathe {

constexpr int64_t kPackedColumns = 16;
enum PackedLayout : int16_t { kNotPacked = 0, kColumns16 = 1, kByColumn = 2 };
// The layout for a weight with N columns. Of the formats that are only decoded to f32 (kGroups) it is kByColumn.
PackedLayout packed_layout_of(int64_t n);
PackedLayout packed_layout_of(int64_t n, DType dtype);

// The public id: format version, dtype and layout. It lets the library refuse a weight that was packed for
// another dtype or by a release with another layout.
constexpr uint32_t packed_version(DType dtype) { return dtype == DType::kQ6_K ? 2 : 1; }
constexpr uint32_t packed_layout_id(PackedLayout layout, DType dtype) {
  return packed_version(dtype) << 16 | static_cast<uint32_t>(dtype) << 8 | static_cast<uint32_t>(layout);
}
// Whether lathe_pack_weights packs weights of this dtype.
constexpr bool is_packable(DType dtype) { return row_of(dtype).packed_word > 0; }
std::string packable_names();  // "f32, f16, bf16, i8, q4_0 ..."
// Elements of K per word.
constexpr int64_t packed_word(DType dtype) { return is_packable(dtype) ? row_of(dtype).packed_word : 1; }
constexpr int64_t packed_depth(int64_t k, DType dtype) {
  return (k + packed_word(dtype) - 1) / packed_word(dtype) * packed_word(dtype);
}
// The layout with this id. kInvalidArgument if the id has another version or dtype, or is unknown.
absl::StatusOr<PackedLayout> packed_layout_with_id(uint32_t id, DType dtype);
// Elements from one column to the next of layout kByColumn.
int64_t packed_pitch(int64_t k, DType dtype);
// Elements of a packed K by N matrix. In a block format they are whole blocks.
int64_t packed_elements(PackedLayout layout, int64_t k, int64_t n, DType dtype);

// Where the byte `at` of a block of layout kColumns16 is. q6_k begins with its scales, and each 16 bytes of upper bits
// lie between the two times 16 bytes of codes that they complete, so that kernels read a block from begin to end.
constexpr int64_t packed_place(DType dtype, int64_t at) {
  if (dtype != DType::kQ6_K) return at;
  constexpr int64_t kUpper = 128, kScales = 192, kScale = 208, kHeader = 18;
  if (at >= kScale) return at - kScale;
  if (at >= kScales) return at - kScales + kHeader - 16;
  const bool is_upper = at >= kUpper;
  const int64_t inside = is_upper ? at - kUpper : at,
                pieces = is_upper ? 2 : 4;  // of 16 bytes, for 128 elements
  const int64_t piece = inside / 16 % pieces, third = is_upper ? 1 : piece / 2 * 2;
  return kHeader + inside / (16 * pieces) * 96 + piece % 2 * 48 + third * 16 + inside % 16;
}

inline int64_t packed_bytes(PackedLayout layout, int64_t k, int64_t n, DType dtype) {
  return packed_elements(layout, k, n, dtype) / block_elements(dtype) * static_cast<int64_t>(size_of(dtype));
}

// A K by N matrix; element (k, n) is b[k * row + n * column]. In a block format `row` is 1 and `column` whole blocks.
struct PackedSource {
  const void* b;
  int64_t k, n, row, column;
};
// Writes packed_elements() elements to `packed`.
void pack(PackedLayout layout, const PackedSource& source, DType dtype, void* packed);

}  // namespace lathe
