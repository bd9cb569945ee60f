// Slabs: which stream owns one, when it grows, that its counters are zero, and that captures are undisturbed.
#include "runtime/gpu/launch_memory.h"

#include <set>
#include <thread>

#include "fake_gpu.h"
#include "runtime/gpu/scopes.h"

namespace lathe {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

int32_t m_of(const fake_driver::Launch& launch) {
  return launch.parameter<int32_t>(offsetof(ArgumentBlock, m));
}

class GpuLaunchMemory : public FakeGpu {
 protected:
  GpuLaunchMemory() : kernel_(load(*driver_, artifact_of({step_of("k")}))) {}

  // Launches with these needs and returns {workspace, counters} as the kernel got them.
  std::pair<char*, char*> launch(void* stream, size_t workspace, size_t counters = 0) {
    TestLaunch l(*kernel_);
    l.launch.stream = stream;
    l.launch.config.workspace_bytes = workspace;
    l.launch.config.counters = counters;
    const absl::Status status = driver_->launch(l.launch);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return {};
    return {state_->launches.back().parameter<char*>(7 * 8), state_->launches.back().parameter<char*>(8 * 8)};
  }
  const fake_driver::Allocation& holder(const char* memory) {
    return std::prev(state_->allocations.upper_bound(reinterpret_cast<uint64_t>(memory)))->second;
  }
  size_t allocated() {
    size_t bytes = 0;
    for (const auto& [address, allocation] : state_->allocations) bytes += allocation.bytes;
    return bytes;
  }

  std::unique_ptr<Driver> driver_ = open();
  std::unique_ptr<LoadedKernel> kernel_;
};

TEST_F(GpuLaunchMemory, LaunchWithoutMemoryNeedsAllocatesNothing) {
  const auto [workspace, counters] = launch(make_stream(primary(0)), 0, 0);
  EXPECT_EQ(workspace, nullptr);
  EXPECT_EQ(counters, nullptr);
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 0);
}

TEST_F(GpuLaunchMemory, StreamKeepsItsOwnSlab) {
  auto* first = make_stream(primary(0));
  auto* second = make_stream(primary(0));
  const auto a = launch(first, 1000, 5), b = launch(second, 1000, 5);
  EXPECT_NE(a.first, b.first);
  EXPECT_NE(a.second, b.second);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.first) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.second) % 256, 0u);
  EXPECT_EQ(launch(first, 1000, 5), a);
  EXPECT_EQ(launch(second, 900, 2), b);
  EXPECT_EQ(state_->allocations.size(), 2u);
  for (int i = 0; i < 300; ++i) launch(make_stream(primary(0)), 64);
  EXPECT_EQ(launch(first, 1000, 5), a) << "it is found among hundreds of streams";
  EXPECT_EQ(state_->allocations.size(), 302u);
  kernel_.reset();
  driver_.reset();
  EXPECT_TRUE(state_->allocations.empty());
}

TEST_F(GpuLaunchMemory, WorkspaceAndCountersDoNotOverlap) {
  const size_t bytes = 5000, count = 3000;
  const auto [workspace, counters] = launch(nullptr, bytes, count);
  const fake_driver::Allocation& slab = holder(workspace);
  EXPECT_EQ(&slab, &holder(counters));
  const std::pair<char*, char*> spans[] = {{workspace, workspace + bytes}, {counters, counters + count * 4}};
  EXPECT_TRUE(spans[0].second <= spans[1].first || spans[1].second <= spans[0].first);
  for (const auto& [begin, end] : spans) EXPECT_LE(end, slab.memory.get() + 256 + slab.bytes);
  EXPECT_THAT(std::vector<char>(counters, counters + count * 4), Each(0));
}

TEST_F(GpuLaunchMemory, GrowsAndKeepsTheOldSlabForGraphs) {
  auto* stream = make_stream(primary(0));
  const auto small = launch(stream, 1 << 20, 10);
  const auto large = launch(stream, (1 << 20) + 1, 10);
  EXPECT_NE(small.first, large.first);
  EXPECT_EQ(state_->allocations.size(), 2u);
  EXPECT_EQ(launch(stream, 2 << 20, 10), large) << "it has grown to at least twice the size";
  EXPECT_EQ(launch(stream, 1 << 20, 10), large);
  EXPECT_LT(allocated(), size_t{4} << 20) << "the old slabs together are smaller than the last";
  EXPECT_THAT(std::vector<char>(large.second, large.second + 40), Each(0));
}

TEST_F(GpuLaunchMemory, AllocatesTheNeedIfTwiceTheSizeFails) {
  // The fake driver allocates at most 1 GiB at once.
  auto* stream = make_stream(primary(0));
  launch(stream, size_t{600} << 20);
  EXPECT_NE(launch(stream, size_t{700} << 20).first, nullptr);
  TestLaunch l(*kernel_);
  l.launch.stream = stream;
  l.launch.config.workspace_bytes = size_t{2} << 30;
  const absl::Status status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message(status), HasSubstr("allocating a workspace of 21474"));
  EXPECT_NE(launch(stream, size_t{700} << 20).first, nullptr) << "the stream keeps its slab";
}

TEST_F(GpuLaunchMemory, DefaultStreamsHaveTheirOwnSlabs) {
  const auto legacy = launch(nullptr, 1000);
  EXPECT_EQ(launch(reinterpret_cast<void*>(1), 1000), legacy) << "both handles mean the same stream";
  const auto mine = launch(reinterpret_cast<void*>(2), 1000);
  EXPECT_NE(mine, legacy);
  EXPECT_EQ(launch(reinterpret_cast<void*>(2), 1000), mine);
  std::set<char*> seen = {legacy.first, mine.first};
  for (int i = 0; i < 4; ++i)
    std::thread([&] { seen.insert(launch(reinterpret_cast<void*>(2), 1000).first); }).join();
  EXPECT_EQ(seen.size(), 6u) << "one per thread, including threads that ended";
  context_stack() = {make_context(0)};
  EXPECT_TRUE(seen.insert(launch(nullptr, 1000).first).second) << "another context has its own";
}

TEST_F(GpuLaunchMemory, ZeroesCountersAgainAfterAFailedLaunch) {
  auto* stream = make_stream(primary(0));
  const auto [workspace, counters] = launch(stream, 100, 7);
  EXPECT_EQ(state_->fills.size(), 1u) << "zeroed once";
  launch(stream, 100, 7);
  EXPECT_EQ(state_->fills.size(), 1u);
  counters[3] = 9;  // as an interrupted kernel leaves them
  TestLaunch l(*kernel_);
  l.launch.stream = stream;
  l.launch.config = LaunchConfig();
  l.launch.config.counters = 7;
  state_->fail_once["cuLaunchKernelEx"] = 701;
  EXPECT_FALSE(driver_->launch(l.launch).ok());
  launch(stream, 100, 7);
  ASSERT_EQ(state_->fills.size(), 2u);
  EXPECT_EQ(state_->fills[1].stream, stream) << "it must be ordered by the stream";
  EXPECT_EQ(state_->fills[1].address, reinterpret_cast<uint64_t>(counters));
  EXPECT_GE(state_->fills[1].bytes, 7u * 4);
  EXPECT_EQ(counters[3], 0);
  launch(stream, 100, 7);
  EXPECT_EQ(state_->fills.size(), 2u);
}

TEST_F(GpuLaunchMemory, CallersWorkspaceHoldsTheCounters) {
  LaunchConfig config;
  config.workspace_bytes = 1000;
  config.counters = 6;
  const size_t bytes = driver_->workspace_bytes(*kernel_, config, 1);
  EXPECT_EQ(bytes, 1024u + 24);
  alignas(256) static char memory[2048];
  std::fill(std::begin(memory), std::end(memory), 1);
  TestLaunch l(*kernel_);
  l.launch.config = config;
  l.launch.workspace = memory;
  l.launch.workspace_bytes = bytes;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  EXPECT_EQ(state_->launches.back().parameter<char*>(7 * 8), memory);
  EXPECT_EQ(state_->launches.back().parameter<char*>(8 * 8), memory + 1024);
  EXPECT_THAT(std::vector<char>(memory + 1024, memory + bytes), Each(0)) << "zeroed for each launch";
  EXPECT_EQ(memory[bytes], 1);
  EXPECT_EQ(memory[1023], 1);
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 0);
  l.launch.workspace_bytes = bytes - 1;
  const absl::Status status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("workspace of 1047 bytes < 1048"));
}

// Plans with different needs share the workspace. The results of one must never overwrite the counters of
// another.
TEST_F(GpuLaunchMemory, ZeroedWorkspaceNeedsNoMemset) {
  alignas(256) static char memory[4096 + 48];
  std::fill(std::begin(memory), std::end(memory), 0);
  TestLaunch l(*kernel_);
  l.launch.stream = make_stream(primary(0));
  l.launch.workspace = memory;
  l.launch.workspace_bytes = sizeof memory;
  l.launch.workspace_is_zeroed = true;
  const std::pair<size_t, size_t> needs[] = {{2000, 4}, {0, 506}, {1, 1}};  // bytes, counters
  for (const auto& [bytes, counters] : needs) {
    l.launch.config.workspace_bytes = bytes;
    l.launch.config.counters = counters;
    ASSERT_TRUE(driver_->launch(l.launch).ok());
    const fake_driver::Launch& launched = state_->launches.back();
    EXPECT_EQ(launched.parameter<char*>(7 * 8), bytes == 0 ? nullptr : memory);
    EXPECT_EQ(launched.parameter<char*>(8 * 8), memory + 2048);
  }
  EXPECT_TRUE(state_->fills.empty());
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 0);

  l.launch.config.counters = 507;
  l.launch.config.workspace_bytes = 256;
  l.launch.workspace_bytes = 2 * (256 + 507 * 4) - 1;
  const absl::Status refused = driver_->launch(l.launch);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(refused), HasSubstr("workspace of 4567 bytes < twice 2284"));
}

TEST_F(GpuLaunchMemory, ZeroesAZeroedWorkspaceAgainAfterAFailedLaunch) {
  alignas(256) static char memory[1024];
  std::fill(std::begin(memory), std::end(memory), 0);
  TestLaunch l(*kernel_);
  l.launch.stream = make_stream(primary(0));
  l.launch.workspace = memory;
  l.launch.workspace_bytes = sizeof memory;
  l.launch.workspace_is_zeroed = true;
  l.launch.config.counters = 7;
  memory[512 + 5] = 1;  // as an interrupted kernel leaves them
  state_->fail_once["cuLaunchKernelEx"] = 701;
  const absl::Status failed = driver_->launch(l.launch);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(message(failed), Not(HasSubstr("zero")));
  ASSERT_EQ(state_->fills.size(), 1u);
  EXPECT_EQ(state_->fills[0].stream, l.launch.stream) << "it must be ordered by the stream";
  EXPECT_THAT(std::vector<char>(std::begin(memory), std::end(memory)), Each(0));
  state_->fail_once["cuLaunchKernelEx"] = 701;
  state_->fail_once["cuMemsetD8Async"] = 719;
  EXPECT_THAT(message(driver_->launch(l.launch)), HasSubstr("the workspace is no longer zeroed: "));
}

TEST_F(GpuLaunchMemory, ZeroProductReadsZeros) {
  TestLaunch l(*kernel_);
  l.args.a = l.args.b = nullptr;
  l.launch.zero_product = true;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  const auto* a = state_->launches.back().parameter<char*>(0);
  EXPECT_EQ(state_->launches.back().parameter<char*>(8), a);
  EXPECT_THAT(std::vector<char>(a, a + 16), Each(0));
  const auto [workspace, counters] = launch(nullptr, 1000, 10);
  EXPECT_TRUE(a + 16 <= workspace || a >= workspace + 1000);
  EXPECT_TRUE(a + 16 <= counters || a >= counters + 40);
}

TEST_F(GpuLaunchMemory, ReserveAllocatesBeforeTheFirstLaunch) {
  ASSERT_TRUE(driver_->reserve(0, 0).ok());
  EXPECT_EQ(state_->allocations.size(), 0u);
  ASSERT_TRUE(driver_->reserve(1 << 20, 100).ok());
  EXPECT_EQ(state_->allocations.size(), 1u);
  ASSERT_TRUE(driver_->reserve(4 << 20, 10).ok());
  EXPECT_EQ(state_->allocations.size(), 1u) << "an unused slab is replaced";
  ASSERT_TRUE(driver_->reserve(2 << 20, 50).ok());
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 2);
  auto* stream = make_stream(primary(0));
  const auto first = launch(stream, 100);
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 2);
  EXPECT_EQ(launch(stream, 4 << 20, 100).first, first.first);
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 2) << "no growth up to the reserved size";
  const auto other = launch(make_stream(primary(0)), 100);
  EXPECT_GE(holder(other.first).bytes, size_t{4} << 20) << "slabs of other streams are as large";
  ASSERT_TRUE(driver_->reserve(4 << 20, 100).ok());
  EXPECT_EQ(state_->calls["cuMemAlloc_v2"], 3) << "nothing larger was reserved";
  EXPECT_EQ(driver_->reserve(size_t{2} << 30, 0).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(GpuLaunchMemory, WorksInsideACaptureWithoutDisturbingIt) {
  auto* mine = make_stream(primary(0));
  auto* theirs = make_stream(primary(0));
  mine->capturing = theirs->capturing = true;
  EXPECT_TRUE(*driver_->is_capturing(mine));
  const auto slab = launch(mine, 1000, 10);
  EXPECT_NE(launch(mine, 100000, 10), slab) << "it has grown";
  // Load, link, allocate and unload during another thread's capture.
  state_->linked_image = "cubin\n";
  load(*driver_, artifact_of({step_of("late")})).reset();
  driver_->finish(artifact_of({step_of("k")}, CodeFormat::kPtx));
  ASSERT_TRUE(driver_->memory().release(*driver_->memory().allocate(64)).ok());
  EXPECT_EQ(state_->unsafe_in_capture, 0);
  EXPECT_FALSE(mine->invalidated || theirs->invalidated);
  EXPECT_EQ(capture_mode(), 0) << "the thread's mode must be restored";
  // Counters were zeroed on the driver's own stream, so they are not a node of the caller's graph.
  for (const fake_driver::Fill& fill : state_->fills) EXPECT_NE(fill.stream, mine);
}

TEST_F(GpuLaunchMemory, ReportsWhetherAStreamIsCaptured) {
  auto* stream = make_stream(primary(0));
  EXPECT_FALSE(*driver_->is_capturing(stream));
  EXPECT_FALSE(*driver_->is_capturing(nullptr));
  stream->capturing = true;
  EXPECT_TRUE(*driver_->is_capturing(stream));
  EXPECT_TRUE(*driver_->is_capturing(nullptr)) << "the legacy stream must not be used during a capture";
  EXPECT_FALSE(*driver_->is_capturing(reinterpret_cast<void*>(2)));
  stream->invalidated = true;
  EXPECT_TRUE(*driver_->is_capturing(stream));
  state_->fail_once["cuStreamIsCapturing"] = 999;
  EXPECT_EQ(driver_->is_capturing(stream).status().code(), absl::StatusCode::kInternal);
}

// Several threads launch on a shared stream, on their own streams and on per-thread streams, while slabs
// grow.
TEST_F(GpuLaunchMemory, ThreadsLaunchConcurrently) {
  constexpr int kThreads = 4, kLaunches = 200;
  auto* shared = make_stream(primary(0));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      fake_driver::Stream* own = nullptr;
      {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        own = make_stream(primary(0));
      }
      for (int i = 0; i < kLaunches; ++i) {
        TestLaunch l(*kernel_, t + 1);
        l.launch.stream = i % 3 == 0   ? static_cast<void*>(shared)
                          : i % 3 == 1 ? own
                                       : reinterpret_cast<void*>(2);
        l.launch.config.workspace_bytes = static_cast<size_t>(100 + i * 10);
        l.launch.config.counters = static_cast<size_t>(1 + i * 20);
        failures += !driver_->launch(l.launch).ok();
        if (i % 50 == 0) failures += !driver_->load(artifact_of({step_of("other")})).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
  ASSERT_EQ(state_->launches.size(), static_cast<size_t>(kThreads * kLaunches));
  // No workspace may be used by two streams. The per-thread stream counts once per thread, which M
  // identifies.
  std::map<char*, std::pair<void*, int>> owners;
  for (const fake_driver::Launch& launch : state_->launches) {
    const bool per_thread = reinterpret_cast<uintptr_t>(launch.stream) == 2;
    const std::pair<void*, int> owner = {launch.stream, per_thread ? m_of(launch) : 0};
    const auto [at, inserted] = owners.emplace(launch.parameter<char*>(7 * 8), owner);
    EXPECT_EQ(at->second, owner);
  }
}

// The merge kernel reads what the partial kernel wrote to the stream's workspace. No other thread's kernels
// may come between them.
TEST_F(GpuLaunchMemory, MergeFollowsThePartialResultsOfItsOwnLaunch) {
  constexpr int kThreads = 4, kLaunches = 2000;
  Step merge = step_of("merge");
  merge.grid[1] = product(1, {{Var::kMerge, 1}});
  const auto split = load(*driver_, artifact_of({step_of("partial"), merge}));
  auto* shared = make_stream(primary(0));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kLaunches; ++i) {
        TestLaunch l(*split, 1 + t * kLaunches + i);
        l.launch.stream = shared;
        l.launch.config.splits = 2;
        l.launch.config.workspace_bytes = 1000;
        failures += !driver_->launch(l.launch).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
  ASSERT_EQ(state_->launches.size(), size_t{2} * kThreads * kLaunches);
  for (size_t i = 0; i < state_->launches.size(); i += 2) {
    const fake_driver::Launch &partial = state_->launches[i], &merged = state_->launches[i + 1];
    ASSERT_EQ(partial.symbol, "partial") << i;
    ASSERT_EQ(merged.symbol, "merge") << i;
    ASSERT_EQ(m_of(partial), m_of(merged)) << "M identifies the launch";
  }
}

// Launches of one kernel without the fake driver's lock around each, because the lock would hide missing
// synchronisation in the launch itself.
TEST_F(GpuLaunchMemory, ThreadsLaunchWithoutTheDriversLock) {
  constexpr int kThreads = 4, kLaunches = 2000;
  std::vector<fake_driver::Stream*> streams;
  for (int t = 0; t <= kThreads; ++t) streams.push_back(make_stream(primary(0)));
  state_->quiet = true;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kLaunches; ++i) {
        TestLaunch l(*kernel_);
        l.launch.stream = i % 3 == 0   ? static_cast<void*>(streams[kThreads])
                          : i % 3 == 1 ? streams[t]
                                       : nullptr;
        l.launch.config.workspace_bytes = 100 + i / 500 * 300;
        l.launch.config.counters = 10;
        failures += !driver_->launch(l.launch).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  state_->quiet = false;
  EXPECT_EQ(failures.load(), 0);
  EXPECT_TRUE(state_->launches.empty());
  EXPECT_GE(state_->allocations.size(), 6u) << "five streams and the default stream";
}

}  // namespace
}  // namespace lathe
