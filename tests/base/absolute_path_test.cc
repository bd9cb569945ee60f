#include "base/absolute_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lathe {
namespace {

namespace fs = std::filesystem;

class AbsolutePathTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::canonical(testing::TempDir()) / "lathe_absolute_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    before_ = fs::current_path();
    fs::current_path(scratch_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(scratch_);
  }
  fs::path scratch_, before_;
};

TEST_F(AbsolutePathTest, PrependsTheCurrentDirectoryToRelativePaths) {
  const std::string here = scratch_;
  EXPECT_EQ(*absolute_path("a"), here + "/a");
  EXPECT_EQ(*absolute_path("a/b c/"), here + "/a/b c/");
  EXPECT_EQ(*absolute_path("a\xff%p"), here + "/a\xff%p") << "a path is bytes";
  EXPECT_EQ(*absolute_path("/a/../b"), "/a/../b");
  EXPECT_EQ(*absolute_path(""), "") << "no path";
  fs::current_path("/");
  EXPECT_EQ(*absolute_path("a"), "/a");
}

TEST_F(AbsolutePathTest, KeepsSymbolicLinks) {
  fs::create_directories("real/inner");
  fs::create_directory_symlink("real/inner", "link");
  const fs::path up = *absolute_path("link/..");
  EXPECT_TRUE(fs::equivalent(up, "real")) << up << ": '..' is the parent of the link's target";
  EXPECT_EQ(*absolute_path("link/x"), (scratch_ / "link/x").string());
}

TEST_F(AbsolutePathTest, RejectsRelativePathWithoutCurrentDirectory) {
  fs::remove_all(scratch_);
  const absl::Status status = absolute_path("met.json").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(),
            "'met.json' is relative, and the current directory is unknown: No such file or directory");
  EXPECT_EQ(*absolute_path("/met.json"), "/met.json");
  EXPECT_EQ(*absolute_path(""), "");
}

}  // namespace
}  // namespace lathe
