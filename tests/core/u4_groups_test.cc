#include "core/u4_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace lathe {
namespace {

constexpr int64_t kK = 256, kN = 16, kBlock = 68;

int code(int64_t k, int64_t n) { return static_cast<int>((3 * k + 5 * n + k / 16) % 16); }
int zero(int64_t group, int64_t n) { return static_cast<int>(1 + (group + n) % 15); }
uint16_t scale(int64_t group, int64_t n) { return static_cast<uint16_t>(1000 * group + n); }

void expect_blocks(const U4Source& source) {
  std::vector<uint8_t> blocks(kN * kK / kU4Group * kBlock, 0xee);
  pack_u4_groups(source, blocks.data());
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t group = 0; group < kK / kU4Group; ++group) {
      const uint8_t* b = blocks.data() + (n * (kK / kU4Group) + group) * kBlock;
      EXPECT_EQ(b[0] | b[1] << 8, scale(group, n));
      EXPECT_EQ(b[2], source.zeros == nullptr ? 8 : zero(group, n));
      EXPECT_EQ(b[3], 0);
      for (int64_t i = 0; i < kU4Group; ++i) {
        const uint8_t byte = b[4 + i / 32 * 16 + i % 16];
        EXPECT_EQ(i % 32 < 16 ? byte & 15 : byte >> 4, code(group * kU4Group + i, n)) << n << ' ' << i;
      }
    }
}

class U4Groups : public testing::Test {
 protected:
  U4Groups() {
    for (int64_t group = 0; group < kK / kU4Group; ++group)
      for (int64_t n = 0; n < kN; ++n) scales_.push_back(scale(group, n));
  }
  U4Source source(DType dtype) const {
    return {dtype, codes_.data(), zeros_.empty() ? nullptr : zeros_.data(), scales_.data(), kK, kN, kN};
  }
  std::vector<uint32_t> codes_, zeros_;
  std::vector<uint16_t> scales_;
};

TEST_F(U4Groups, AwqOrdersColumnsEvenThenOdd) {
  constexpr int64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto word = [&](const auto& of, int64_t first) {
    uint32_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<uint32_t>(of(first + kOrder[i])) << 4 * i;
    return bits;
  };
  for (int64_t k = 0; k < kK; ++k)
    for (int64_t n = 0; n < kN; n += 8) codes_.push_back(word([&](int64_t j) { return code(k, j); }, n));
  for (int64_t group = 0; group < kK / kU4Group; ++group)
    for (int64_t n = 0; n < kN; n += 8) zeros_.push_back(word([&](int64_t j) { return zero(group, j); }, n));
  expect_blocks(source(DType::kU4Awq));
}

TEST_F(U4Groups, GptqStoresZeroPointsLessOne) {
  for (int64_t k = 0; k < kK; k += 8)
    for (int64_t n = 0; n < kN; ++n) {
      uint32_t bits = 0;
      for (int i = 0; i < 8; ++i) bits |= static_cast<uint32_t>(code(k + i, n)) << 4 * i;
      codes_.push_back(bits);
    }
  expect_blocks(source(DType::kU4Gptq));
  for (const int less : {1, 0}) {
    zeros_.clear();
    for (int64_t group = 0; group < kK / kU4Group; ++group)
      for (int64_t n = 0; n < kN; n += 8) {
        uint32_t bits = 0;
        for (int i = 0; i < 8; ++i) bits |= static_cast<uint32_t>(zero(group, n + i) - less) << 4 * i;
        zeros_.push_back(bits);
      }
    expect_blocks(source(less == 1 ? DType::kU4Gptq : DType::kU4GptqV2));
  }
}

}  // namespace
}  // namespace lathe
