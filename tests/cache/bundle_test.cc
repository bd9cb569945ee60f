#include "cache/bundle.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
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
  // The codes of the keys, "" for one that cannot be read; nothing where the bundle is refused.
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

TEST_F(BundleTest, AnswersWhatWasPutIn) {
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
  EXPECT_TRUE(absl::IsNotFound((*bundle)->read(key_from_text("four")).status()));
}

TEST_F(BundleTest, EqualPayloadsAreStoredOnce) {
  const std::string payload = serialize(artifact(std::string(10000, 'x')));
  const std::string one = make_bundle("", {{"a", payload}}),
                    two = make_bundle("", {{"a", payload}, {"b", payload}});
  EXPECT_LT(two.size(), one.size() + 200);
}

TEST_F(BundleTest, AnEmptyBundleIsABundle) {
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

TEST_F(BundleTest, RefusesWhatIsNoBundleByName) {
  for (const std::string& path : {directory_ + "/absent", directory_, write(""), write("LATHEBDL")}) {
    const auto bundle = Bundle::open(path);
    ASSERT_FALSE(bundle.ok()) << path;
    EXPECT_NE(bundle.status().message().find(path), absl::string_view::npos) << bundle.status();
  }
  EXPECT_TRUE(absl::IsNotFound(Bundle::open(directory_ + "/absent").status()));
}

TEST_F(BundleTest, EveryTruncationIsRefused) {
  const std::string whole = three();
  for (size_t size = 0; size < whole.size(); ++size)
    ASSERT_TRUE(read_all(write(whole.substr(0, size))).empty()) << size;
  EXPECT_TRUE(read_all(write(whole + "x")).empty());
}

// A flipped bit of the index refuses the bundle, one of a payload the keys that have it and no others.
TEST_F(BundleTest, EveryFlippedBitIsSeen) {
  const std::string whole = three();
  const std::vector<std::string> right = read_all(write(whole));
  ASSERT_EQ(right.size(), 3u);
  const std::string path = write(whole);
  // Bytes change in place: a file that is written anew is synced by some file systems, 4 ms each.
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

}  // namespace
}  // namespace lathe
