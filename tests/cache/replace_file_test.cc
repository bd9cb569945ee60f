#include "cache/replace_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_fixture.h"

namespace lathe {
namespace {

class ReplaceFileTest : public CacheFixture {
 protected:
  void SetUp() override {
    CacheFixture::SetUp();
    directory_ = scratch_;
  }
  std::string path() const { return scratch_ + "/out"; }
};

TEST_F(ReplaceFileTest, ReplacesTheWholeFile) {
  for (const Durability durability : {Durability::kSynced, Durability::kWritten})
    for (const std::string& bytes : {std::string("one"), std::string(100000, 'x'), std::string()}) {
      ASSERT_TRUE(replace_file(path(), bytes, 0640, durability).ok());
      EXPECT_EQ(read_file(path()), bytes);
    }
  struct stat s;
  ASSERT_EQ(stat(path().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0640u & ~umask(umask(0)));
  EXPECT_THAT(names(), testing::ElementsAre("out"));
}

TEST_F(ReplaceFileTest, RemovesTemporariesOfEndedWritersOnly) {
  const std::string held = "out.tmp-1-0-ab", left = "out.tmp-4242-17-0123abcdef";
  const std::vector<std::string> others = {"out.tmp", "out.tmp-", "out.tmp-1-2", "out.tmp-1-2-xyz",
                                           "out.tmp-1-2-3-4", "out.tmp-a-2-3", "other.tmp-1-2-3", "out.lock",
                                           // Another machine's temporary, and a similar name.
                                           "out.tmp-00000000000000ff-1-2-3", "out.tmp-00ff-1-2-3"};
  for (const std::string& name : others) write_file(scratch_ + "/" + name, "x");
  write_file(scratch_ + "/" + held, "x");
  write_file(scratch_ + "/" + left, "x");
  const int holder = open((scratch_ + "/" + held).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  ASSERT_TRUE(replace_file(path(), "new", 0600, Durability::kSynced).ok());
  std::vector<std::string> expected = others;
  expected.insert(expected.end(), {"out", held});
  EXPECT_THAT(names(), testing::UnorderedElementsAreArray(expected));
  close(holder);
}

TEST_F(ReplaceFileTest, FailureNamesTheCauseAndKeepsTheOldFile) {
  EXPECT_TRUE(absl::IsNotFound(replace_file(scratch_ + "/none/out", "x", 0600, Durability::kSynced)));
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);
  const absl::Status status = replace_file(path(), "x", 0600, Durability::kSynced);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rename"));
  EXPECT_THAT(names(), testing::ElementsAre("out"));
}

}  // namespace
}  // namespace lathe
