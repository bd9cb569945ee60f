// The packed layout of block formats, byte by byte as core/packed.h defines it.
#include "core/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace lathe {
namespace {

std::vector<DType> block_formats() {
  std::vector<DType> formats;
  for (const DTypeRow& row : kDTypes)
    if (row.kind == DTypeKind::kBlocks) formats.push_back(row.value);
  return formats;
}

// The number of bytes of the piece that holds byte `at` of a block, its first byte, and where that byte is.
struct Piece {
  int64_t first, size, place;
};
// q6_k: the bytes of the block from which the packed block takes 16 bytes at a time, after the scale.
constexpr int64_t kSixBitOrder[] = {192, 0, 128, 32, 16, 144, 48, 64, 160, 96, 80, 176, 112};
Piece six_bit_piece_of(int64_t at) {
  if (at >= 208) return {208, 2, 0};
  const auto* line = std::find(std::begin(kSixBitOrder), std::end(kSixBitOrder), at / 16 * 16);
  const int64_t inside = at % 16 / 4 * 4;
  return {*line + inside, 4, 2 + 16 * (line - std::begin(kSixBitOrder)) + inside};
}
Piece piece_of(int64_t at, int64_t bytes, int64_t before) {
  const int64_t words = (bytes - before) / 4, after = before + 4 * words;
  if (at < before) return {0, before, 0};
  if (at >= after) return {after, bytes - after, after};
  const int64_t first = at - (at - before) % 4;
  return {first, 4, first};
}

TEST(PackedBlocks, LieSideBySideInPanelsOf16Columns) {
  // The bytes before the first word: q4_0's scale, mxfp4's exponent; q4_k begins with words.
  EXPECT_EQ(row_of(DType::kQ4_0).codes_at % 4, 2);
  EXPECT_EQ(row_of(DType::kMXFP4).codes_at % 4, 1);
  EXPECT_EQ(row_of(DType::kQ4_K).codes_at % 4, 0);
  for (DType t : block_formats()) {
    const int64_t n = 40, panels = 48, blocks = 3, k = blocks * block_elements(t),
                  bytes = static_cast<int64_t>(size_of(t));
    const int64_t pitch = (blocks + 1) * bytes, before = row_of(t).codes_at % 4;
    std::vector<uint8_t> b(static_cast<size_t>(n * pitch));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 31 + i / 255 + 1);
    ASSERT_EQ(packed_layout_of(n), kColumns16);
    ASSERT_EQ(packed_bytes(kColumns16, k, n, t), panels * blocks * bytes) << name_of(t);
    std::vector<uint8_t> packed(static_cast<size_t>(panels * blocks * bytes), 0xff);
    pack(kColumns16, {b.data(), k, n, 1, (blocks + 1) * block_elements(t)}, t, packed.data());
    for (int64_t column = 0; column < panels; ++column)
      for (int64_t block = 0; block < blocks; ++block)
        for (int64_t at = 0; at < bytes; ++at) {
          const Piece p = t == DType::kQ6_K ? six_bit_piece_of(at) : piece_of(at, bytes, before);
          const int64_t to = (column / 16 * blocks + block) * 16 * bytes + 16 * p.place +
                             column % 16 * p.size + at - p.first;
          const int expected = column < n ? b[static_cast<size_t>(column * pitch + block * bytes + at)] : 0;
          ASSERT_EQ(packed[static_cast<size_t>(to)], expected)
              << name_of(t) << " column " << column << ", block " << block << ", byte " << at;
        }
  }
}

TEST(PackedBlocks, FewColumnsLieOneAfterTheOther) {
  for (DType t : block_formats()) {
    const int64_t n = 5, k = 2 * block_elements(t), bytes = static_cast<int64_t>(size_of(t)),
                  line = 2 * bytes;
    std::vector<uint8_t> b(static_cast<size_t>(n * (line + bytes)));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 7 + 3);
    ASSERT_EQ(packed_layout_of(n), kByColumn);
    ASSERT_EQ(packed_bytes(kByColumn, k, n, t), n * line);
    std::vector<uint8_t> packed(static_cast<size_t>(n * line));
    pack(kByColumn, {b.data(), k, n, 1, 3 * block_elements(t)}, t, packed.data());
    for (int64_t column = 0; column < n; ++column)
      for (int64_t at = 0; at < line; ++at)
        ASSERT_EQ(packed[static_cast<size_t>(column * line + at)],
                  b[static_cast<size_t>(column * (line + bytes) + at)])
            << name_of(t);
  }
}

}  // namespace
}  // namespace lathe
