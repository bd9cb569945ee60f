#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace lathe {
namespace {

TEST(StandardStreams, KeepsHigherDescriptorsAndFailures) {
  const int file = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  ASSERT_GE(file, 3);
  EXPECT_EQ(beyond_standard_streams(file), file);
  close(file);
  errno = ENOENT;
  EXPECT_EQ(beyond_standard_streams(-1), -1);
  EXPECT_EQ(errno, ENOENT);
}

// If standard input is closed, as in a daemon, the next descriptor is 0.
TEST(StandardStreams, DescriptorsStayAboveTheStandardStreams) {
  const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  ASSERT_GE(input, 3);
  ASSERT_EQ(close(STDIN_FILENO), 0);
  const int file = beyond_standard_streams(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(file, STDERR_FILENO);
  EXPECT_EQ(fcntl(file, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1) << "descriptor 0 is closed";
  int ends[2];
  {
    const StandardStreamsFilled filled;
    EXPECT_EQ(write(STDIN_FILENO, "x", 1), 1) << "standard input is /dev/null meanwhile";
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  }
  EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1) << "standard input is closed again";
  EXPECT_GT(ends[0], STDERR_FILENO);
  char byte = 0;
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  for (const int fd : {file, ends[0], ends[1]}) close(fd);
  ASSERT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
  close(input);
}

}  // namespace
}  // namespace lathe
