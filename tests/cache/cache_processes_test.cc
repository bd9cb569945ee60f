// Several processes that use one cache directory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "cache_fixture.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

class CacheProcessesTest : public CacheFixture {
 protected:
  // Runs `body` in a child, whose exit status is 0 if it returns true.
  pid_t start(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    return child;
  }
  static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }
  // Appends one byte per compile; all processes share the file.
  void count_compile() const {
    const int file = open((scratch_ + "/compiles").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (write(file, "x", 1) != 1) abort();
    close(file);
  }
  size_t compiles() const { return read_file(scratch_ + "/compiles").size(); }
};

TEST_F(CacheProcessesTest, ManyProcessesOnOneKeyCompileOnce) {
  constexpr int kProcesses = 12;
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i)
    children.push_back(start([&] {
      close(gate[1]);
      char byte;
      (void)!read(gate[0], &byte, 1);  // until the parent closes the gate
      const auto result = make_cache(options())->get_or_create(key(1), [&] {
        count_compile();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return artifact(key(1));
      });
      return is_for(result, key(1));
    }));
  close(gate[0]);
  close(gate[1]);
  for (pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(names(), std::vector<std::string>{key(1).fingerprint + ".lathe"});
}

TEST_F(CacheProcessesTest, KilledCompilerBlocksNobody) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = start([&] {
    (void)make_cache(options())->get_or_create(key(1), [&] {
      if (write(ready[1], "x", 1) == 1) pause();
      return artifact(key(1));
    });
    return true;
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(names(), testing::ElementsAre(key(1).fingerprint + ".lock"));
  kill(child, SIGKILL);
  status_of(child);
  const auto before = Clock::now();
  const auto result = make_cache(options())->get_or_create(key(1), [&] { return artifact(key(1)); });
  EXPECT_TRUE(is_for(result, key(1)));
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(60));  // the lock timeout is two minutes
  EXPECT_THAT(names(), testing::ElementsAre(key(1).fingerprint + ".lathe"));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(CacheProcessesTest, WaitsForStuckCompilerUntilTheTimeout) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = start([&] {
    (void)make_cache(options())->get_or_create(key(1), [&] {
      if (write(ready[1], "x", 1) == 1) pause();
      return artifact(key(1));
    });
    return true;
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  CacheOptions impatient = options();
  impatient.lock_timeout_seconds = 0.2;
  const auto before = Clock::now();
  const auto result = make_cache(impatient)->get_or_create(key(1), [&] { return artifact(key(1)); });
  const auto waited = Clock::now() - before;
  EXPECT_TRUE(is_for(result, key(1)));
  EXPECT_EQ(result->outcome, CacheOutcome::kCompiled);
  EXPECT_GE(waited, std::chrono::milliseconds(200));
  EXPECT_LT(waited, std::chrono::seconds(60));
  // The waiter has published its entry although the lock is still held.
  EXPECT_EQ(make_cache(options())->get(key(1)).value().outcome, CacheOutcome::kDiskHit);
  kill(child, SIGKILL);
  status_of(child);
  close(ready[0]);
  close(ready[1]);
}

// While other processes publish, truncate and clear entries, readers must get the right artifact or a miss.
TEST_F(CacheProcessesTest, ReadersNeverSeeAWrongArtifact) {
  constexpr int kKeys = 4;
  std::vector<pid_t> children;
  for (int writer = 0; writer < 2; ++writer)
    children.push_back(start([&, writer] {
      for (int round = 0; round < 60; ++round) {
        const Key k = key((round + writer) % kKeys);
        const auto cache = make_cache(options());
        if (!is_for(cache->get_or_create(k, [&] { return artifact(k); }), k)) return false;
        if (round % 7 == 3 && !cache->clear().ok()) return false;
        if (round % 5 == 2) (void)!truncate(entry_path(k).c_str(), 60 + round);
      }
      return true;
    }));
  for (int reader = 0; reader < 2; ++reader)
    children.push_back(start([&] {
      for (int round = 0; round < 600; ++round) {
        const Key k = key(round % kKeys);
        const auto result = make_cache(options())->get(k);
        if (!is_for(result, k) && !absl::IsNotFound(result.status())) return false;
      }
      return true;
    }));
  for (pid_t child : children) EXPECT_EQ(status_of(child), 0);
}

// The write fails half way with EFBIG; the signal SIGXFSZ must not end the process.
TEST_F(CacheProcessesTest, FileSizeLimitDisablesOnlyTheDisk) {
  const pid_t child = start([&] {
    const rlimit limit = {100, 100};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const auto cache = make_cache(options());
    bool good = true;
    for (int n = 1; n <= 3; ++n)
      good &= is_for(cache->get_or_create(key(n), [&] { return artifact(key(n)); }), key(n));
    sigset_t pending;
    sigpending(&pending);
    return good && cache->get(key(1)).ok() && !sigismember(&pending, SIGXFSZ) && warnings_.size() == 1;
  });
  EXPECT_EQ(status_of(child), 0);
  EXPECT_THAT(names(), testing::IsEmpty());
}

}  // namespace
}  // namespace lathe
