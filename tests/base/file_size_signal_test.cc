#include "base/file_size_signal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace lathe {
namespace {

// For a process with a file size limit of 10 bytes: whether a write past it fails with EFBIG and leaves no
// pending or blocked signal behind.
bool survives(const char* path) {
  const rlimit limit = {10, 10};
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  const char text[] = "twenty bytes of text";
  {
    const FileSizeSignalHeld held;
    if (write(file, text, 20) != 10 || write(file, text, 20) >= 0) return false;
  }
  if (errno != EFBIG) return false;
  sigset_t pending, mask;
  sigpending(&pending);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return !sigismember(&pending, SIGXFSZ) && !sigismember(&mask, SIGXFSZ);
}

TEST(FileSizeSignal, WritePastTheLimitFailsWithoutASignal) {
  const std::string path = testing::TempDir() + "lathe_file_size_" + std::to_string(getpid());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(survives(path.c_str()) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  unlink(path.c_str());
}

}  // namespace
}  // namespace lathe
