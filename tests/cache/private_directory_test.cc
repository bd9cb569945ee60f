#include "cache/private_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lathe {
namespace {

namespace fs = std::filesystem;

class PrivateDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_directory_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
  }
  void TearDown() override { fs::remove_all(scratch_); }
  std::string scratch_;
};

TEST_F(PrivateDirectoryTest, CreatesDirectoryAndParentsWithMode0700) {
  const mode_t before = umask(0);
  const auto made = make_private_directory(scratch_ + "/a/b/c");
  umask(before);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* part : {"/a", "/a/b", "/a/b/c"}) {
    struct stat s;
    ASSERT_EQ(stat((scratch_ + part).c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 07777, 0700u) << part;
  }
  EXPECT_TRUE(make_private_directory(scratch_ + "/a/b/c").ok());
  EXPECT_TRUE(open_private_directory(scratch_ + "/a/b/c").ok());
}

TEST_F(PrivateDirectoryTest, OpeningAMissingDirectoryIsNotFoundAndCreatesNothing) {
  EXPECT_TRUE(absl::IsNotFound(open_private_directory(scratch_ + "/none").status()));
  EXPECT_TRUE(fs::is_empty(scratch_));
}

TEST_F(PrivateDirectoryTest, RejectsDirectoriesWritableByOthers) {
  const std::string path = scratch_ + "/shared";
  ASSERT_TRUE(make_private_directory(path).ok());
  for (mode_t mode : {0720, 0702, 0777, 01777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(absl::IsPermissionDenied(make_private_directory(path).status())) << std::oct << mode;
  }
  for (mode_t mode : {0700, 0755, 0750}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(make_private_directory(path).ok()) << std::oct << mode;
  }
}

TEST_F(PrivateDirectoryTest, RejectsASymbolicLinkButAcceptsLinksAmongItsParents) {
  fs::create_directory(scratch_ + "/real");
  ASSERT_EQ(chmod((scratch_ + "/real").c_str(), 0700), 0);
  fs::create_directory_symlink(scratch_ + "/real", scratch_ + "/link");
  const auto link = make_private_directory(scratch_ + "/link");
  EXPECT_TRUE(absl::IsPermissionDenied(link.status())) << link.status();
  EXPECT_THAT(std::string(link.status().message()), testing::HasSubstr("symbolic link"));
  EXPECT_TRUE(make_private_directory(scratch_ + "/link/inside").ok());
  fs::create_symlink(scratch_ + "/nowhere", scratch_ + "/dangling");
  EXPECT_FALSE(make_private_directory(scratch_ + "/dangling").ok());
  EXPECT_FALSE(fs::exists(scratch_ + "/nowhere"));
}

TEST_F(PrivateDirectoryTest, RejectsAnotherUsersDirectory) {
  // Only root can change a directory's owner; for other users the root directory belongs to somebody else.
  std::string path = "/";
  if (geteuid() == 0) {
    path = scratch_ + "/foreign";
    ASSERT_TRUE(make_private_directory(path).ok());
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  }
  struct stat s;
  ASSERT_EQ(stat(path.c_str(), &s), 0);
  const auto foreign = make_private_directory(path);
  EXPECT_TRUE(absl::IsPermissionDenied(foreign.status())) << foreign.status();
  EXPECT_THAT(std::string(foreign.status().message()),
              testing::HasSubstr("belongs to user " + std::to_string(s.st_uid)));
}

// The same rule holds for directories and files. This tests it without the rights to create such files.
TEST_F(PrivateDirectoryTest, ChecksOwnerAndMode) {
  struct stat s = {};
  s.st_uid = geteuid();
  for (mode_t kind : {S_IFDIR, S_IFREG}) {
    s.st_mode = kind | 0755;
    EXPECT_EQ(refusal_of(s), "");
    struct stat foreign = s;
    foreign.st_uid = geteuid() + 1;
    EXPECT_THAT(refusal_of(foreign), testing::HasSubstr("belongs to user " + std::to_string(geteuid() + 1)));
  }
  s.st_mode = S_IFLNK | 0777;
  EXPECT_THAT(refusal_of(s), testing::HasSubstr("symbolic link"));
}

TEST_F(PrivateDirectoryTest, ErrorNamesTheFileInTheWay) {
  const std::string file = scratch_ + "/file";
  std::ofstream(file) << "x";
  for (const std::string& path : {file, file + "/below"}) {
    const auto made = make_private_directory(path);
    EXPECT_FALSE(made.ok());
    EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr(file));
  }
}

}  // namespace
}  // namespace lathe
