// A set-user-ID program takes no directory from its caller's environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace lathe::fault {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  for (int c; (c = fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

TEST(Secure, ASetUserIdProgramHasNoStore) {
  std::string scratch = testing::TempDir() + "lathe_secure_XXXXXX";
  ASSERT_NE(mkdtemp(scratch.data()), nullptr);
  ASSERT_EQ(chmod(scratch.c_str(), 0755), 0);
  const std::string child = scratch + "/child";
  fs::copy_file(LATHE_SECURE_CHILD, child);
  const std::string call =
      "LATHE_CACHE_DIR=" + scratch + "/cache HOME=" + scratch + " XDG_CACHE_HOME=" + scratch + " " + child;
  const std::string plain = output_of(call);
  ASSERT_THAT(plain, HasSubstr("secure=0")) << plain;
  EXPECT_THAT(plain, HasSubstr("\"directory\":\"" + scratch + "/cache\""));
  const bool made =
      geteuid() == 0 && chown(child.c_str(), 65534, 65534) == 0 && chmod(child.c_str(), 04755) == 0;
  const std::string secure = made ? output_of(call) : "";
  fs::remove_all(scratch);
  if (!made || secure.find("secure=1") == std::string::npos)
    GTEST_SKIP() << "only root can make a set-user-ID program, on a file system that honours it: " << secure;
  EXPECT_THAT(secure, HasSubstr("\"directory\":\"\"")) << secure;
}

}  // namespace
}  // namespace lathe::fault
