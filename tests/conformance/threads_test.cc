// Workers, the caller's threads, and many callers at once.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "argmax_case.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

std::vector<MatmulCase> some_matmuls() {
  std::vector<MatmulCase> cases;
  const int64_t shapes[][3] = {
      {1, 300, 2050}, {8, 257, 511}, {17, 33, 9000}, {150, 200, 260}, {64, 1000, 64}};
  for (const auto& shape : shapes) {
    MatmulCase c;
    c.m = capped(shape[0]);
    c.n = capped(shape[1]);
    c.k = capped(shape[2]);
    c.trans_b = shape[0] % 3 == 2;
    c.bias = LATHE_F32;
    c.values = Values::kSmallIntegers;
    cases.push_back(c);
  }
  cases.back().batch = 3;
  return cases;
}

class Threads : public ConformanceTest {
 protected:
  Random random_ = random_stream(6);
};

TEST_F(Threads, AnyNumberOfWorkers) {
  SKIP_UNLESS_CPU("only the CPU has workers");
  for (int32_t workers : {1, 2, 3, 7}) {
    OpenDevice device(memory_only(workers));
    ASSERT_EQ(device.status(), LATHE_OK) << lathe_last_error();
    for (const MatmulCase& c : some_matmuls())
      EXPECT_TRUE(run_case(device.get(), c, &random_)) << workers << " workers";
    ArgmaxCase a;
    a.rows = 9;
    a.n = 70001;
    a.kind = Rows::kTies;
    EXPECT_TRUE(ArgmaxRequest(a, &random_).run(device.get())) << workers << " workers";
  }
}

// A caller's parallel-for: starts new threads in each call; slot = thread; indices come from a shared counter.
struct CallersThreads {
  int32_t slots = 3;
  std::atomic<int64_t> calls{0};

  static void run(void* user, int64_t count, lathe_task_fn body, void* body_context) {
    auto* self = static_cast<CallersThreads*>(user);
    self->calls.fetch_add(1);
    std::atomic<int64_t> next{0};
    std::vector<std::thread> threads;
    for (int32_t slot = 0; slot < self->slots; ++slot) {
      threads.emplace_back([&next, count, body, body_context, slot] {
        for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(body_context, i, slot);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(Threads, CallersParallelFor) {
  SKIP_UNLESS_CPU("only the CPU has workers");
  CallersThreads callers;
  lathe_context_options options = memory_only(callers.slots);
  options.parallel_for = CallersThreads::run;
  options.parallel_for_user = &callers;
  OpenDevice device(options);
  ASSERT_EQ(device.status(), LATHE_OK) << lathe_last_error();
  for (const MatmulCase& c : some_matmuls()) EXPECT_TRUE(run_case(device.get(), c, &random_));
  ArgmaxCase a;
  a.rows = 31;
  a.n = 20011;
  EXPECT_TRUE(ArgmaxRequest(a, &random_).run(device.get()));
  EXPECT_GT(callers.calls.load(), 0) << "the library used its own threads";
}

class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int generation = generation_;
    if (++arrived_ == count_) {
      arrived_ = 0;
      ++generation_;
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return generation_ != generation; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  const int count_;
  int arrived_ = 0, generation_ = 0;
};

// Every worker calls `slice(phase, worker)` once per phase; all workers finish a phase before the next.
template <typename SliceFn>
void run_slices(int32_t phases, int32_t workers, const SliceFn& slice) {
  Barrier barrier(workers);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int32_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int32_t phase = 0; phase < phases; ++phase) {
        if (slice(phase, worker) != LATHE_OK) failures.fetch_add(1);
        barrier.wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(Threads, SlicesFromTheCallersThreads) {
  SKIP_UNLESS_CPU("only the CPU has slices");
  for (MatmulCase c : some_matmuls()) {
    for (int32_t split : {0, 5}) {
      c.split_k = split;
      MatmulRequest request(c, &random_);
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_matmul(device(), request.desc(), &plan));
      int32_t phases = 0;
      ASSERT_LATHE_OK(lathe_plan_phases(plan, &phases));
      EXPECT_GT(phases, 0);
      for (int32_t workers : {1, 2, 3, 5}) {
        size_t bytes = 0;
        ASSERT_LATHE_OK(lathe_plan_slice_workspace_bytes(plan, workers, &bytes));
        const GuardedMemory workspace(bytes, Flush::kStart);
        request.set_workspace(workspace.address(), bytes);
        request.reset_output();
        run_slices(phases, workers, [&](int32_t phase, int32_t worker) {
          return lathe_plan_run_matmul_slice(plan, request.desc(), phase, worker, workers);
        });
        EXPECT_TRUE(request.check()) << workers << " workers by slices";
        EXPECT_TRUE(workspace.canaries_intact()) << workers << " workers by slices";
      }
      lathe_plan_destroy(plan);
    }
  }
}

TEST_F(Threads, ArgmaxSlices) {
  SKIP_UNLESS_CPU("only the CPU has slices");
  ArgmaxCase c;
  c.rows = 10;
  c.n = 50021;
  c.kind = Rows::kTies;
  c.wants_values = true;
  ArgmaxRequest request(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_argmax(device(), request.desc(), &plan));
  int32_t phases = 0;
  ASSERT_LATHE_OK(lathe_plan_phases(plan, &phases));
  for (int32_t workers : {1, 2, 4}) {
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_plan_slice_workspace_bytes(plan, workers, &bytes));
    const GuardedMemory workspace(bytes, Flush::kStart);
    lathe_workspace chain = LATHE_WORKSPACE_INIT;
    chain.data = workspace.address();
    chain.bytes = bytes;
    request.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(&chain);
    request.reset_output();
    run_slices(phases, workers, [&](int32_t phase, int32_t worker) {
      return lathe_plan_run_argmax_slice(plan, request.desc(), phase, worker, workers);
    });
    EXPECT_TRUE(request.check()) << workers << " workers by slices";
  }
  lathe_plan_destroy(plan);
}

TEST_F(Threads, PlansRunManyTimesOnOtherOperands) {
  MatmulCase c;
  c.m = 20;
  c.n = 90;
  c.k = capped(333);
  c.c_mode = CMode::kSeparate;
  c.beta = 1;
  MatmulRequest planned(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), planned.desc(), &plan));
  size_t bytes = 0;
  ASSERT_LATHE_OK(lathe_plan_workspace_bytes(plan, &bytes));
  for (int64_t m = 17; m <= 32; ++m) {
    c.m = m;
    c.batch = 1 + m % 3;
    c.padding = m % 4;
    c.alpha = static_cast<float>(m);
    c.beta = -2;
    c.misalign = static_cast<size_t>(m % 5);
    MatmulRequest request(c, &random_);
    request.reset_output();
    ASSERT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, request.desc()));
    EXPECT_TRUE(request.check());
  }
  // A workspace of the caller, of exactly the size that was asked for.
  const GuardedMemory workspace(bytes, Flush::kStart);
  planned.set_workspace(workspace.address(), bytes);
  planned.reset_output();
  ASSERT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, planned.desc()));
  EXPECT_TRUE(planned.check());
  workspace.fetch();
  EXPECT_TRUE(workspace.canaries_intact());
  // A request of another class is refused.
  c.m = 33;
  MatmulRequest outside(c, &random_);
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, outside.desc()), LATHE_INVALID_ARGUMENT);
  lathe_plan_destroy(plan);
}

TEST_F(Threads, ManyCallersOfAColdDevice) {
  OpenDevice cold(memory_only(2));
  ASSERT_EQ(cold.status(), LATHE_OK) << lathe_last_error();
  constexpr int kCallers = 8;
  std::atomic<int> failures{0};
  std::mutex message_mutex;
  std::string message;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      Random random = random_stream(100 + static_cast<uint64_t>(caller));
      for (int round = 0; round < 25; ++round) {
        MatmulCase c;
        c.m = 1 + (round + caller) % 4;
        c.n = 40;
        c.k = 101;
        c.values = Values::kSmallIntegers;
        c.split_k = round % 2 ? 3 : 0;
        ArgmaxCase a;
        a.rows = 1 + caller;
        a.n = 500 + round;
        a.kind = Rows::kTies;
        for (const testing::AssertionResult& result :
             {run_case(cold.get(), c, &random), ArgmaxRequest(a, &random).run(cold.get())}) {
          if (result) continue;
          failures.fetch_add(1);
          const std::lock_guard<std::mutex> lock(message_mutex);
          message = result.message();
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures.load(), 0) << message;
  // Four M, each with and without a split, and argmax; one alignment on the CPU, two on a GPU. No kernel is compiled
  // twice.
  EXPECT_LE(cold.statistics().compiles, is_cpu() ? 9u : 10u);
}

TEST_F(Threads, CallersWithTheirOwnContexts) {
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&failures, caller] {
      Random random = random_stream(200 + caller);
      OpenDevice own(memory_only(2));
      for (const MatmulCase& c : some_matmuls()) {
        if (own.status() != LATHE_OK || !run_case(own.get(), c, &random)) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures.load(), 0);
}

}  // namespace
}  // namespace lathe::conformance
