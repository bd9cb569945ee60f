#include "core/packed.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

// Packs a panel of `width` columns with one element per word; `row` and `column` are in bytes. If K is
// contiguous, it packs blocks of 64 elements of K, so that the output of a block stays in L1 while all columns
// are read in whole cache lines.
template <size_t kSize>
void pack_panel(const char* b, int64_t k, int64_t width, int64_t row, int64_t column, char* panel) {
  constexpr int64_t kBlock = 64;
  constexpr int64_t kBytes = kSize;
  if (width < kPackedColumns) std::memset(panel, 0, static_cast<size_t>(k * kPackedColumns) * kSize);
  if (column == kBytes) {
    for (int64_t i = 0; i < k; ++i)
      std::memcpy(panel + i * kPackedColumns * kBytes, b + i * row, static_cast<size_t>(width) * kSize);
    return;
  }
  for (int64_t k0 = 0; k0 < k; k0 += kBlock) {
    const int64_t end = std::min(k, k0 + kBlock);
    for (int64_t j = 0; j < width; ++j) {
      const char* from = b + j * column;
      for (int64_t i = k0; i < end; ++i)
        std::memcpy(panel + (i * kPackedColumns + j) * kBytes, from + i * row, kSize);
    }
  }
}

// Packs a panel whose 32-bit words hold several elements of K. If K is contiguous, it copies whole words.
template <size_t kSize>
void pack_words(const char* b, int64_t k, int64_t width, int64_t row, int64_t column, char* panel) {
  constexpr int64_t kBytes = kSize, kWordBytes = 4, kWord = kWordBytes / kBytes;
  const int64_t whole = row == kBytes ? k / kWord : 0, words = (k + kWord - 1) / kWord;
  pack_panel<kWordBytes>(b, whole, width, kWordBytes, column, panel);
  std::memset(panel + whole * kPackedColumns * kWordBytes, 0,
              static_cast<size_t>((words - whole) * kPackedColumns * kWordBytes));
  for (int64_t i = whole * kWord; i < k; ++i) {
    char* to = panel + i / kWord * kPackedColumns * kWordBytes + i % kWord * kBytes;
    for (int64_t j = 0; j < width; ++j) std::memcpy(to + j * kWordBytes, b + i * row + j * column, kSize);
  }
}

// Packs a panel of `width` columns of blocks, `column` bytes apart. `before`: the bytes before the words.
void pack_blocks(const char* b, int64_t blocks, int64_t width, int64_t column, int64_t bytes, int64_t before,
                 char* panel) {
  constexpr int64_t kWordBytes = 4;
  const int64_t words = (bytes - before) / kWordBytes, end = before + words * kWordBytes;
  if (width < kPackedColumns) std::memset(panel, 0, static_cast<size_t>(blocks * bytes * kPackedColumns));
  const auto piece = [&](const char* from, char* to, int64_t at, int64_t size) {
    for (int64_t j = 0; j < width; ++j)
      std::memcpy(to + at * kPackedColumns + j * size, from + j * column + at, static_cast<size_t>(size));
  };
  for (int64_t i = 0; i < blocks; ++i, b += bytes, panel += bytes * kPackedColumns) {
    if (before > 0) piece(b, panel, 0, before);
    for (int64_t at = before; at < end; at += kWordBytes)
      for (int64_t j = 0; j < width; ++j)
        std::memcpy(panel + at * kPackedColumns + j * kWordBytes, b + j * column + at, kWordBytes);
    if (end < bytes) piece(b, panel, end, bytes - end);
  }
}

void pack_panels_of_blocks(const PackedSource& s, DType dtype, char* packed) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  const int64_t block = block_elements(dtype), blocks = s.k / block, column = s.column / block * bytes;
  for (int64_t j = 0; j < s.n; j += kPackedColumns)
    pack_blocks(static_cast<const char*>(s.b) + j * column, blocks, std::min(kPackedColumns, s.n - j), column,
                bytes, row_of(dtype).codes_at % 4, packed + j * blocks * bytes);
}

void pack_columns16(const PackedSource& s, DType dtype, void* packed) {
  if (is_blocks(dtype)) return pack_panels_of_blocks(s, dtype, static_cast<char*>(packed));
  const auto size = static_cast<int64_t>(size_of(dtype));
  const auto pack = packed_word(dtype) > 1 ? (size == 1 ? pack_words<1> : pack_words<2>)
                                           : (size == 2 ? pack_panel<2> : pack_panel<4>);
  for (int64_t j = 0; j < s.n; j += kPackedColumns)
    pack(static_cast<const char*>(s.b) + j * s.column * size, s.k, std::min(kPackedColumns, s.n - j),
         s.row * size, s.column * size, static_cast<char*>(packed) + j * packed_depth(s.k, dtype) * size);
}

// Layout kByColumn: copies column by column and writes 0 from K to the pitch.
void pack_columns(const PackedSource& s, DType dtype, char* packed) {
  if (is_blocks(dtype)) {
    const int64_t block = block_elements(dtype), bytes = static_cast<int64_t>(size_of(dtype));
    const int64_t line = s.k / block * bytes, column = s.column / block * bytes;
    for (int64_t j = 0; j < s.n; ++j)
      std::memcpy(packed + j * line, static_cast<const char*>(s.b) + j * column, static_cast<size_t>(line));
    return;
  }
  const size_t size = size_of(dtype);
  const auto bytes = static_cast<int64_t>(size);
  const int64_t pitch = packed_pitch(s.k, dtype) * bytes;
  for (int64_t j = 0; j < s.n; ++j, packed += pitch) {
    const char* from = static_cast<const char*>(s.b) + j * s.column * bytes;
    if (s.row == 1)
      std::memcpy(packed, from, static_cast<size_t>(s.k) * size);
    else
      for (int64_t i = 0; i < s.k; ++i) std::memcpy(packed + i * bytes, from + i * s.row * bytes, size);
    std::memset(packed + s.k * bytes, 0, static_cast<size_t>(pitch - s.k * bytes));
  }
}

}  // namespace

std::string packable_names() {
  std::string names;
  for (const DTypeRow& row : kDTypes)
    if (is_packable(row.value)) absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  return names;
}

absl::StatusOr<PackedLayout> packed_layout_with_id(uint32_t id, DType dtype) {
  for (const PackedLayout layout : {kColumns16, kByColumn})
    if ((is_packable(dtype) || (dtype == DType::kU4x128 && layout == kByColumn)) &&
        id == packed_layout_id(layout, dtype))
      return layout;
  const std::string name = absl::StrCat("packed_layout 0x", absl::Hex(id));
  if (id >> 16 != kPackedVersion)
    return absl::InvalidArgumentError(absl::StrCat(name, " has version ", id >> 16,
                                                   ", but this library reads version ", kPackedVersion,
                                                   ": pack the weight again"));
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not a layout of ", std::string(name_of(dtype)), " weights"));
}

PackedLayout packed_layout_of(int64_t n, DType dtype) {
  return row_of(dtype).kind == DTypeKind::kGroups ? kByColumn : packed_layout_of(n);
}
PackedLayout packed_layout_of(int64_t n) {
  return 4 * (round_up(n, kPackedColumns) - n) > n ? kByColumn : kColumns16;
}

int64_t packed_pitch(int64_t k, DType dtype) {
  if (is_blocks(dtype)) return k;
  constexpr int64_t kLineBytes = 64, kSetsBytes = 1024;
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t bytes = round_up(k * size, kLineBytes);
  return (bytes > 0 && bytes % kSetsBytes == 0 ? bytes + kLineBytes : bytes) / size;
}

int64_t packed_elements(PackedLayout layout, int64_t k, int64_t n, DType dtype) {
  if (layout == kByColumn) return n * packed_pitch(k, dtype);
  return round_up(n, kPackedColumns) * packed_depth(k, dtype);
}

void pack(PackedLayout layout, const PackedSource& s, DType dtype, void* packed) {
  layout == kByColumn ? pack_columns(s, dtype, static_cast<char*>(packed)) : pack_columns16(s, dtype, packed);
}

}  // namespace lathe
