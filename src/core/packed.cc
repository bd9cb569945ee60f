#include "core/packed.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

constexpr int64_t kWordBytes = 4, kLineBytes = kPackedColumns * kWordBytes;
// Packed weights of at least this size do not stay in a cache until they are used.
constexpr int64_t kLeastStreamed = 4 << 20;

// Copies to memory that is not read soon. Whole lines go past the caches, so that they are not read first.
void stream(const char* from, int64_t bytes, char* to) {
#ifdef __SSE2__
  const int64_t head =
      std::min<int64_t>(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % kLineBytes));
  const auto copy = [&](int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count));
    from += count, to += count, bytes -= count;
  };
  copy(head);
  for (; bytes >= kLineBytes; from += kLineBytes, to += kLineBytes, bytes -= kLineBytes)
    for (int64_t i = 0; i < kLineBytes; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  copy(bytes);
#else
  std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}
// Orders streamed lines before what this thread writes later.
void finish_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// Puts kSize bytes of each column side by side.
template <int64_t kSize>
void put_pieces(const char* from, int64_t column, int64_t width, char* to) {
  for (int64_t j = 0; j < width; ++j) std::memcpy(to + j * kSize, from + j * column, kSize);
}
// The same for 2 bytes of 16 columns.
void put_shorts(const char* from, int64_t column, char* to) {
  using Shorts = uint16_t __attribute__((vector_size(16)));
  for (int64_t j = 0; j < kPackedColumns; j += 8) {
    const auto at = [&](int64_t i) {
      uint16_t x;
      std::memcpy(&x, from + (j + i) * column, sizeof x);
      return x;
    };
    const Shorts eight = {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
    std::memcpy(to + j * static_cast<int64_t>(sizeof(uint16_t)), &eight, sizeof eight);
  }
}

// Transposes four words of each of 16 columns to four lines.
void put_four_lines(const char* from, int64_t column, char* to) {
  using Quad = uint32_t __attribute__((vector_size(16)));
  const auto load = [&](int64_t j) {
    Quad x;
    std::memcpy(&x, from + j * column, sizeof x);
    return x;
  };
  for (int64_t j = 0; j < kPackedColumns; j += 4) {
    const Quad a = load(j), b = load(j + 1), c = load(j + 2), d = load(j + 3);
    const Quad ab01 = __builtin_shufflevector(a, b, 0, 4, 1, 5),
               ab23 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Quad cd01 = __builtin_shufflevector(c, d, 0, 4, 1, 5),
               cd23 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const Quad lines[] = {
        __builtin_shufflevector(ab01, cd01, 0, 1, 4, 5), __builtin_shufflevector(ab01, cd01, 2, 3, 6, 7),
        __builtin_shufflevector(ab23, cd23, 0, 1, 4, 5), __builtin_shufflevector(ab23, cd23, 2, 3, 6, 7)};
    for (int64_t w = 0; w < 4; ++w)
      std::memcpy(to + w * kLineBytes + j * kWordBytes, &lines[w], sizeof lines[w]);
  }
}

// A block of each column, `bytes` long: the bytes before the words, the words, and what is left. Their places are those
// of `dtype`.
struct BlockForm {
  int64_t bytes, before;
  DType dtype;
};
void put_block(const char* from, int64_t column, int64_t width, const BlockForm& f, char* to) {
  constexpr int64_t kFour = 4 * kWordBytes;
  int64_t at = f.before;
  const auto pieces = [&](int64_t first, int64_t size) {
    const char* piece = from + first;
    char* out = to + packed_place(f.dtype, first) * kPackedColumns;
    if (size == 1) return put_pieces<1>(piece, column, width, out);
    if (size == 3) return put_pieces<3>(piece, column, width, out);
    if (size == kWordBytes) return put_pieces<kWordBytes>(piece, column, width, out);
    width == kPackedColumns ? put_shorts(piece, column, out) : put_pieces<2>(piece, column, width, out);
  };
  if (at > 0) pieces(0, at);
  if (width == kPackedColumns)
    for (; at + kFour <= f.bytes; at += kFour)
      put_four_lines(from + at, column, to + packed_place(f.dtype, at) * kPackedColumns);
  for (; at + kWordBytes <= f.bytes; at += kWordBytes) pieces(at, kWordBytes);
  if (at < f.bytes) pieces(at, f.bytes - at);
}

// Packs a panel of `width` columns of blocks, `column` bytes apart. The padding of the panel is 0 already.
void pack_blocks(const char* b, int64_t blocks, int64_t width, int64_t column, const BlockForm& f,
                 bool streams, char* panel) {
  alignas(kLineBytes) char staged[8192];
  const int64_t size = f.bytes * kPackedColumns, most = static_cast<int64_t>(sizeof staged) / size;
  if (width < kPackedColumns || most == 0) streams = false;
  const int64_t run = streams ? most : blocks;
  for (int64_t first = 0; first < blocks; first += run, panel += run * size) {
    const int64_t count = std::min(run, blocks - first);
    char* to = streams ? staged : panel;
    for (int64_t i = 0; i < count; ++i) put_block(b + (first + i) * f.bytes, column, width, f, to + i * size);
    if (streams) stream(staged, count * size, panel);
  }
}

// Packs a panel of `width` columns with one element per word; `row` and `column` are in bytes. If K is
// contiguous, it packs blocks of 64 elements of K, so that the output of a block stays in L1 while all columns
// are read in whole cache lines.
template <size_t kSize>
void pack_panel(const char* b, int64_t k, int64_t width, int64_t row, int64_t column, bool streams,
                char* panel) {
  constexpr int64_t kBlock = 64;
  constexpr int64_t kBytes = kSize;
  if (width < kPackedColumns) std::memset(panel, 0, static_cast<size_t>(k * kPackedColumns) * kSize);
  if (column == kBytes) {
    for (int64_t i = 0; i < k; ++i)
      std::memcpy(panel + i * kPackedColumns * kBytes, b + i * row, static_cast<size_t>(width) * kSize);
    return;
  }
  if (kBytes == kWordBytes) {
    const int64_t blocks = k / kBlock, rest = k % kBlock, packed = blocks * kBlock;
    pack_blocks(b, blocks, width, column, {kBlock * kBytes, 0, DType::kNone}, streams, panel);
    if (rest > 0)
      pack_blocks(b + packed * kBytes, 1, width, column, {rest * kBytes, 0, DType::kNone}, false,
                  panel + packed * kPackedColumns * kBytes);
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
void pack_words(const char* b, int64_t k, int64_t width, int64_t row, int64_t column, bool streams,
                char* panel) {
  constexpr int64_t kBytes = kSize, kWord = kWordBytes / kBytes;
  const int64_t whole = row == kBytes ? k / kWord : 0, words = (k + kWord - 1) / kWord;
  pack_panel<kWordBytes>(b, whole, width, kWordBytes, column, streams, panel);
  std::memset(panel + whole * kPackedColumns * kWordBytes, 0,
              static_cast<size_t>((words - whole) * kPackedColumns * kWordBytes));
  for (int64_t i = whole * kWord; i < k; ++i) {
    char* to = panel + i / kWord * kPackedColumns * kWordBytes + i % kWord * kBytes;
    for (int64_t j = 0; j < width; ++j) std::memcpy(to + j * kWordBytes, b + i * row + j * column, kSize);
  }
}

void pack_panels_of_blocks(const PackedSource& s, DType dtype, bool streams, char* packed) {
  const BlockForm form = {static_cast<int64_t>(size_of(dtype)), row_of(dtype).codes_at % 4, dtype};
  const int64_t block = block_elements(dtype), line = s.k / block * form.bytes;
  const int64_t column = s.column / block * form.bytes;
  for (int64_t j = 0; j < s.n; j += kPackedColumns) {
    const int64_t width = std::min(kPackedColumns, s.n - j);
    char* panel = packed + j * line;
    if (width < kPackedColumns) std::memset(panel, 0, static_cast<size_t>(line * kPackedColumns));
    pack_blocks(static_cast<const char*>(s.b) + j * column, s.k / block, width, column, form, streams, panel);
  }
}

void pack_columns16(const PackedSource& s, DType dtype, void* packed) {
  const bool streams = packed_bytes(kColumns16, s.k, s.n, dtype) >= kLeastStreamed;
  if (is_blocks(dtype)) {
    pack_panels_of_blocks(s, dtype, streams, static_cast<char*>(packed));
    return finish_streams();
  }
  const auto size = static_cast<int64_t>(size_of(dtype));
  const auto pack = packed_word(dtype) > 1 ? (size == 1 ? pack_words<1> : pack_words<2>)
                                           : (size == 2 ? pack_panel<2> : pack_panel<4>);
  for (int64_t j = 0; j < s.n; j += kPackedColumns)
    pack(static_cast<const char*>(s.b) + j * s.column * size, s.k, std::min(kPackedColumns, s.n - j),
         s.row * size, s.column * size, streams,
         static_cast<char*>(packed) + j * packed_depth(s.k, dtype) * size);
  finish_streams();
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
  if (id >> 16 != packed_version(dtype))
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has version ", id >> 16, ", but this library reads version ",
                     packed_version(dtype), " of ", std::string(name_of(dtype)), ": pack the weight again"));
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
