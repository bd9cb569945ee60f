#include "base/idle_thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <new>
#include <thread>

namespace lathe {
namespace {

TEST(RunIdly, RunsOnAnotherThreadAtIdlePriorityAndWaits) {
  const std::thread::id here = std::this_thread::get_id();
  const int before = sched_getscheduler(0);
  std::thread::id there = here;
  int policy = -1;
  run_idly([&] {
    there = std::this_thread::get_id();
    policy = sched_getscheduler(0);
  });
  EXPECT_NE(there, here);
  EXPECT_EQ(policy, SCHED_IDLE);
  EXPECT_EQ(sched_getscheduler(0), before) << "the caller keeps its policy";
}

TEST(RunIdly, RethrowsExceptions) {
  EXPECT_THROW(run_idly([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lathe
