// What a thread's last matmuls leave unchecked: a call that repeats one does as the whole path would.
#include "api/recent_matmul.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/dispatch.h"
#include "fake_device.h"

namespace lathe {
namespace {

class RecentMatmulTest : public testing::Test {
 protected:
  lathe_status run(const lathe_matmul_desc& desc) { return lathe_matmul(fake_.device.get(), nullptr, &desc); }
  const RecentMatmul* find(const lathe_matmul_desc& desc) {
    return RecentMatmul::find(*fake_.device, nullptr, &desc);
  }
  // The first call makes the kernel, the second is a hit of the table and kept.
  void keep(const lathe_matmul_desc& desc) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(run(desc), LATHE_OK) << lathe_last_error();
    ASSERT_NE(find(desc), nullptr);
  }

  FakeDevice fake_;
};

TEST_F(RecentMatmulTest, IsKeptByTheSecondCallAndTakesOtherPointers) {
  MatmulRequest m(7, 40, 33), other(7, 40, 33);
  ASSERT_EQ(run(m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(find(m.desc), nullptr) << "a miss is not kept";
  keep(m.desc);
  ASSERT_NE(find(other.desc), nullptr);
  EXPECT_EQ(find(other.desc)->entry().kernel, fake_.driver->last.kernel);
  ASSERT_EQ(run(other.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake_.driver->last_args.a, other.a.data());
  EXPECT_EQ(fake_.driver->last_args.b, other.b.data());
  EXPECT_EQ(fake_.driver->last_args.d, other.d.data());
  EXPECT_EQ(fake_.driver->last.dims.m, 7);
  EXPECT_EQ(fake_.driver->last.workspace, nullptr);
}

TEST_F(RecentMatmulTest, IsOfItsDeviceAndItsThread) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  FakeDevice another;
  EXPECT_EQ(RecentMatmul::find(*another.device, nullptr, &m.desc), nullptr);
  bool found = true;
  std::thread([&] { found = find(m.desc) != nullptr; }).join();
  EXPECT_FALSE(found);
  // Another device, perhaps at the address of one that closed.
  fake_.device.reset();
  const absl::StatusOr<DeviceFacts> facts = load_facts(facts_file("ryzen-7-5800u.json"));
  ASSERT_TRUE(facts.ok());
  fake_.device =
      std::make_unique<lathe_device>(*fake_.context, "fake", *facts, std::make_unique<FakeDriver>(*facts));
  EXPECT_EQ(find(m.desc), nullptr);
}

TEST_F(RecentMatmulTest, WhatIsRefusedIsNotFound) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  EXPECT_EQ(RecentMatmul::find(*fake_.device, this, &m.desc), nullptr) << "the CPU has no streams";
  EXPECT_EQ(RecentMatmul::find(*fake_.device, nullptr, nullptr), nullptr);
  EXPECT_EQ(lathe_matmul(fake_.device.get(), this, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_matmul(fake_.device.get(), nullptr, nullptr), LATHE_INVALID_ARGUMENT);
}

// Plans find and keep what calls do, of the same kernel alone.
TEST_F(RecentMatmulTest, APlanSharesThemButForATunedOne) {
  MatmulRequest m(7, 40, 5123), other(7, 40, 5123);
  lathe_plan *plan = nullptr, *tuned = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake_.device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  ASSERT_NE(find(m.desc), nullptr);
  ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &other.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake_.driver->last_args.d, other.d.data());
  const LoadedKernel* const untuned = fake_.driver->last.kernel;

  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 7;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  ASSERT_EQ(lathe_plan_matmul(fake_.device.get(), &m.desc, &tuned), LATHE_OK) << lathe_last_error();
  m.desc.next = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(lathe_plan_run_matmul(tuned, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(fake_.driver->last_args.splits, 7);
    ASSERT_EQ(run(m.desc), LATHE_OK) << lathe_last_error();
    EXPECT_NE(fake_.driver->last_args.splits, 7);
    EXPECT_EQ(fake_.driver->last.kernel, untuned);
  }
  lathe_plan_destroy(plan);
  lathe_plan_destroy(tuned);
}

TEST_F(RecentMatmulTest, WhatLeadsElsewhereIsNotKept) {
  MatmulRequest m(7, 40, 33);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(find(m.desc), nullptr);

  std::vector<int8_t> a(7 * 32), b(32 * 40);
  std::vector<float> scales(40, 1.0f);
  lathe_scale scale = LATHE_SCALE_INIT;
  scale.data = scales.data();
  scale.dtype = LATHE_F32;
  MatmulRequest bytes(7, 40, 32);
  bytes.desc.a.data = a.data();
  bytes.desc.b.data = b.data();
  bytes.desc.a.dtype = bytes.desc.b.dtype = LATHE_I8;
  keep(bytes.desc);
  bytes.desc.b.scale = &scale;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(bytes.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(find(bytes.desc), nullptr);
}

TEST_F(RecentMatmulTest, AnOlderDescriptorIsAnother) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  m.desc.struct_size -= 8;
  EXPECT_EQ(find(m.desc), nullptr);
  EXPECT_EQ(run(m.desc), LATHE_INVALID_ARGUMENT);
}

TEST_F(RecentMatmulTest, AFailureNamesTheRequestAsEver) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  fake_.driver->launch_error = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(run(m.desc), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(lathe_last_error()), "matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake: no memory");
}

// Descriptors of few kinds with pointers anywhere in one buffer, NULL and overlapping ones among them, and
// now and then another field: what each call does is compared with what its descriptor is read as.
TEST_F(RecentMatmulTest, DoesWhatTheWholePathWould) {
  std::mt19937 random(20261125);
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  std::vector<float> buffer(4096);
  const auto anywhere = [&]() -> void* { return pick(40) == 0 ? nullptr : buffer.data() + 16 * pick(200); };
  std::vector<lathe_matmul_desc> kinds;
  for (const auto& [m, n, k, batch] :
       {std::array<int, 4>{4, 16, 8, 1}, {4, 8, 8, 2}, {1, 16, 16, 1}, {16, 4, 4, 1}, {2, 2, 0, 1}}) {
    lathe_matmul_desc d = LATHE_MATMUL_DESC_INIT;
    d.m = m, d.n = n, d.k = k, d.batch = batch;
    d.a.dtype = d.b.dtype = d.c.dtype = d.d.dtype = LATHE_F32;
    d.epilogue.bias_dtype = d.epilogue.residual.dtype = LATHE_F32;
    if (batch > 1) d.a.batch_stride = m * k, d.c.batch_stride = d.d.batch_stride = m * n;
    if (m == 4) d.epilogue.beta = 0.5f;
    if (m == 1) d.b.layout = LATHE_COLUMN_MAJOR;
    kinds.push_back(d);
  }
  const auto change_field = [&](lathe_matmul_desc* d) {
    switch (pick(8)) {
      case 0: d->epilogue.alpha = 2; break;
      case 1: d->epilogue.beta = d->epilogue.beta == 0 ? 1.0f : 0.0f; break;
      case 2: d->c.leading_dimension = d->n + pick(3); break;
      case 3: d->d.leading_dimension = d->n + pick(3); break;
      case 4: d->b.layout = LATHE_COLUMN_MAJOR; break;
      case 5: d->epilogue.activation = LATHE_ACTIVATION_RELU; break;
      case 6: d->d.reserved = 1; break;
      default: d->k += 1;
    }
  };
  // Statistics look for the compiler library, which leaks 1.7 MiB each time under TSan.
  const HitCounter& hit_counter = fake_.context->counters.dispatch_hits;
  int repeated = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    lathe_matmul_desc d = kinds[static_cast<size_t>(pick(static_cast<int>(kinds.size())))];
    d.a.data = anywhere();
    d.b.data = anywhere();
    d.d.data = anywhere();
    d.c.data = pick(2) == 0 ? d.d.data : anywhere();
    if (pick(4) == 0) d.epilogue.bias = anywhere();
    if (pick(4) == 0) d.epilogue.residual.data = pick(2) == 0 ? d.d.data : anywhere();
    if (pick(10) == 0) change_field(&d);

    Request expected;
    const absl::Status read =
        read_matmul(&d, Purpose::kRun, fake_.device->request_context(), nullptr, &expected);
    const bool found = find(d) != nullptr;
    const int launches = fake_.driver->launches.load();
    const uint64_t hits = hit_counter.total();
    const lathe_status status = run(d);
    ASSERT_EQ(status == LATHE_OK, read.ok()) << read << " / " << lathe_last_error();
    if (!read.ok()) {
      ++refused;
      EXPECT_FALSE(found) << read;
      EXPECT_EQ(lathe_last_error(), read.message());
      continue;
    }
    ASSERT_EQ(fake_.driver->launches.load() - launches, expected.needs_no_kernel() ? 0 : 1);
    if (expected.needs_no_kernel()) continue;
    if (found) {
      ++repeated;
      EXPECT_EQ(hit_counter.total(), hits + 1);
    }
    const DispatchEntry* entry = fake_.device->table.find(expected.key);
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(fake_.driver->last.kernel, entry->kernel);
    const LaunchConfig config = launch_config_for(*entry, expected);
    expected.args.splits = config.splits;
    expected.args.k_chunk = config.k_chunk;
    ASSERT_EQ(std::memcmp(&fake_.driver->last_args, &expected.args, sizeof expected.args), 0);
    EXPECT_EQ(std::memcmp(&fake_.driver->last.dims, &expected.dims, sizeof expected.dims), 0);
    EXPECT_EQ(std::memcmp(&fake_.driver->last.config, &config, sizeof config), 0);
    EXPECT_EQ(fake_.driver->last_problem, expected.key.problem);
  }
  EXPECT_GT(repeated, 3000) << "most of what is in order";
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace lathe
