#include "dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "fake_device.h"

namespace lathe {
namespace {

bool last_error_says(const std::string& part) {
  return std::string(lathe_last_error()).find(part) != std::string::npos;
}

TEST(Dispatch, LaunchesWithTheTrueSizes) {
  FakeDevice fake;
  MatmulRequest large(40, 48, 333), small(33, 48, 333);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &large.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &small.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->launches.load(), 2);
  EXPECT_EQ(fake.driver->loads.load(), 1) << "both are in the bucket (32, 64]";
  EXPECT_EQ(fake.driver->last.dims.m, 33);
  EXPECT_EQ(fake.driver->last_args.m, 33);
  EXPECT_EQ(fake.driver->last_args.d, small.d.data());
  EXPECT_EQ(fake.driver->last_args.splits, fake.driver->last.config.splits);
  EXPECT_EQ(fake.driver->last_args.k_chunk, fake.driver->last.config.k_chunk);
  EXPECT_EQ(fake.driver->last.workspace, nullptr);
}

TEST(Dispatch, RunsArgmax) {
  FakeDevice fake;
  ArgmaxRequest a(3, 100);
  ASSERT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last_args.a, a.x.data());
  EXPECT_EQ(fake.driver->last_args.n, 100);
}

TEST(Dispatch, ForcedSplitsHaveTheirOwnEntry) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 5123);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 7;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last_args.splits, 7);
  EXPECT_GE(fake.driver->last_args.k_chunk * 7, 5123);
  EXPECT_EQ(fake.device->table.size(), 2u);
  m.desc.next = nullptr;
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_NE(fake.driver->last_args.splits, 7);
  EXPECT_EQ(fake.device->table.size(), 2u);
}

TEST(Dispatch, MissPolicyErrorPreparesNothing) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  m.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_MISS);
  EXPECT_TRUE(last_error_says("matmul f32 a=n b=t m=7 n=40 k=33")) << lathe_last_error();
  EXPECT_EQ(fake.statistics().compiles, 0u);
  EXPECT_EQ(fake.driver->loads.load(), 0);
  m.desc.miss_policy = LATHE_MISS_BLOCK;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK);
  m.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << "the kernel is loaded now";
}

TEST(Dispatch, PolicyOfTheContextIsTheDefault) {
  FakeDevice fake(fake_compiler(), MissPolicy::kError);
  MatmulRequest m(7, 40, 33);
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_MISS);
  m.desc.miss_policy = LATHE_MISS_BLOCK;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
}

TEST(Dispatch, ErrorsNameTheRequest) {
  const std::string request = "matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake: ";
  MatmulRequest m(7, 40, 33);
  {
    FakeDevice fake("/nowhere/liblathe-compiler.so");
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_NOT_AVAILABLE);
    EXPECT_TRUE(last_error_says(request + "compiler library /nowhere/liblathe-compiler.so: "))
        << lathe_last_error();
    EXPECT_EQ(fake.statistics().compile_failures, 0u) << "nothing was compiled";
  }
  {
    FakeDevice fake(fake_compiler("fails"));
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_COMPILE_FAILED);
    EXPECT_TRUE(last_error_says(request + "stage vectorise: no such shape")) << lathe_last_error();
    EXPECT_EQ(fake.statistics().compile_failures, 1u);
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_COMPILE_FAILED)
        << "errors are not cached";
    EXPECT_EQ(fake.statistics().compile_failures, 2u);
  }
  {
    FakeDevice fake(fake_compiler("other_codegen"));
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_NOT_AVAILABLE);
    EXPECT_TRUE(last_error_says("codegen id")) << lathe_last_error();
  }
  {
    FakeDevice fake;
    fake.driver->load_error = absl::InvalidArgumentError("undefined symbol expf");
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_INTERNAL);
    EXPECT_TRUE(last_error_says(request + "the device refuses the kernel's code: undefined symbol expf"))
        << lathe_last_error();
    fake.driver->load_error = absl::OkStatus();
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    fake.driver->launch_error = absl::ResourceExhaustedError("no slab");
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OUT_OF_MEMORY);
    EXPECT_TRUE(last_error_says(request + "no slab")) << lathe_last_error();
  }
}

TEST(Dispatch, RefusesNullDevices) {
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  FakeDevice fake;
  EXPECT_EQ(lathe_matmul(nullptr, nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_argmax(nullptr, nullptr, &a.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_argmax(fake.device.get(), nullptr, nullptr), LATHE_INVALID_ARGUMENT);
}

TEST(Dispatch, EmptySizesNeedNoKernel) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest m(2, 3, 4);
  for (int64_t* size : {&m.desc.m, &m.desc.n, &m.desc.batch}) {
    const int64_t before = *size;
    *size = 0;
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    *size = before;
  }
  ArgmaxRequest a(3, 100);
  a.desc.rows = 0;
  EXPECT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();

  MatmulRequest empty(2, 3, 0);
  std::vector<float> c = {1, 2, 3, 4, 5, -6};
  empty.desc.c.data = c.data();
  empty.desc.c.dtype = LATHE_F32;
  empty.desc.epilogue.beta = 2.0f;
  empty.desc.epilogue.activation = LATHE_ACTIVATION_RELU;
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &empty.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(empty.d, (std::vector<float>{2, 4, 6, 8, 10, 0}));
  EXPECT_EQ(fake.driver->launches.load(), 0);
  EXPECT_EQ(fake.statistics().dispatch_misses, 0u);
}

TEST(Dispatch, ChecksTheCallersWorkspace) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 5123);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 7;
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.next = reinterpret_cast<const lathe_chain*>(&tuning);
  // The formula of the fake kernel: 4 * M * N * splits, and 128 per worker.
  const size_t needed = 4 * 7 * 40 * 7 + 2 * 128;
  std::vector<char> memory(needed + 64);
  workspace.data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  workspace.bytes = needed - 1;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&workspace);
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(
      last_error_says(std::to_string(needed - 1) + " bytes, but the launch needs " + std::to_string(needed)))
      << lathe_last_error();
  workspace.bytes = needed;
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last.workspace, workspace.data);
  EXPECT_EQ(fake.driver->last.workspace_bytes, needed);
}

TEST(Dispatch, ManyThreadsThatMissOneClassCompileOnce) {
  FakeDevice fake;
  constexpr int kThreads = 4, kClasses = 6, kRounds = 20;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int r = 0; r < kRounds; ++r) {
        for (int c = 0; c < kClasses; ++c) {
          MatmulRequest m(c + 1, 40, 33);
          if (lathe_matmul(fake.device.get(), nullptr, &m.desc) != LATHE_OK) ++failures;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures.load(), 0);
  const lathe_statistics s = fake.statistics();
  EXPECT_EQ(s.compiles, static_cast<uint64_t>(kClasses));
  EXPECT_EQ(s.dispatch_hits + s.dispatch_misses, static_cast<uint64_t>(kThreads * kClasses * kRounds));
  EXPECT_EQ(fake.device->table.size(), static_cast<size_t>(kClasses));
}

}  // namespace
}  // namespace lathe
