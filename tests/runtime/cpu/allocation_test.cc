// Counts allocations by replacing the process's malloc. A repeated launch must make none.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../test_kernels.h"
#include "runtime/driver.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Exported from the program, so that the C++ library uses these functions, too.
#define LATHE_REPLACES __attribute__((visibility("default")))

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

LATHE_REPLACES void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
LATHE_REPLACES void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
LATHE_REPLACES void* realloc(void* data, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(data, bytes);
}
LATHE_REPLACES void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}

namespace lathe {
namespace {

struct Prepared {
  std::unique_ptr<Driver> driver;
  std::unique_ptr<LoadedKernel> kernel;
  ArgumentBlock args;
  int64_t results[8] = {};
  Launch launch;

  Prepared(int32_t workers, std::vector<Step> steps, int64_t workspace_bytes, int64_t scratch_bytes) {
    DriverOptions options;
    options.workers = workers;
    driver = *open_driver("cpu", options);
    Artifact artifact = test_artifact("steps", std::move(steps));
    kernel = *driver->load(artifact);
    args.d = results;
    args.m = 1;
    args.lda = 8;
    launch.kernel = kernel.get();
    launch.args = &args;
    launch.dims = {1, 1, 1, 1};
    launch.config.workspace_bytes = static_cast<size_t>(workspace_bytes);
    launch.config.scratch_bytes_per_worker = static_cast<size_t>(scratch_bytes);
  }
  int64_t allocations_of(int launches) {
    const int64_t before = allocations.load();
    for (int i = 0; i < launches; ++i) {
      if (!driver->launch(launch).ok()) return -1;
    }
    return allocations.load() - before;
  }
};

std::vector<Step> split_steps() { return {cpu_step("partial", 8), cpu_step("merge", 1)}; }

TEST(Allocation, CounterSeesAllocations) {
  const int64_t before = allocations.load();
  void* volatile seen = std::malloc(10);  // volatile, or the compiler would remove the pair
  std::free(seen);
  seen = operator new(3);
  operator delete(seen);
  seen = std::aligned_alloc(64, 64);
  std::free(seen);
  EXPECT_EQ(allocations.load() - before, 3);
}

TEST(Allocation, LaunchWithoutWorkspaceMakesNone) {
  Prepared prepared(1, {cpu_step("nothing", 1)}, 0, 0);
  EXPECT_EQ(prepared.allocations_of(100), 0);
}

TEST(Allocation, WorkspaceThatFitsTheStackMakesNone) {
  Prepared prepared(1, split_steps(), 64, 100);
  EXPECT_EQ(prepared.allocations_of(100), 0);
  EXPECT_EQ(prepared.results[0], 36);
}

TEST(Allocation, LargeWorkspaceMakesOneSlabThenNone) {
  Prepared prepared(1, split_steps(), 64, 64 << 10);
  EXPECT_EQ(prepared.allocations_of(1), 1);
  EXPECT_EQ(prepared.allocations_of(100), 0);
  EXPECT_EQ(prepared.results[0], 36);
}

TEST(Allocation, CallersWorkspaceMakesNone) {
  Prepared prepared(1, split_steps(), 64, 100);
  alignas(64) static char workspace[256];
  prepared.launch.workspace = workspace;
  prepared.launch.workspace_bytes = sizeof(workspace);
  EXPECT_EQ(prepared.allocations_of(100), 0);
}

TEST(Allocation, ParallelLaunchMakesNoneAfterTheFirst) {
  Prepared prepared(3, split_steps(), 64, 100);
  EXPECT_GT(prepared.allocations_of(2), 0);                    // threads and a slab
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // let the threads finish their start
  EXPECT_EQ(prepared.allocations_of(100), 0);
}

TEST(Allocation, SliceMakesNone) {
  Prepared prepared(1, split_steps(), 64, 0);
  alignas(64) static char workspace[64];
  prepared.launch.workspace = workspace;
  prepared.launch.workspace_bytes = sizeof(workspace);
  const int64_t before = allocations.load();
  bool ok = true;
  for (int i = 0; i < 100; ++i) ok = ok && prepared.driver->launch_slice(prepared.launch, {0, 0, 1}).ok();
  EXPECT_EQ(allocations.load() - before, 0);
  EXPECT_TRUE(ok);
}

// Prints what a launch of one task costs above calling the task.
TEST(Allocation, DispatchTakesLessThanTwoMicroseconds) {
  using Clock = std::chrono::steady_clock;
  for (const bool with_scratch : {false, true}) {
    Prepared prepared(1, {cpu_step("nothing", 1)}, 0, with_scratch ? 4096 : 0);
    ASSERT_TRUE(prepared.driver->launch(prepared.launch).ok());
    std::vector<double> nanoseconds;
    for (int round = 0; round < 21; ++round) {
      const auto begin = Clock::now();
      for (int i = 0; i < 10000; ++i) ASSERT_TRUE(prepared.driver->launch(prepared.launch).ok());
      nanoseconds.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / 10000);
    }
    std::sort(nanoseconds.begin(), nanoseconds.end());
    std::printf("  launch of one task, %s: %.1f ns\n", with_scratch ? "scratch" : "no scratch",
                nanoseconds[10]);
    // Usually some tens of nanoseconds. The limit is generous and applies to the fastest round, so that a
    // busy machine passes, but a lock, a thread's wake-up or a system call on this path fails.
    EXPECT_LT(nanoseconds.front(), 2000);
  }
}

}  // namespace
}  // namespace lathe
