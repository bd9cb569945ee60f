#include "cache/bundle.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace lathe {
namespace {

namespace fs = std::filesystem;

class BundleTest : public testing::Test {
 protected:
  BundleTest() {
    std::string pattern = (fs::temp_directory_path() / "lathe-bundle-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~BundleTest() override { fs::remove_all(directory_); }

  static Artifact artifact(const std::string& code) {
    Artifact a;
    a.code = code;
    a.metadata = "{}";
    Step step;
    step.symbol = "kernel";
    step.grid = {product(1, {{Var::kM, 4}}), constant(1), constant(1)};
    a.recipe.steps.push_back(step);
    return a;
  }
  static std::string three() {
    return make_bundle("{\"kind\":\"test\"}", {{"one", serialize(artifact("first code"))},
                                               {"two", serialize(artifact("second code"))},
                                               {"three", serialize(artifact("first code"))}});
  }
  std::string write(const std::string& bytes) {
    const std::string path = directory_ + "/b" + std::to_string(++files_);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // The code of each key, "" for a key that cannot be read. Empty if the bundle is rejected.
  static std::vector<std::string> read_all(const std::string& path) {
    const auto bundle = Bundle::open(path);
    if (!bundle.ok()) return {};
    std::vector<std::string> codes;
    for (const char* key : {"one", "two", "three"}) {
      const absl::StatusOr<Artifact> a = (*bundle)->read(key_from_text(key));
      codes.push_back(a.ok() ? a->code : "");
    }
    return codes;
  }

  std::string directory_;
  int files_ = 0;
};

TEST_F(BundleTest, ReturnsWhatWasStored) {
  const auto bundle = Bundle::open(write(three()));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->size(), 3u);
  EXPECT_EQ((*bundle)->about(), "{\"kind\":\"test\"}");
  for (const auto& [key, code] :
       {std::pair{"one", "first code"}, {"two", "second code"}, {"three", "first code"}}) {
    const absl::StatusOr<Artifact> a = (*bundle)->read(key_from_text(key));
    ASSERT_TRUE(a.ok()) << a.status();
    EXPECT_EQ(a->code, code);
    EXPECT_EQ(a->recipe.steps.at(0).symbol, "kernel");
  }
  for (int n = 4; n < 40; ++n)  // fingerprints before, between and after the stored ones
    EXPECT_TRUE(absl::IsNotFound((*bundle)->read(key_from_text(std::to_string(n))).status())) << n;
}

TEST_F(BundleTest, EqualPayloadsAreStoredOnce) {
  const std::string payload = serialize(artifact(std::string(10000, 'x')));
  const std::string one = make_bundle("", {{"a", payload}}),
                    two = make_bundle("", {{"a", payload}, {"b", payload}});
  EXPECT_LT(two.size(), one.size() + 200);
}

TEST_F(BundleTest, AcceptsEmptyBundle) {
  const auto bundle = Bundle::open(write(make_bundle("", {})));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->size(), 0u);
  EXPECT_TRUE(absl::IsNotFound((*bundle)->read(key_from_text("one")).status()));
}

TEST_F(BundleTest, StaysReadableWhenItsFileIsReplaced) {
  const std::string path = write(three());
  const auto bundle = Bundle::open(path);
  ASSERT_TRUE(bundle.ok());
  fs::remove(path);
  EXPECT_TRUE((*bundle)->read(key_from_text("two")).ok());
}

TEST_F(BundleTest, ErrorNamesTheFileThatIsNoBundle) {
  for (const std::string& path : {directory_ + "/absent", directory_, write(""), write("LATHEBDL")}) {
    const auto bundle = Bundle::open(path);
    ASSERT_FALSE(bundle.ok()) << path;
    EXPECT_NE(bundle.status().message().find(path), absl::string_view::npos) << bundle.status();
  }
  EXPECT_TRUE(absl::IsNotFound(Bundle::open(directory_ + "/absent").status()));
}

TEST_F(BundleTest, RejectsEveryTruncation) {
  const std::string whole = three();
  for (size_t size = 0; size < whole.size(); ++size)
    ASSERT_TRUE(read_all(write(whole.substr(0, size))).empty()) << size;
  EXPECT_TRUE(read_all(write(whole + "x")).empty());
}

// A flipped bit in the index must reject the bundle; one in a payload must reject the keys of that payload
// only.
TEST_F(BundleTest, DetectsEveryFlippedBit) {
  const std::string whole = three();
  const std::vector<std::string> right = read_all(write(whole));
  ASSERT_EQ(right.size(), 3u);
  const std::string path = write(whole);
  // Change bytes in place: some file systems sync a file that is written anew, which takes milliseconds.
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  size_t refused = 0, damaged = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    const auto at = static_cast<off_t>(bit / 8);
    const char flipped = static_cast<char>(whole[bit / 8] ^ 1 << bit % 8);
    ASSERT_EQ(pwrite(file, &flipped, 1, at), 1);
    const std::vector<std::string> codes = read_all(path);
    ASSERT_EQ(pwrite(file, &whole[bit / 8], 1, at), 1);
    if (codes.empty()) {
      ++refused;
      continue;
    }
    size_t missing = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      if (codes[i].empty())
        ++missing;
      else
        ASSERT_EQ(codes[i], right[i]) << "bit " << bit;
    }
    ASSERT_GT(missing, 0u) << "bit " << bit << " makes no difference";
    ++damaged;
  }
  ::close(file);
  EXPECT_EQ(read_all(path), right);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(damaged, 0u);
}

// A bundle with changed fields and correct checksums. No accident makes one, so the parser must check each
// field. The offsets are those in bundle.h.
class ForgedBundle {
 public:
  explicit ForgedBundle(std::string whole) : bytes(std::move(whole)) {}

  template <typename T>
  ForgedBundle& set(size_t at, T value) {
    memcpy(&bytes[at], &value, sizeof(value));
    return *this;
  }
  template <typename T>
  T get(size_t at) const {
    T value;
    memcpy(&value, &bytes[at], sizeof(value));
    return value;
  }
  // Offset of a field in index row i. Fields: 16 key position, 24 key length, 28 codec, 32 payload position, 40
  // payload length, 48 checksum.
  static size_t row(size_t i, size_t field) { return 56 + i * 64 + field; }
  ForgedBundle& put_payload(const std::string& stored) {  // for a bundle with one row
    bytes.resize(get<uint64_t>(row(0, 32)));
    bytes += stored;
    set<uint64_t>(row(0, 40), stored.size()).set<uint64_t>(32, bytes.size());
    return checksum(row(0, 48), stored);
  }
  std::string sealed() {
    const uint64_t index = std::min<uint64_t>(get<uint64_t>(16), bytes.size() - 56);
    checksum(40, bytes.substr(0, 40) + bytes.substr(56, index));
    return bytes;
  }
  std::string bytes;

 private:
  ForgedBundle& checksum(size_t at, const std::string& of) {
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(of.data(), of.size()));
    memcpy(&bytes[at], digest.digest, sizeof(digest.digest));
    return *this;
  }
};

TEST_F(BundleTest, RejectsWrongIndexFieldsByName) {
  const auto refusal = [&](const std::string& bytes) {
    return std::string(Bundle::open(write(bytes)).status().message());
  };
  const auto row = ForgedBundle::row;
  const std::string whole = three();
  ASSERT_EQ(refusal(ForgedBundle(whole).sealed()), "") << "the unchanged bundle is valid";
  using testing::HasSubstr;
  const char* fit = "the sizes in its header are inconsistent";
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint32_t>(8, 2).sealed()), HasSubstr("schema 2, expected 1"));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(32, 7).sealed()), HasSubstr("its header says 7"));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint32_t>(12, 1000).sealed()), HasSubstr(fit));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(16, uint64_t{1} << 29).sealed()), HasSubstr(fit));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(16, whole.size() - 55).sealed()), HasSubstr(fit));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(24, whole.size()).sealed()), HasSubstr(fit));
  for (const size_t field : {16, 32})
    for (const uint64_t at : {uint64_t{0}, uint64_t{whole.size() + 1}, UINT64_MAX})
      EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(row(1, field), at).sealed()),
                  HasSubstr("index row 1 points outside"));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint32_t>(row(2, 24), 1 << 30).sealed()),
              HasSubstr("index row 2 points outside"));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint64_t>(row(2, 40), UINT64_MAX).sealed()),
              HasSubstr("index row 2 points outside"));
  EXPECT_THAT(refusal(ForgedBundle(whole).set<uint32_t>(row(0, 28), 2).sealed()),
              HasSubstr("index row 0 has the unknown codec 2"));
  // A key that does not match its fingerprint; two rows in the wrong order; a row that occurs twice.
  ForgedBundle other(whole);
  ++other.bytes[other.get<uint64_t>(row(0, 16))];
  EXPECT_THAT(refusal(other.sealed()), HasSubstr("index row 0 is out of order"));
  ForgedBundle swapped(whole), twice(whole);
  std::swap_ranges(swapped.bytes.begin() + 56, swapped.bytes.begin() + 120, swapped.bytes.begin() + 120);
  EXPECT_THAT(refusal(swapped.sealed()), HasSubstr("index row 1 is out of order"));
  std::copy_n(twice.bytes.begin() + 56, 64, twice.bytes.begin() + 120);
  EXPECT_THAT(refusal(twice.sealed()), HasSubstr("index row 1 is out of order"));
}

TEST_F(BundleTest, RejectsWrongPayloads) {
  const std::string whole = make_bundle("", {{"one", serialize(artifact(std::string(4000, 'x')))}});
  const auto refusal = [&](ForgedBundle forged) {
    const auto bundle = Bundle::open(write(forged.sealed()));
    return bundle.ok() ? std::string((*bundle)->read(key_from_text("one")).status().message()) : "not opened";
  };
  const std::string frame = whole.substr(ForgedBundle(whole).get<uint64_t>(ForgedBundle::row(0, 32)));
  ASSERT_EQ(refusal(ForgedBundle(whole).put_payload(frame)), "") << "the unchanged bundle is valid";
  using testing::HasSubstr;
  EXPECT_THAT(refusal(ForgedBundle(whole).put_payload("garbage")),
              HasSubstr("its zstd frame has no valid size"));
  // The frame's header declares one segment of 2^29 bytes.
  EXPECT_THAT(
      refusal(ForgedBundle(whole).put_payload(std::string("\x28\xb5\x2f\xfd\xe0\0\0\0\x20\0\0\0\0", 13))),
      HasSubstr("its zstd frame has no valid size"));
  EXPECT_THAT(refusal(ForgedBundle(whole).put_payload(frame.substr(0, frame.size() - 3))),
              HasSubstr("cannot decompress"));
  EXPECT_THAT(refusal(ForgedBundle(whole).put_payload(frame).set<uint32_t>(ForgedBundle::row(0, 28), 0)),
              HasSubstr("artifact: "));
  EXPECT_THAT(refusal(ForgedBundle(whole).put_payload("").set<uint32_t>(ForgedBundle::row(0, 28), 0)),
              HasSubstr("0 bytes are less than a header"));
}

TEST_F(BundleTest, ReportsTruncationOfAnOpenFile) {
  const std::string path = write(three());
  const auto bundle = Bundle::open(path);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>((*bundle)->payload_at(0))), 0);
  for (const char* key : {"one", "two", "three"})
    EXPECT_TRUE(absl::IsDataLoss((*bundle)->read(key_from_text(key)).status())) << key;
}

TEST_F(BundleTest, RejectsMissingFileAndDirectory) {
  EXPECT_TRUE(absl::IsNotFound(Bundle::open(directory_ + "/nothing").status()));
  EXPECT_THAT(std::string(Bundle::open(directory_).status().message()),
              testing::HasSubstr("not a regular file"));
}

TEST_F(BundleTest, StoresIncompressiblePayloadsUncompressed) {
  std::string noise(3000, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const auto bundle = Bundle::open(write(make_bundle("", {{"one", noise}})));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ((*bundle)->payload(0).value(), noise);
  EXPECT_EQ((*bundle)->stored_bytes(0), noise.size());
}

TEST_F(BundleTest, RejectsPayloadAboveTheSizeLimit) {
  ForgedBundle huge(make_bundle("", {{"one", serialize(artifact("code"))}}));
  const uint64_t payload = (uint64_t{1} << 28) + 1;
  const uint64_t bytes = huge.get<uint64_t>(ForgedBundle::row(0, 32)) + payload;
  const std::string path = write(huge.set(ForgedBundle::row(0, 40), payload).set(32, bytes).sealed());
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes)), 0);  // a sparse file, which takes no space
  EXPECT_THAT(std::string(Bundle::open(path).status().message()), testing::HasSubstr("points outside"));
}

}  // namespace
}  // namespace lathe
