#include "cache/entry_file.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lathe {
namespace {

const std::string kKey = R"({"class":{"op":"matmul"}})";
const std::string kPayload("LATHEART\0\1\2\xff payload", 20);

TEST(EntryFileTest, RoundTrips) {
  for (const std::string& key : {kKey, std::string(), std::string(3000, 'k')}) {
    for (const std::string& payload : {kPayload, std::string(), std::string(100000, '\0')}) {
      const std::string bytes = make_entry(key, payload);
      const auto view = parse_entry(bytes);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(view->key_text, key);
      EXPECT_EQ(view->payload, payload);
    }
  }
}

TEST(EntryFileTest, LayoutMatchesTheDocumentation) {
  const std::string bytes = make_entry(kKey, kPayload);
  EXPECT_EQ(bytes.substr(0, 16), std::string("LATHECCH\1\0\0\0\0\0\0\0", 16));
  uint64_t sizes[2];
  memcpy(sizes, &bytes[16], sizeof(sizes));
  EXPECT_EQ(sizes[0], kKey.size());
  EXPECT_EQ(sizes[1], kPayload.size());
  EXPECT_EQ(bytes.substr(48), kKey + kPayload);
}

TEST(EntryFileTest, RejectsEveryTruncation) {
  const std::string bytes = make_entry(kKey, kPayload);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(parse_entry(absl::string_view(bytes).substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  EXPECT_FALSE(parse_entry(bytes + '\0').ok());
  EXPECT_FALSE(parse_entry(bytes + bytes).ok());
}

TEST(EntryFileTest, RejectsEveryFlippedBit) {
  const std::string bytes = make_entry(kKey, kPayload);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(parse_entry(flipped).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
}

// Moving the boundary between key and payload does not change the bytes, so the checksum must cover the
// lengths.
TEST(EntryFileTest, RejectsMovedBoundaryBetweenKeyAndPayload) {
  std::string bytes = make_entry(kKey, kPayload);
  uint64_t sizes[2];
  memcpy(sizes, &bytes[16], sizeof(sizes));
  sizes[0] -= 1;
  sizes[1] += 1;
  memcpy(&bytes[16], sizes, sizeof(sizes));
  EXPECT_FALSE(parse_entry(bytes).ok());
  sizes[0] = UINT64_MAX;  // the sum wraps to the right value
  sizes[1] = kKey.size() + kPayload.size() + 1;
  memcpy(&bytes[16], sizes, sizeof(sizes));
  EXPECT_FALSE(parse_entry(bytes).ok());
}

TEST(EntryFileTest, RejectsZeroes) {
  for (size_t size : {0, 8, 47, 48, 4096}) EXPECT_FALSE(parse_entry(std::string(size, '\0')).ok()) << size;
}

}  // namespace
}  // namespace lathe
