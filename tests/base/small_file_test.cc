#include "base/small_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace lathe {
namespace {

TEST(SmallFile, ReadsTheWholeFileUpToTheSizeLimit) {
  const std::string path = testing::TempDir() + "lathe_small_file_" + std::to_string(getpid());
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes.push_back(static_cast<char>(i));
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_small_file(path, 10000), bytes);
  EXPECT_EQ(read_small_file(path, 10001), bytes);
  EXPECT_EQ(read_small_file(path, 9999), std::nullopt);
  std::ofstream(path, std::ios::binary | std::ios::trunc).flush();
  EXPECT_EQ(read_small_file(path, 0), "");
  unlink(path.c_str());
  EXPECT_EQ(read_small_file(path, 10000), std::nullopt);
  EXPECT_EQ(read_small_file(testing::TempDir(), 10000), std::nullopt) << "a directory";
}

// Files in /proc report no size.
TEST(SmallFile, ReadsFilesOfProc) { EXPECT_TRUE(read_small_file("/proc/self/status", 1 << 20)); }

}  // namespace
}  // namespace lathe
