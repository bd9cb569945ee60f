#include "runtime/cpu/worker_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace lathe {
namespace {

struct Trace {
  std::vector<std::atomic<int>> ran;
  std::atomic<int> scratch_errors{0};
  explicit Trace(size_t tasks) : ran(tasks) {}
};

// Writes its number to its worker's scratch, spins, and checks that the number is still there.
void traced_task(const ArgumentBlock* args, int64_t task) {
  Trace& trace = *static_cast<Trace*>(args->a);
  auto* scratch = static_cast<std::atomic<int64_t>*>(args->scratch);
  scratch->store(task, std::memory_order_relaxed);
  for (volatile int64_t spin = 0; spin < args->lda;) spin = spin + 1;
  if (scratch->load(std::memory_order_relaxed) != task) ++trace.scratch_errors;
  ++trace.ran[static_cast<size_t>(task)];
}

struct TracedStep {
  Trace trace;
  ArgumentBlock args;
  std::vector<char> scratch;
  TracedStep(int32_t workers, int64_t tasks, int64_t spins)
      : trace(static_cast<size_t>(tasks)), scratch(64u * workers) {
    args.a = &trace;
    args.lda = spins;
  }
  TaskSet tasks() { return {traced_task, &args, static_cast<int64_t>(trace.ran.size()), scratch.data(), 64}; }
  void expect_each_once() {
    for (size_t i = 0; i < trace.ran.size(); ++i) ASSERT_EQ(trace.ran[i].load(), 1) << "task " << i;
    EXPECT_EQ(trace.scratch_errors.load(), 0);
  }
};

TEST(WorkerPool, RunsEveryTaskOnce) {
  for (const int32_t workers : {2, 3, 8}) {
    WorkerPool pool(workers, workers);
    for (const int64_t tasks : {2, 3, 7, 100, 5000}) {
      TracedStep run(workers, tasks, tasks > 1000 ? 10 : 1000);
      ASSERT_TRUE(pool.try_enter());
      pool.run(run.tasks());
      pool.leave();
      run.expect_each_once();
    }
  }
}

TEST(WorkerPool, RunsManyShortStepsInARow) {
  WorkerPool pool(4, 4);
  ASSERT_TRUE(pool.try_enter());
  for (int step = 0; step < 3000; ++step) {
    TracedStep run(4, 2 + step % 7, 0);
    pool.run(run.tasks());
    run.expect_each_once();
  }
  pool.leave();
}

// Workers spin for 50 microseconds, so after this pause they are asleep and must be woken.
TEST(WorkerPool, WakesSleepers) {
  for (const int32_t processors : {4, 1}) {  // with 1, workers outnumber processors and do not spin
    WorkerPool pool(4, processors);
    for (int step = 0; step < 20; ++step) {
      TracedStep run(4, 16, 2000);
      ASSERT_TRUE(pool.try_enter());
      pool.run(run.tasks());
      pool.leave();
      run.expect_each_once();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

// More tasks than a share can count one by one.
TEST(WorkerPool, RunsVeryManyTasks) {
  WorkerPool pool(2, 2);
  TracedStep run(2, (5 << 20) + 1, 0);
  ASSERT_TRUE(pool.try_enter());
  pool.run(run.tasks());
  pool.leave();
  run.expect_each_once();
}

// The first tasks of all shares wait for each other, so each is run by the owner of its share.
struct Shares {
  static constexpr int64_t kWorkers = 3, kTasks = 14;  // shares of 5, 5 and 4 tasks
  static constexpr int64_t kFirst[kWorkers] = {0, 5, 10};
  std::atomic<int64_t> arrived{0};
  std::atomic<char*> scratch[kWorkers] = {};
};
void begin_share(const ArgumentBlock* args, int64_t index) {
  Shares& shares = *static_cast<Shares*>(args->a);
  for (int64_t w = 0; w < Shares::kWorkers; ++w) {
    if (index != Shares::kFirst[w]) continue;
    shares.scratch[w] = static_cast<char*>(args->scratch);
    ++shares.arrived;
    while (shares.arrived < Shares::kWorkers) std::this_thread::yield();
  }
}
TEST(WorkerPool, WorkersBeginWithTheirShares) {
  WorkerPool pool(Shares::kWorkers, Shares::kWorkers);
  std::vector<char> scratch(64 * Shares::kWorkers);
  for (int step = 0; step < 50; ++step) {
    Shares shares;
    ArgumentBlock args;
    args.a = &shares;
    ASSERT_TRUE(pool.try_enter());
    pool.run({begin_share, &args, Shares::kTasks, scratch.data(), 64});
    pool.leave();
    for (int64_t w = 0; w < Shares::kWorkers; ++w)
      EXPECT_EQ(shares.scratch[w].load(), scratch.data() + 64 * w) << "worker " << w;
  }
}

// Each task waits until all have started, so this passes only if that many threads run them at once.
struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<bool> failed{false};
};
void meet(const ArgumentBlock* args, int64_t) {
  Meeting& meeting = *static_cast<Meeting*>(args->a);
  ++meeting.arrived;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (meeting.arrived < 3) {
    if (std::chrono::steady_clock::now() > deadline) {
      meeting.failed = true;
      return;
    }
    std::this_thread::yield();
  }
}

TEST(WorkerPool, TasksRunConcurrently) {
  WorkerPool pool(3, 3);
  for (int i = 0; i < 3; ++i) {
    Meeting meeting;
    ArgumentBlock args;
    args.a = &meeting;
    ASSERT_TRUE(pool.try_enter());
    pool.run({meet, &args, 3, nullptr, 0});
    pool.leave();
    EXPECT_FALSE(meeting.failed);
  }
}

// Both tasks of a step wait for each other, so the worker runs one of them. Each records its thread.
struct Pair {
  std::atomic<int> arrived{0};
  std::atomic<pid_t> threads[2] = {};
};
void join_pair(const ArgumentBlock* args, int64_t index) {
  Pair& pair = *static_cast<Pair*>(args->a);
  pair.threads[index] = gettid();
  ++pair.arrived;
  while (pair.arrived < 2) std::this_thread::yield();
}

// A worker that is placed on its caller's processor, but may run elsewhere, must move and stay away.
TEST(WorkerPool, WorkersLeaveTheCallersProcessor) {
  cpu_set_t all, two, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  CPU_ZERO(&one);
  CPU_ZERO(&two);
  for (int p = 0; CPU_COUNT(&two) < 2; ++p) {
    if (!CPU_ISSET(p, &all)) continue;
    if (CPU_COUNT(&one) == 0) CPU_SET(p, &one);
    CPU_SET(p, &two);
  }
  cpu_set_t other = two, is = two;
  CPU_XOR(&other, &two, &one);
  std::thread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof two, &two), 0);
    WorkerPool pool(2, 2);
    const auto step = [&] {
      Pair pair;
      ArgumentBlock args;
      args.a = &pair;
      EXPECT_TRUE(pool.try_enter());
      pool.run({join_pair, &args, 2, nullptr, 0});
      pool.leave();
      return pair.threads[0] == gettid() ? pair.threads[1].load() : pair.threads[0].load();
    };
    const pid_t worker = step();
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    // Repeat, because the scheduler may move the worker before it meets its caller there.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!CPU_EQUAL(&is, &other) && std::chrono::steady_clock::now() < deadline) {
      ASSERT_EQ(sched_setaffinity(worker, sizeof one, &one), 0);
      ASSERT_EQ(sched_setaffinity(worker, sizeof two, &two), 0);
      step();
      ASSERT_EQ(sched_getaffinity(worker, sizeof is, &is), 0);
    }
    EXPECT_TRUE(CPU_EQUAL(&is, &other));
  }).join();
}

TEST(WorkerPool, AdmitsOneCallerAtATime) {
  WorkerPool pool(2, 2);
  ASSERT_TRUE(pool.try_enter());
  EXPECT_FALSE(pool.try_enter());
  pool.leave();
  EXPECT_TRUE(pool.try_enter());
  pool.leave();
}

TEST(WorkerPool, CallersTakeTurns) {
  WorkerPool pool(3, 3);
  std::vector<std::thread> callers;
  std::atomic<int> entered{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        if (!pool.try_enter()) continue;
        ++entered;
        TracedStep run(3, 9, 50);
        pool.run(run.tasks());
        pool.leave();
        run.expect_each_once();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(entered.load(), 0);
}

TEST(WorkerPool, UnusedPoolStartsNoThreads) {
  for (int i = 0; i < 1000; ++i) WorkerPool pool(1024, 1024);
}

// A child made by fork has none of the parent's threads.
TEST(WorkerPool, ForkedChildRunsItsTasksItself) {
  auto* pool = new WorkerPool(3, 3);
  {
    TracedStep run(3, 8, 10);
    ASSERT_TRUE(pool->try_enter());
    pool->run(run.tasks());
    pool->leave();
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    TracedStep run(3, 50, 10);
    bool right = pool->try_enter();
    if (right) pool->run(run.tasks());
    for (const auto& ran : run.trace.ran) right = right && ran.load() == 1;
    pool->leave();
    delete pool;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  delete pool;
}

}  // namespace
}  // namespace lathe
