// The reference's block formats against the library's table and against PyPI's gguf package.
#include "reference/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "reference/numbers.h"

namespace lathe::reference {
namespace {

// The library and the reference describe the block formats separately.
TEST(Blocks, AreThoseOfTheLibrary) {
  size_t formats = 0;
  for (const DTypeRow& row : kDTypes) formats += row.kind == DTypeKind::kBlocks;
  EXPECT_EQ(block_formats().size(), formats);
  for (const BlockFormat& f : block_formats()) {
    const DTypeRow& row = row_of(static_cast<DType>(f.dtype));
    EXPECT_EQ(f.name, std::string(row.name));
    EXPECT_EQ(name_of(f.dtype), std::string(f.name));
    EXPECT_EQ(dtype_named(f.name), f.dtype);
    EXPECT_EQ(static_cast<int>(row.kind), static_cast<int>(DTypeKind::kBlocks)) << f.name;
    EXPECT_EQ(f.bytes, static_cast<size_t>(row.bytes)) << f.name;
    EXPECT_EQ(f.elements, row.elements) << f.name;
  }
}

TEST(Blocks, StoreEachElementApart) {
  for (const BlockFormat& f : block_formats()) {
    // The value of each code where all other codes are 0 and where they are the highest.
    std::vector<uint8_t> block(f.bytes, 0);
    f.store_scales(block.data(), 0.5, 7, true);
    for (int64_t other : {int64_t{0}, f.codes - 1}) {
      std::vector<float> alone(static_cast<size_t>(f.elements));
      const auto set_others = [&] {
        for (int64_t i = 0; i < f.elements; ++i) f.store(block.data(), i, other);
      };
      for (int64_t i = 0; i < f.elements; ++i) {
        set_others();
        f.store(block.data(), i, (i * 5 + 3) % f.codes);
        alone[static_cast<size_t>(i)] = f.load(block.data(), i);
      }
      for (int64_t i = 0; i < f.elements; ++i) f.store(block.data(), i, (i * 5 + 3) % f.codes);
      for (int64_t i = 0; i < f.elements; ++i)
        EXPECT_EQ(f.load(block.data(), i), alone[static_cast<size_t>(i)]) << f.name << " " << i;
    }
  }
}

TEST(Blocks, WholeValuesAreSmallIntegersTimesTheScale) {
  for (const BlockFormat& f : block_formats()) {
    std::vector<uint8_t> block(f.bytes, 0);
    bool any = false;
    for (uint64_t bits = 0; bits < 20; ++bits) {
      f.store_scales(block.data(), 0.5, bits, true);
      for (int64_t i = 0; i < f.elements; ++i) {
        f.store(block.data(), i, (i + static_cast<int64_t>(bits)) % f.codes);
        const float value = 2 * f.load(block.data(), i);
        EXPECT_EQ(value, std::nearbyint(value)) << f.name;
        EXPECT_LT(std::fabs(value), 1024) << f.name;
        any |= value != 0;
      }
    }
    EXPECT_TRUE(any) << f.name;
  }
}

std::string bytes_from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 2 <= text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

// gguf_blocks.txt is described in make_gguf_blocks.py, which made it.
TEST(Blocks, DecodeAsTheGgufPackageBitForBit) {
  std::ifstream file(LATHE_GGUF_BLOCKS);
  std::map<std::string, int> blocks;
  for (std::string name, hex, values; file >> name >> hex >> values;) {
    const BlockFormat* f = block_format(dtype_named(name));
    ASSERT_NE(f, nullptr) << name;
    const std::string bytes = bytes_from_hex(hex);
    ASSERT_EQ(bytes.size(), f->bytes);
    ASSERT_EQ(values.size(), static_cast<size_t>(f->elements) * 8);
    for (int64_t i = 0; i < f->elements; ++i) {
      const float got = f->load(reinterpret_cast<const uint8_t*>(bytes.data()), i);
      const auto wanted =
          static_cast<uint32_t>(std::stoul(values.substr(static_cast<size_t>(i) * 8, 8), nullptr, 16));
      uint32_t bits;
      std::memcpy(&bits, &got, sizeof bits);
      ASSERT_EQ(std::isnan(got) ? 0x7fc00000u : bits, wanted)
          << name << " " << blocks[name] << ", element " << i;
    }
    ++blocks[name];
  }
  EXPECT_EQ(blocks.size(), block_formats().size());
  for (const auto& [name, count] : blocks) EXPECT_EQ(count, 7) << name;
}

}  // namespace
}  // namespace lathe::reference
