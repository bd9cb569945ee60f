#include "core/artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lathe {
namespace {

Artifact sample() {
  Artifact a;
  a.format = CodeFormat::kHsaco;
  Step step;
  step.symbol = "matmul";
  step.grid = {product(1, {{Var::kM, 32}}), constant(1), constant(1)};
  a.recipe.steps = {step};
  a.code = std::string(
      "\x7f"
      "ELF\0\xff code",
      11);
  a.metadata = R"({"compile_milliseconds":21.5})";
  return a;
}

TEST(ArtifactTest, RoundTripsThroughBytes) {
  for (CodeFormat format :
       {CodeFormat::kElfObject, CodeFormat::kPtx, CodeFormat::kCubin, CodeFormat::kHsaco}) {
    Artifact a = sample();
    a.format = format;
    const auto back = parse_artifact(serialize(a));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->format, format);
    EXPECT_EQ(back->code, a.code);
    EXPECT_EQ(back->metadata, a.metadata);
    EXPECT_EQ(to_json(back->recipe), to_json(a.recipe));
  }
}

TEST(ArtifactTest, WritesTheDocumentedHeader) {
  const Artifact a = sample();
  const std::string bytes = serialize(a);
  const std::string recipe = to_json(a.recipe).dump();
  EXPECT_EQ(bytes.substr(0, 8), "LATHEART");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\x01\0\0\0\x04\0\0\0", 8));
  uint64_t sizes[3];
  memcpy(sizes, bytes.data() + 16, sizeof(sizes));
  EXPECT_EQ(sizes[0], recipe.size());
  EXPECT_EQ(sizes[1], a.metadata.size());
  EXPECT_EQ(sizes[2], a.code.size());
  EXPECT_EQ(bytes.substr(40), recipe + a.metadata + a.code);
}

TEST(ArtifactTest, RefusesEveryTruncationAndExtension) {
  const std::string bytes = serialize(sample());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(parse_artifact(absl::string_view(bytes).substr(0, size)).ok()) << size;
  EXPECT_FALSE(parse_artifact(bytes + "x").ok());
}

// An artifact has no checksum; the cache entry that contains it has one. So a flipped bit may be refused or read
// as other data, but it must not crash or read beyond the input.
TEST(ArtifactTest, SurvivesEveryFlippedBit) {
  const std::string bytes = serialize(sample());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto back = parse_artifact(flipped);
    if (bit < 40 * 8 && !(bit >= 12 * 8 && bit < 16 * 8)) EXPECT_FALSE(back.ok()) << "header bit " << bit;
  }
}

TEST(ArtifactTest, RefusesLengthsThatOverflow) {
  const std::string bytes = serialize(sample());
  for (size_t field = 0; field < 3; ++field) {
    for (uint64_t length : {UINT64_MAX, UINT64_MAX - 40, uint64_t{1} << 63, uint64_t{1} << 32}) {
      std::string changed = bytes;
      memcpy(&changed[16 + field * 8], &length, sizeof(length));
      EXPECT_FALSE(parse_artifact(changed).ok()) << field << " " << length;
    }
  }
  // Two lengths whose sum wraps around to the correct total.
  std::string changed = bytes;
  uint64_t sizes[3];
  memcpy(sizes, &changed[16], sizeof(sizes));
  sizes[0] += uint64_t{1} << 63;
  sizes[2] += uint64_t{1} << 63;
  memcpy(&changed[16], sizes, sizeof(sizes));
  EXPECT_FALSE(parse_artifact(changed).ok());
}

TEST(ArtifactTest, NamesTheDefect) {
  const std::string bytes = serialize(sample());
  EXPECT_THAT(std::string(parse_artifact("LATHE").status().message()), testing::HasSubstr("header"));
  std::string version = bytes;
  version[8] = 9;
  EXPECT_THAT(std::string(parse_artifact(version).status().message()), testing::HasSubstr("version 9"));
  for (const char format : {0, 7}) {
    std::string changed = bytes;
    changed[12] = format;
    EXPECT_THAT(std::string(parse_artifact(changed).status().message()),
                testing::HasSubstr("unknown code format"));
  }
  std::string magic = bytes;
  magic[0] = 'l';
  EXPECT_THAT(std::string(parse_artifact(magic).status().message()), testing::HasSubstr("wrong magic"));
  // A recipe that is not JSON, and JSON that is not a recipe.
  std::string no_json = bytes, no_recipe = bytes;
  no_json[40] = '(';
  EXPECT_THAT(std::string(parse_artifact(no_json).status().message()),
              testing::HasSubstr("artifact's recipe"));
  no_recipe[no_recipe.find("matmul") - 3] = '?';
  EXPECT_FALSE(parse_artifact(no_recipe).ok());
}

TEST(ArtifactTest, NamesEveryFormat) {
  EXPECT_EQ(name_of(CodeFormat::kElfObject), "elf");
  EXPECT_EQ(name_of(CodeFormat::kPtx), "ptx");
  EXPECT_EQ(name_of(CodeFormat::kCubin), "cubin");
  EXPECT_EQ(name_of(CodeFormat::kHsaco), "hsaco");
  EXPECT_EQ(name_of(CodeFormat::kNone), "none");
  EXPECT_EQ(name_of(CodeFormat::kSpirv), "spirv");
}

}  // namespace
}  // namespace lathe
