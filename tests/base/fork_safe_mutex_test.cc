#include "base/fork_safe_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/per_process.h"

namespace lathe {
namespace {

// Runs `body` in a child of fork() and returns its result. If the child hangs, its alarm ends it.
template <typename Body>
bool holds_in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

// Threads change a map all the time. Each forked child must find the map complete and the mutex free.
TEST(ForkSafeMutex, ChildFindsMutexFreeAndDataComplete) {
  ForkSafeMutex mutex;
  std::map<int, int> twice;  // under mutex; each value is twice its key, and the size is even
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int n = t; !stop; n = (n + 3) % 300) {
        std::this_thread::yield();  // without it the forks would hardly get the mutex
        const ForkSafeLock lock(mutex);
        if (twice.erase(n) + twice.erase(-n - 1) == 0) twice[n] = 2 * n, twice[-n - 1] = 2 * (-n - 1);
      }
    });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(holds_in_child([&] {
      const ForkSafeLock lock(mutex);
      for (const auto& [n, value] : twice)
        if (value != 2 * n) return false;
      return twice.size() % 2 == 0;
    })) << i;
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(ForkSafeMutex, CanBeCreatedAndDestroyedDuringForks) {
  std::atomic<bool> stop{false};
  std::thread maker([&] {
    while (!stop) {
      std::vector<std::unique_ptr<ForkSafeMutex>> some;
      for (int i = 0; i < 5; ++i) some.push_back(std::make_unique<ForkSafeMutex>());
      std::swap(some[0], some[3]);
    }
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(holds_in_child([] {
      ForkSafeMutex own;
      const ForkSafeLock lock(own);
      return true;
    })) << i;
  stop = true;
  maker.join();
}

TEST(PerProcess, ChildGetsItsOwnValue) {
  PerProcess<std::atomic<int>> value;
  EXPECT_EQ(value.find(), nullptr);
  value.get() = 7;
  EXPECT_EQ(value.find(), &value.get());
  EXPECT_TRUE(holds_in_child([&] { return value.find() == nullptr && value.get() == 0; }));
  EXPECT_EQ(value.get(), 7);
}

}  // namespace
}  // namespace lathe
