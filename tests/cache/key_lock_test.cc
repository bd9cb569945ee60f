#include "cache/key_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class KeyLockTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_lock_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    directory_ = open_private_directory(scratch_).value();
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }
  KeyLock acquire(const char* name, double timeout) {
    return KeyLock::acquire(directory_.get(), name, timeout);
  }

  std::string scratch_;
  FileDescriptor directory_;
};

TEST_F(KeyLockTest, ExcludesOtherHoldersOfTheSameNameOnly) {
  const KeyLock held = acquire("a.lock", 0);
  EXPECT_TRUE(held.held());
  EXPECT_FALSE(acquire("a.lock", 0).held());
  EXPECT_TRUE(acquire("b.lock", 0).held());
}

TEST_F(KeyLockTest, LeavesNoFileBehind) {
  { const KeyLock held = acquire("a.lock", 0); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_));
  EXPECT_TRUE(acquire("a.lock", 0).held());
}

TEST_F(KeyLockTest, WaitsNoLongerThanItsTimeout) {
  const KeyLock held = acquire("a.lock", 0);
  const auto start = Clock::now();
  EXPECT_FALSE(acquire("a.lock", 0.1).held());
  EXPECT_GE(seconds_since(start), 0.1);
  EXPECT_LT(seconds_since(start), 30);
}

TEST_F(KeyLockTest, WaiterGetsTheReleasedLock) {
  auto held = std::make_unique<KeyLock>(acquire("a.lock", 0));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    held.reset();
  });
  EXPECT_TRUE(acquire("a.lock", 60).held());
  release.join();
}

TEST_F(KeyLockTest, RejectsSymbolicLinkAndMissingDirectory) {
  std::filesystem::create_symlink(scratch_ + "/target", scratch_ + "/a.lock");
  EXPECT_FALSE(acquire("a.lock", 0).held());
  EXPECT_FALSE(std::filesystem::exists(scratch_ + "/target"));
  EXPECT_FALSE(KeyLock::acquire(-1, "a.lock", 0).held());
}

// A child that was forked while the lock was held keeps the file open, but must not keep the lock.
TEST_F(KeyLockTest, ReleaseWorksWhileAForkedChildLives) {
  pid_t child = -1;
  {
    const KeyLock held = acquire("a.lock", 0);
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      pause();
      _exit(0);
    }
    // A second name for the lock file, because the release removes the first one.
    std::filesystem::create_hard_link(scratch_ + "/a.lock", scratch_ + "/kept.lock");
  }
  EXPECT_TRUE(acquire("kept.lock", 0).held());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(KeyLockTest, KilledHolderReleasesTheLock) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const KeyLock held = acquire("a.lock", 0);
    const char byte = held.held() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(acquire("a.lock", 0).held());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(acquire("a.lock", 0).held());
  close(ready[0]);
  close(ready[1]);
}

// A lock is held for a whole compile, and a daemon may have closed its standard input.
TEST_F(KeyLockTest, UsesNoStandardStreamDescriptor) {
  const int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  ASSERT_GE(input, 3);
  ASSERT_EQ(close(STDIN_FILENO), 0);
  {
    const KeyLock lock = acquire("a.lock", 0);
    EXPECT_TRUE(lock.held());
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
  }
  ASSERT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
  close(input);
}

}  // namespace
}  // namespace lathe
