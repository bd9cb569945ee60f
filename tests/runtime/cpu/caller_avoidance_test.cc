#include "runtime/cpu/caller_avoidance.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lathe {
namespace {

std::vector<int> processors_of_thread() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> processors;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &set)) processors.push_back(p);
  return processors;
}

void allow(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int p : processors) CPU_SET(p, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

// Runs `body` with the list of processors, on a thread that may run only on the first of them at the start.
template <typename F>
void on_thread(F body) {
  const std::vector<int> all = processors_of_thread();
  if (all.size() < 2) GTEST_SKIP() << "one processor";
  std::thread([&] {
    allow({all[0]});
    body(all);
  }).join();
}

TEST(CallerAvoidance, LeavesTheCallersProcessor) {
  on_thread([](const std::vector<int>& all) {
    const std::vector<int> two = {all[0], all[1]};
    allow(two);
    CallerAvoidance avoidance;
    while (processors_of_thread() == two)
      avoidance.leave(sched_getcpu());  // the scheduler may move the thread, too
    for (int moves = 0; moves < 3; ++moves) {
      const int before = sched_getcpu();
      avoidance.leave(before);
      EXPECT_EQ(processors_of_thread(), std::vector<int>{all[0] + all[1] - before});
      EXPECT_EQ(sched_getcpu(), all[0] + all[1] - before);
    }
    avoidance.leave(all[0]);
    EXPECT_EQ(processors_of_thread(), std::vector<int>{all[1]});
    avoidance.leave(all[1]);  // the processor that was left before is allowed again
    EXPECT_EQ(processors_of_thread(), std::vector<int>{all[0]});
    EXPECT_EQ(sched_getcpu(), all[0]);
  });
}

TEST(CallerAvoidance, KeepsAffinitiesSetByOthers) {
  on_thread([](const std::vector<int>& all) {
    CallerAvoidance avoidance;
    avoidance.leave(all[1]);  // the thread does not run there
    avoidance.leave(-1);
    EXPECT_EQ(processors_of_thread(), std::vector<int>{all[0]});
    avoidance.leave(all[0]);  // the thread has no other processor
    EXPECT_EQ(processors_of_thread(), std::vector<int>{all[0]});
    // An affinity that somebody else sets replaces the old one.
    allow({all[0], all[1]});
    while (processors_of_thread().size() == 2) avoidance.leave(sched_getcpu());
    const int left = all[0] + all[1] - sched_getcpu();
    allow({left});
    avoidance.leave(left);
    EXPECT_EQ(processors_of_thread(), std::vector<int>{left});
  });
}

}  // namespace
}  // namespace lathe
