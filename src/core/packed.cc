#include "core/packed.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lathe {
namespace {

// A panel of `width` columns. Where K runs along memory, 64 of K at a time: a line of each column is read
// whole, and what is written meanwhile stays in L1.
template <typename T>
void pack_panel(const T* b, int64_t k, int64_t width, int64_t row, int64_t column, T* panel) {
  constexpr int64_t kBlock = 64;
  if (width < kPackedColumns) std::fill(panel, panel + k * kPackedColumns, T{0});
  if (column == 1) {
    for (int64_t i = 0; i < k; ++i)
      std::memcpy(panel + i * kPackedColumns, b + i * row, static_cast<size_t>(width) * sizeof(T));
    return;
  }
  for (int64_t k0 = 0; k0 < k; k0 += kBlock) {
    const int64_t end = std::min(k, k0 + kBlock);
    for (int64_t j = 0; j < width; ++j) {
      const T* from = b + j * column;
      for (int64_t i = k0; i < end; ++i) panel[i * kPackedColumns + j] = from[i * row];
    }
  }
}

template <typename T>
void pack(const PackedSource& s, T* packed) {
  const T* b = static_cast<const T*>(s.b);
  for (int64_t j = 0; j < s.n; j += kPackedColumns)
    pack_panel(b + j * s.column, s.k, std::min(kPackedColumns, s.n - j), s.row, s.column, packed + j * s.k);
}

}  // namespace

absl::StatusOr<PackedForm> packed_form(uint32_t id, DType dtype) {
  if (id == packed_layout_id(kColumns16, dtype)) return kColumns16;
  const std::string name = absl::StrFormat("packed_layout 0x%x", id);
  if (id >> 16 != kPackedVersion)
    return absl::InvalidArgumentError(absl::StrCat(name, " is of version ", id >> 16,
                                                   ", this library reads version ", kPackedVersion,
                                                   ": pack the weight anew"));
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is no layout of ", std::string(name_of(dtype)), " weights"));
}

void pack_columns16(const PackedSource& source, size_t size, void* packed) {
  if (size == 2)
    pack(source, static_cast<uint16_t*>(packed));
  else
    pack(source, static_cast<uint32_t*>(packed));
}

}  // namespace lathe
