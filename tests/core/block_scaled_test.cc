#include "core/block_scaled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lathe {
namespace {

StoredScales scales_of(DType element, DType scale, int64_t block, ScaleLayout layout, const void* data) {
  StoredScales s;
  s.data = data;
  s.format = find_scaled_format(element, scale, block);
  s.layout = layout;
  return s;
}

TEST(BlockScaled, FindsItsFormatsOnly) {
  for (const ScaledFormat& f : kScaledFormats) {
    EXPECT_EQ(find_scaled_format(f.element, f.scale, f.block), &f);
    const int64_t each = elements_of_scale(f.blocks);
    EXPECT_EQ(row_of(f.blocks).elements % each, 0);
    EXPECT_EQ(f.block % each, 0);
    EXPECT_EQ(row_of(f.blocks).apart,
              row_of(f.blocks).elements / each * static_cast<int64_t>(size_of(f.scale)));
    EXPECT_EQ(row_of(f.blocks).bytes, scaled_bytes(f.element, row_of(f.blocks).elements));
  }
  EXPECT_EQ(find_scaled_format(DType::kF8E4M3, DType::kF32, 64), nullptr);
  EXPECT_EQ(find_scaled_format(DType::kF8E5M2, DType::kF32, 128), nullptr);
}

// The positions are those of the comments in lathe/types.h, computed by hand.
TEST(BlockScaled, ReadsScalesWhereTheLayoutPutsThem) {
  std::vector<uint8_t> bytes(3 * 4096, 0);
  std::vector<uint8_t> line(6);
  const auto expect = [&](ScaleLayout layout, int64_t leading, int64_t stride, int64_t at) {
    StoredScales s = scales_of(DType::kF8E4M3, DType::kF8E8M0, 32, layout, bytes.data());
    s.blocks = 6;
    s.leading = leading;
    s.stride = stride;
    bytes.assign(bytes.size(), 0);
    bytes[static_cast<size_t>(at)] = 77;
    s.read_plain(/*matrix=*/1, /*line=*/113, line.data());
    EXPECT_EQ(line, (std::vector<uint8_t>{0, 0, 0, 0, 0, 77})) << static_cast<int>(layout);
  };
  expect(ScaleLayout::kByLine, 7, 1000, 1000 + 113 * 7 + 5);
  expect(ScaleLayout::kByBlock, 120, 1000, 1000 + 5 * 120 + 113);
  expect(ScaleLayout::kPackedByFour, 116, 400, 4 * (400 + 1 * 116 + 113) + 1);
  expect(ScaleLayout::kTiled, 0, 1024, 1024 + 512 + 113 % 32 * 16 + 113 / 32 * 4 + 1);
}

// Kernels have no E8M0 blocks of 128 elements, but four of 32.
TEST(BlockScaled, FourBlocksShareAnE8M0ScaleOf128) {
  std::vector<uint8_t> bytes(4096, 0), line(24);
  std::vector<float> scales(6);
  const auto expect = [&](ScaleLayout layout, int64_t lines_each, int64_t leading, int64_t at) {
    StoredScales s = scales_of(DType::kF8E4M3, DType::kF8E8M0, 128, layout, bytes.data());
    s.blocks = 6, s.leading = leading, s.lines_each = lines_each;
    bytes.assign(bytes.size(), 0);
    bytes[static_cast<size_t>(at)] = 128;
    s.read_plain(/*matrix=*/0, /*line=*/133, line.data());
    std::vector<uint8_t> want(24, 0);
    std::fill(want.end() - 4, want.end(), uint8_t{128});
    EXPECT_EQ(line, want) << static_cast<int>(layout);
    s.read_line(0, 133, scales.data());
    EXPECT_EQ(scales.back(), 2.0f) << static_cast<int>(layout);
  };
  expect(ScaleLayout::kByLine, 1, 7, 133 * 7 + 5);
  expect(ScaleLayout::kByLine, 128, 7, 7 + 5);
  expect(ScaleLayout::kByBlock, 128, 9, 5 * 9 + 1);
  expect(ScaleLayout::kPackedByFour, 128, 9, 4 * (9 + 1) + 1);
  expect(ScaleLayout::kTiled, 1, 0, 2 * 512 + 512 + 5 * 16 + 1);
}

TEST(BlockScaled, SpansReachTheLastScale) {
  StoredScales s = scales_of(DType::kF8E4M3, DType::kF32, 128, ScaleLayout::kByLine, nullptr);
  s.blocks = 6, s.leading = 7, s.stride = 100, s.lines_each = 128;
  EXPECT_EQ(s.span(/*lines=*/129, /*matrices=*/2), 4 * (100 + 7 + 6)) << "two groups of columns";
  EXPECT_EQ(s.span(0, 2), 0);
  s = scales_of(DType::kF8E4M3, DType::kF8E8M0, 32, ScaleLayout::kTiled, nullptr);
  s.blocks = 6;
  EXPECT_EQ(s.span(129, 1), 2 * 2 * 512);
  s.layout = ScaleLayout::kPackedByFour, s.leading = 40;
  EXPECT_EQ(s.span(33, 1), 4 * (40 + 33));
}

TEST(BlockScaled, DecodesElements) {
  const float scale = 0.5f;
  std::vector<uint8_t> codes(128, 0);
  std::vector<float> values(128);
  const auto decoded = [&](DType element, std::initializer_list<int> first) {
    const bool e4m3 = element == DType::kF8E4M3;
    const uint8_t half = 126;
    StoredScales s = e4m3 ? scales_of(element, DType::kF32, 128, ScaleLayout::kByLine, &scale)
                          : scales_of(element, DType::kF8E8M0, 32, ScaleLayout::kByLine, &half);
    s.blocks = 1;
    size_t i = 0;
    for (int code : first) codes[i++] = static_cast<uint8_t>(code);
    decode_line(s, 0, 0, codes.data(), e4m3 ? 128 : 32, values.data());
    return values;
  };
  std::vector<float> v = decoded(DType::kF8E4M3, {0x00, 0x01, 0x08, 0x38, 0x7e, 0xfe, 0x7f, 0xff});
  EXPECT_EQ(v[0], 0.0f);
  EXPECT_EQ(v[1], 0x1p-10f);
  EXPECT_EQ(v[2], 0x1p-7f);
  EXPECT_EQ(v[3], 0.5f);
  EXPECT_EQ(v[4], 224.0f);
  EXPECT_EQ(v[5], -224.0f);
  EXPECT_TRUE(std::isnan(v[6]) && std::isnan(v[7]));
  v = decoded(DType::kF8E5M2, {0x01, 0x3c, 0x7b, 0xfc, 0x7d});
  EXPECT_EQ(v[0], 0x1p-17f);
  EXPECT_EQ(v[1], 0.5f);
  EXPECT_EQ(v[2], 28672.0f);
  EXPECT_EQ(v[3], -INFINITY);
  EXPECT_TRUE(std::isnan(v[4]));
  v = decoded(DType::kF4E2M1, {0x21, 0x7f});
  EXPECT_EQ(v[0], 0.25f);
  EXPECT_EQ(v[1], 0.5f);
  EXPECT_EQ(v[2], -3.0f);
  EXPECT_EQ(v[3], 3.0f);
}

}  // namespace
}  // namespace lathe
