#include "runtime/cpu/cpu_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../test_kernels.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Driver> open(int32_t workers, ParallelFor parallel_for = {}) {
  DriverOptions options;
  options.workers = workers;
  options.parallel_for = std::move(parallel_for);
  auto driver = open_cpu("cpu", options);
  if (!driver.ok()) ADD_FAILURE() << driver.status();
  return *std::move(driver);
}

std::unique_ptr<LoadedKernel> load(Driver& driver, const Artifact& artifact) {
  auto kernel = driver.load(artifact);
  if (!kernel.ok()) ADD_FAILURE() << kernel.status();
  return *std::move(kernel);
}

// An artifact that needs operands aligned to 16 bytes.
Artifact aligned_artifact() {
  Artifact artifact = test_artifact("steps", {cpu_step("nothing", 1)});
  artifact.recipe.pointer_alignment = 16;
  return artifact;
}

constexpr size_t kScratch = 100;

// Two steps: `first` with x*y*z tasks, then `second` with `seconds` tasks, which check that all tasks of
// `first` have run.
struct TwoSteps {
  TwoSteps(Driver& driver, int64_t x, int64_t y, int64_t z, int64_t seconds)
      : driver(driver),
        kernel(
            load(driver, test_artifact("steps", {cpu_step("first", x, y, z), cpu_step("second", seconds)}))),
        first(static_cast<size_t>(x * y * z) + 1),
        second(static_cast<size_t>(seconds) + 1) {
    args.a = first.data();
    args.b = second.data();
    args.c = &errors;
    args.lda = x * y * z;
    args.ldb = kScratch;
    args.m = args.n = args.k = args.batch = args.splits = 1;
    launch.kernel = kernel.get();
    launch.args = &args;
    launch.dims = {1, 1, 1, 1};
    launch.config.scratch_bytes_per_worker = kScratch;
  }
  void expect_each_once() {
    expect_each_once(first);
    expect_each_once(second);
    EXPECT_EQ(errors, 0);
    std::fill(first.begin(), first.end(), 0);
    std::fill(second.begin(), second.end(), 0);
  }
  static void expect_each_once(const std::vector<int64_t>& counters) {
    for (size_t i = 0; i + 1 < counters.size(); ++i) ASSERT_EQ(counters[i], 1) << "task " << i;
    EXPECT_EQ(counters.back(), 0) << "a task beyond the grid";
  }

  Driver& driver;
  std::unique_ptr<LoadedKernel> kernel;
  std::vector<int64_t> first, second;
  int64_t errors = 0;
  ArgumentBlock args;
  Launch launch;
};

TEST(CpuDriver, RunsEveryTaskOnceAndStepsInOrder) {
  for (const int32_t workers : {1, 2, 3, 7}) {
    auto driver = open(workers);
    EXPECT_EQ(driver->workers(), workers);
    for (const auto& [x, y, z] :
         {std::array<int64_t, 3>{1, 1, 1}, {2, 1, 1}, {5, 3, 2}, {1, 1, 64}, {97, 1, 1}}) {
      for (const int64_t seconds : {1, 9}) {
        TwoSteps steps(*driver, x, y, z, seconds);
        for (int i = 0; i < 3; ++i) {
          ASSERT_TRUE(driver->launch(steps.launch).ok());
          steps.expect_each_once();
        }
      }
    }
  }
}

TEST(CpuDriver, SkipsStepsWithEmptyGrids) {
  auto driver = open(2);
  TwoSteps steps(*driver, 0, 4, 4, 3);
  ASSERT_TRUE(driver->launch(steps.launch).ok());
  steps.expect_each_once();
}

TEST(CpuDriver, GridDependsOnTheSizes) {
  auto driver = open(2);
  Artifact artifact = test_artifact("steps", {cpu_step("first", 1), cpu_step("second", 1)});
  artifact.recipe.steps[0].grid = {product(1, {{Var::kN, 8}}), product(1, {{Var::kM, 4}}),
                                   product(1, {{Var::kBatch, 1}})};
  artifact.recipe.steps[1].grid[0] = product(1, {{Var::kM, 1}, {Var::kMerge, 1}});
  TwoSteps steps(*driver, 3, 3, 2, 10);  // 3 x 3 x 2 for n = 17..24, m = 9..12, batch = 2
  steps.kernel = load(*driver, artifact);
  steps.launch.kernel = steps.kernel.get();
  steps.launch.dims = {10, 17, 5, 2};
  steps.launch.config.splits = 2;
  ASSERT_TRUE(driver->launch(steps.launch).ok());
  steps.expect_each_once();
  steps.launch.config.splits = 1;
  ASSERT_TRUE(driver->launch(steps.launch).ok());
  TwoSteps::expect_each_once(steps.first);
  for (const int64_t count : steps.second) EXPECT_EQ(count, 0);  // nothing to merge
}

// Computes the sum over tasks of (task + 1) * m through the workspace.
struct SplitAndMerge {
  static constexpr int64_t kTasks = 40;
  SplitAndMerge(Driver& driver, int32_t m)
      : kernel(load(driver, test_artifact("steps", {cpu_step("partial", kTasks), cpu_step("merge", 1)}))) {
    args.d = &result;
    args.m = m;
    args.lda = kTasks;
    launch.kernel = kernel.get();
    launch.args = &args;
    launch.dims = {m, 1, 1, 1};
    launch.config.workspace_bytes = kTasks * 8;
  }
  bool right() const { return result == kTasks * (kTasks + 1) / 2 * args.m; }
  std::unique_ptr<LoadedKernel> kernel;
  int64_t result = 0;
  ArgumentBlock args;
  Launch launch;
};

TEST(CpuDriver, ConcurrentLaunchesUseSeparateMemory) {
  for (const int32_t workers : {1, 3}) {
    auto driver = open(workers);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        SplitAndMerge split(*driver, t + 1);
        for (int i = 0; i < 300; ++i) {
          split.result = 0;
          if (!driver->launch(split.launch).ok() || !split.right()) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

// A parallel-for with two threads per call; the first takes the even tasks.
void two_threads(int64_t count, ParallelBody body, void* context) {
  std::thread odd([&] {
    for (int64_t i = 1; i < count; i += 2) body(context, i, 1);
  });
  for (int64_t i = 0; i < count; i += 2) body(context, i, 0);
  odd.join();
}

TEST(CpuDriver, UsesTheCallersParallelFor) {
  std::atomic<int> calls{0};
  auto driver = open(2, [&](int64_t count, ParallelBody body, void* context) {
    ++calls;
    two_threads(count, body, context);
  });
  TwoSteps steps(*driver, 5, 3, 2, 4);
  ASSERT_TRUE(driver->launch(steps.launch).ok());
  steps.expect_each_once();
  EXPECT_EQ(calls.load(), 2);  // one call per step

  TwoSteps single(*driver, 1, 1, 1, 1);
  ASSERT_TRUE(driver->launch(single.launch).ok());
  single.expect_each_once();
  EXPECT_EQ(calls.load(), 2);  // single tasks run on the caller
}

TEST(CpuDriver, CallersParallelForMayRunConcurrently) {
  auto driver = open(2, two_threads);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SplitAndMerge split(*driver, t + 1);
      for (int i = 0; i < 50; ++i) {
        split.result = 0;
        if (!driver->launch(split.launch).ok() || !split.right()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(CpuDriver, RejectsParallelForWithBadWorkers) {
  for (const int32_t worker : {-1, 2, 1000000}) {
    auto driver = open(2, [worker](int64_t count, ParallelBody body, void* context) {
      for (int64_t i = 0; i < count; ++i) body(context, i, worker);
    });
    TwoSteps steps(*driver, 4, 1, 1, 1);
    const absl::Status status = driver->launch(steps.launch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("parallel-for"));
  }
}

TEST(CpuDriver, SlicesRunEveryTaskOfEveryPhaseOnce) {
  auto driver = open(1);
  for (const int32_t workers : {1, 2, 3}) {
    for (const int64_t tasks : {1, 2, 7, 24}) {
      TwoSteps steps(*driver, tasks, 1, 1, 5);
      const size_t bytes = driver->workspace_bytes(*steps.kernel, steps.launch.config, workers);
      std::vector<char> memory(bytes + 64);
      steps.launch.workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
      steps.launch.workspace_bytes = bytes;
      for (int32_t phase = 0; phase < 2; ++phase) {
        std::vector<std::thread> threads;
        for (int32_t worker = 0; worker < workers; ++worker) {
          threads.emplace_back([&, worker] {
            EXPECT_TRUE(driver->launch_slice(steps.launch, {phase, worker, workers}).ok());
          });
        }
        for (std::thread& thread : threads) thread.join();
      }
      steps.expect_each_once();
    }
  }
}

TEST(CpuDriver, SlicesAreEven) {
  auto driver = open(1);
  TwoSteps steps(*driver, 10, 1, 1, 1);
  alignas(64) static char memory[1024];
  steps.launch.workspace = memory;
  steps.launch.workspace_bytes = sizeof(memory);
  for (int32_t worker = 0; worker < 4; ++worker) {
    std::fill(steps.first.begin(), steps.first.end(), 0);
    ASSERT_TRUE(driver->launch_slice(steps.launch, {0, worker, 4}).ok());
    int64_t ran = 0;
    for (const int64_t count : steps.first) ran += count;
    EXPECT_GE(ran, 2);
    EXPECT_LE(ran, 3);
  }
}

TEST(CpuDriver, RejectsBadSlices) {
  auto driver = open(1);
  TwoSteps steps(*driver, 4, 1, 1, 1);
  EXPECT_THAT(std::string(driver->launch_slice(steps.launch, {0, 0, 1}).message()),
              HasSubstr("needs a workspace"));
  alignas(64) static char memory[1024];
  steps.launch.workspace = memory;
  steps.launch.workspace_bytes = sizeof(memory);
  for (const Slice& slice : {Slice{2, 0, 1}, Slice{-1, 0, 1}, Slice{0, 1, 1}, Slice{0, -1, 1}, Slice{0, 0, 0},
                             Slice{0, 0, 1 << 30}}) {
    EXPECT_EQ(driver->launch_slice(steps.launch, slice).code(), absl::StatusCode::kInvalidArgument);
  }
  steps.launch.workspace_bytes = driver->workspace_bytes(*steps.kernel, steps.launch.config, 2) - 1;
  EXPECT_TRUE(driver->launch_slice(steps.launch, {0, 0, 1}).ok());
  EXPECT_THAT(std::string(driver->launch_slice(steps.launch, {0, 0, 2}).message()),
              HasSubstr("workspace of"));
}

TEST(CpuDriver, UsesOnlyTheCallersWorkspace) {
  auto driver = open(1);
  auto kernel = load(*driver, test_artifact("steps", {cpu_step("report_memory", 1)}));
  void* seen[4] = {};
  ArgumentBlock args;
  args.a = seen;
  args.workspace = args.counters = args.scratch = &args;  // must not reach the kernel
  Launch launch;
  launch.kernel = kernel.get();
  launch.args = &args;
  launch.dims = {1, 1, 1, 1};

  ASSERT_TRUE(driver->launch(launch).ok());
  EXPECT_EQ(seen[0], nullptr);
  EXPECT_EQ(seen[1], nullptr);
  EXPECT_EQ(seen[2], nullptr);

  alignas(64) static char memory[256];
  launch.config.workspace_bytes = 65;
  launch.config.scratch_bytes_per_worker = 10;
  EXPECT_EQ(driver->workspace_bytes(*kernel, launch.config, 1), 128u + 64u);
  EXPECT_EQ(driver->workspace_bytes(*kernel, launch.config, 3), 128u + 3 * 64u);
  launch.workspace = memory;
  launch.workspace_bytes = 128 + 64;
  ASSERT_TRUE(driver->launch(launch).ok());
  EXPECT_EQ(seen[0], memory);
  EXPECT_EQ(seen[2], memory + 128);

  launch.workspace_bytes = 128 + 63;
  absl::Status status = driver->launch(launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("workspace of 191 bytes < 192"));
  launch.workspace = memory + 8;
  launch.workspace_bytes = 200;
  status = driver->launch(launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not aligned"));

  launch.workspace = nullptr;
  launch.workspace_bytes = 0;
  ASSERT_TRUE(driver->launch(launch).ok());
  EXPECT_NE(seen[0], nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen[0]) % 64, 0u);
  EXPECT_EQ(static_cast<char*>(seen[2]) - static_cast<char*>(seen[0]), 128);
}

TEST(CpuDriver, RejectsBadLaunches) {
  auto driver = open(2);
  auto other = open(2);
  TwoSteps steps(*driver, 1, 1, 1, 1);
  const auto refused = [&](const std::string& cause) {
    const absl::Status status = driver->launch(steps.launch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(cause));
  };
  steps.launch.stream = &steps;
  refused("stream is not NULL");
  steps.launch.stream = nullptr;
  EXPECT_THAT(std::string(other->launch(steps.launch).message()), HasSubstr("another device"));
  steps.launch.config.workspace_bytes = SIZE_MAX;
  EXPECT_EQ(driver->launch(steps.launch).code(), absl::StatusCode::kResourceExhausted);
  steps.launch.config.workspace_bytes = 0;

  auto huge = load(*driver, test_artifact("steps", {cpu_step("nothing", int64_t{1} << 30, 1 << 20, 1)}));
  steps.launch.kernel = huge.get();
  refused("tasks");
  steps.launch.kernel = nullptr;
  refused("no kernel");
}

TEST(CpuDriver, RejectsMisalignedPointers) {
  auto driver = open(1);
  auto kernel = load(*driver, aligned_artifact());
  alignas(16) char data[32];
  ArgumentBlock args;
  args.b = data;
  Launch launch;
  launch.kernel = kernel.get();
  launch.args = &args;
  EXPECT_TRUE(driver->launch(launch).ok());
  args.b = data + 8;
  EXPECT_THAT(std::string(driver->launch(launch).message()), HasSubstr("aligned to the 16 bytes"));
}

TEST(CpuDriver, CallerTasksDoTheSameAsALaunch) {
  auto driver = open(1), two_workers = open(2);
  const auto tasks = [](const TwoSteps& steps) {
    return steps.driver.caller_tasks(*steps.kernel, steps.launch.config, steps.launch.dims);
  };
  for (const auto& [x, seconds] : {std::array<int64_t, 2>{1, 0}, {5, 0}, {0, 7}}) {
    TwoSteps steps(*driver, x, 1, 1, seconds);
    ASSERT_TRUE(tasks(steps).run(&steps.args));
    steps.expect_each_once();
    steps.args.ldb = steps.launch.config.scratch_bytes_per_worker = CallerTasks::kStackBytes;
    ASSERT_TRUE(tasks(steps).run(&steps.args));
    steps.expect_each_once();
    steps.launch.config.scratch_bytes_per_worker += 1;
    EXPECT_EQ(tasks(steps).task, nullptr) << "the scratch is larger than the stack area";
    steps.launch.config.scratch_bytes_per_worker = SIZE_MAX;
    EXPECT_EQ(tasks(steps).task, nullptr);
    steps.launch.config.scratch_bytes_per_worker = 0;
    EXPECT_NE(tasks(steps).task, nullptr);
    steps.launch.config.workspace_bytes = 1;
    EXPECT_EQ(tasks(steps).task, nullptr) << "a shared workspace needs launch()";
  }
  EXPECT_EQ(tasks(TwoSteps(*driver, 2, 1, 1, 1)).task, nullptr) << "two steps need launch()";
  EXPECT_EQ(tasks(TwoSteps(*driver, 0, 1, 1, 0)).task, nullptr) << "there is nothing to call";
  EXPECT_NE(tasks(TwoSteps(*two_workers, 1, 1, 1, 0)).task, nullptr);
  EXPECT_EQ(tasks(TwoSteps(*two_workers, 2, 1, 1, 0)).task, nullptr) << "two tasks run in parallel";
  auto huge = load(*driver, test_artifact("steps", {cpu_step("nothing", int64_t{1} << 30, 1 << 20, 1)}));
  EXPECT_EQ(driver->caller_tasks(*huge, {}, {1, 1, 1, 1}).task, nullptr) << "launch() rejects it";

  auto aligned = load(*driver, aligned_artifact());
  alignas(16) char data[32];
  ArgumentBlock args;
  args.values = data;
  EXPECT_TRUE(driver->caller_tasks(*aligned, {}, {1, 1, 1, 1}).run(&args));
  args.values = data + 8;
  EXPECT_FALSE(driver->caller_tasks(*aligned, {}, {1, 1, 1, 1}).run(&args));
}

TEST(CpuDriver, KernelsMayBeDestroyedBeforeTheDriver) {
  auto driver = open(1);
  for (int i = 0; i < 20; ++i) {
    TwoSteps steps(*driver, 2, 1, 1, 1);
    ASSERT_TRUE(driver->launch(steps.launch).ok());
    steps.expect_each_once();
  }
}

}  // namespace
}  // namespace lathe
