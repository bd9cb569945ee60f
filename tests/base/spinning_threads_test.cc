#include "base/spinning_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

TEST(SpinningThreads, WaitsForThreadsThatStop) {
  SpinningThreads spinning;
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  std::atomic<bool> runs{false};
  std::thread spins([&] {
    while (Clock::now() < end) runs = true;
  });
  while (!runs) std::this_thread::yield();
  EXPECT_GT(spinning.wait(), 0);
  EXPECT_GE(Clock::now(), end);
  spins.join();
}

TEST(SpinningThreads, WaitsOnlyOnceForThreadsThatKeepWorking) {
  SpinningThreads spinning;
  std::atomic<bool> runs{false}, done{false};
  std::thread works([&] {
    while (!done) runs = true;
  });
  while (!runs) std::this_thread::yield();
  EXPECT_GE(spinning.wait(), 0.2);
  EXPECT_EQ(spinning.wait(), 0);
  done = true;
  works.join();
}

}  // namespace
}  // namespace lathe
