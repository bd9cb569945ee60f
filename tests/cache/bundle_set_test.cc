#include "cache/bundle_set.h"

#include <gtest/gtest.h>

#include "cache_fixture.h"

namespace lathe {
namespace {

class BundleSetTest : public CacheFixture {
 protected:
  std::string path() const { return scratch_ + "/a.bundle"; }
  static std::string bytes() { return make_bundle("{}", {{key(1).text, serialize(artifact(key(1)))}}); }
  bool reads(BundleSet* set) {
    const absl::StatusOr<Artifact> read = set->read(key(1), &defects_);
    return read.ok() && serialize(*read) == serialize(artifact(key(1)));
  }

  uint64_t defects_ = 0;
};

TEST_F(BundleSetTest, LooksAgainForMissingBundle) {
  BundleSet set({path()}, options().logger);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(reads(&set));
  write_file(path(), bytes());
  EXPECT_TRUE(reads(&set));
  EXPECT_EQ(defects_, 0u);
  EXPECT_EQ(warnings_.size(), 1u);
}

// Reading the first bytes of /proc/self/mem fails with EIO, like a file system that fails for a moment.
TEST_F(BundleSetTest, LooksAgainForUnreadableBundle) {
  std::filesystem::create_symlink("/proc/self/mem", path());
  BundleSet set({path()}, options().logger);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(reads(&set));
  std::filesystem::remove(path());
  write_file(path(), bytes());
  EXPECT_TRUE(reads(&set));
  EXPECT_EQ(defects_, 0u) << "nothing was damaged";
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(BundleSetTest, RejectsDamagedBundleForGood) {
  write_file(path(), bytes().substr(0, 100));
  BundleSet set({path()}, options().logger);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(reads(&set));
  write_file(path(), bytes());
  EXPECT_FALSE(reads(&set));
  EXPECT_EQ(defects_, 1u);
  EXPECT_EQ(warnings_.size(), 1u);
}

}  // namespace
}  // namespace lathe
