#include "base/spinning_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

TEST(SpinningThreads, WaitsForThreadsThatStop) {
  double waited = 0;
  // Another try if this thread got no core while the other one ran.
  for (int tries = 10; tries > 0 && waited == 0; --tries) {
    SpinningThreads spinning;
    std::atomic<bool> runs{false};
    Clock::time_point end;
    std::thread spins([&] {
      end = Clock::now() + std::chrono::milliseconds(100);
      do runs = true;
      while (Clock::now() < end);
    });
    while (!runs) std::this_thread::yield();
    waited = spinning.wait();
    EXPECT_GE(Clock::now(), end);
    spins.join();
  }
  EXPECT_GT(waited, 0);
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
