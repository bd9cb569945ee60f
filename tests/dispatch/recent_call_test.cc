// RecentCall: a call that repeats an earlier one skips checks, but does the same as the whole path.
#include "dispatch/recent_call.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/dispatch.h"
#include "fake_device.h"

namespace lathe {
namespace {

class RecentCallTest : public testing::Test {
 protected:
  lathe_status run(const lathe_matmul_desc& desc) { return lathe_matmul(fake_.device.get(), nullptr, &desc); }
  const RecentCall<lathe_matmul_desc>* find(const lathe_matmul_desc& desc) {
    return RecentCall<lathe_matmul_desc>::find(*fake_.device, nullptr, &desc);
  }
  // The first call makes the kernel. The second is a hit of the table and is kept.
  void keep(const lathe_matmul_desc& desc) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(run(desc), LATHE_OK) << lathe_last_error();
    ASSERT_NE(find(desc), nullptr);
  }

  FakeDevice fake_;
};

TEST_F(RecentCallTest, KeepsAHitAndServesOtherPointers) {
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

TEST_F(RecentCallTest, BelongsToOneDeviceAndOneThread) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  FakeDevice another;
  EXPECT_EQ(RecentCall<lathe_matmul_desc>::find(*another.device, nullptr, &m.desc), nullptr);
  bool found = true;
  std::thread([&] { found = find(m.desc) != nullptr; }).join();
  EXPECT_FALSE(found);
  // A new device may have the address of a closed one.
  fake_.device.reset();
  const absl::StatusOr<DeviceFacts> facts = load_facts(facts_file("ryzen-7-5800u.json"));
  ASSERT_TRUE(facts.ok());
  fake_.device =
      std::make_unique<lathe_device>(*fake_.context, "fake", *facts, std::make_unique<FakeDriver>(*facts));
  EXPECT_EQ(find(m.desc), nullptr);
}

TEST_F(RecentCallTest, DoesNotFindInvalidRequests) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  EXPECT_EQ(RecentCall<lathe_matmul_desc>::find(*fake_.device, this, &m.desc), nullptr)
      << "the CPU has no streams";
  EXPECT_EQ(RecentCall<lathe_matmul_desc>::find(*fake_.device, nullptr, nullptr), nullptr);
  EXPECT_EQ(lathe_matmul(fake_.device.get(), this, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_matmul(fake_.device.get(), nullptr, nullptr), LATHE_INVALID_ARGUMENT);
}

// On a GPU the alignment of pointers is part of the class, and calls have streams.
TEST_F(RecentCallTest, OnAGpuServesAlignedPointersInAnyStream) {
  const absl::StatusOr<DeviceFacts> facts = load_facts(facts_file("h200.json"));
  ASSERT_TRUE(facts.ok());
  auto driver = std::make_unique<FakeDriver>(*facts);
  FakeDriver* const gpu = driver.get();
  fake_.device = std::make_unique<lathe_device>(*fake_.context, "gpu", *facts, std::move(driver));
  const auto run_in = [&](void* stream, const lathe_matmul_desc& desc) {
    return lathe_matmul(fake_.device.get(), stream, &desc);
  };
  const auto find_in = [&](void* stream, const lathe_matmul_desc& desc) {
    return RecentCall<lathe_matmul_desc>::find(*fake_.device, stream, &desc);
  };
  MatmulRequest m(7, 40, 33), other(7, 40, 33);
  int one = 0, two = 0;  // their addresses stand for streams
  for (int i = 0; i < 2; ++i) ASSERT_EQ(run_in(&one, m.desc), LATHE_OK) << lathe_last_error();
  ASSERT_NE(find_in(&two, other.desc), nullptr);
  ASSERT_EQ(run_in(&two, other.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(gpu->last.stream, &two);
  EXPECT_EQ(gpu->last_args.b, other.b.data());
  const LoadedKernel* const aligned = gpu->last.kernel;

  other.desc.b.data = other.b.data() + 1;
  EXPECT_EQ(find_in(&one, other.desc), nullptr);
  other.desc.b.data = reinterpret_cast<char*>(other.b.data()) + 1;  // not aligned to an element
  EXPECT_EQ(find_in(&one, other.desc), nullptr);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run_in(&one, other.desc), LATHE_OK) << lathe_last_error();
  EXPECT_NE(gpu->last.kernel, aligned);
  EXPECT_EQ(find_in(&one, other.desc), nullptr) << "a misaligned call is not kept";

  MatmulRequest empty(7, 40, 0);  // A and B are replaced by a zero of the driver
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run_in(&one, empty.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(find_in(&one, empty.desc), nullptr);
}

// Plans and calls share kept calls if they run the same kernel.
TEST_F(RecentCallTest, PlanSharesKeptCallsUnlessItIsTuned) {
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

TEST_F(RecentCallTest, DoesNotKeepDescriptorsThatPointToOthers) {
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

TEST_F(RecentCallTest, DoesNotFindDescriptorsOfAnotherSize) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  m.desc.struct_size -= 8;
  EXPECT_EQ(find(m.desc), nullptr);
  EXPECT_EQ(run(m.desc), LATHE_INVALID_ARGUMENT);
}

TEST_F(RecentCallTest, FailureOfARepeatedCallNamesTheRequest) {
  MatmulRequest m(7, 40, 33);
  keep(m.desc);
  fake_.driver->launch_error = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(run(m.desc), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(lathe_last_error()), "matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake: no memory");
}

// The arguments of the last call of the caller's task.
struct Called {
  int times = 0;
  ArgumentBlock args;
} called;
void note_task(const ArgumentBlock* args, int64_t task) {
  EXPECT_EQ(task, called.times++);
  called.args = *args;
}

// Random pointers into one buffer; some are NULL and some overlap.
class Anywhere {
 public:
  explicit Anywhere(std::mt19937* random) : random_(*random), buffer_(4096) {}
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  void* operator()() { return pick(40) == 0 ? nullptr : buffer_.data() + 16 * pick(200); }

 private:
  std::mt19937& random_;
  std::vector<float> buffer_;
};

void change_field(Anywhere& anywhere, lathe_matmul_desc* d) {
  switch (anywhere.pick(8)) {
    case 0: d->epilogue.alpha = 2; break;
    case 1: d->epilogue.beta = d->epilogue.beta == 0 ? 1.0f : 0.0f; break;
    case 2: d->c.leading_dimension = d->n + anywhere.pick(3); break;
    case 3: d->d.leading_dimension = d->n + anywhere.pick(3); break;
    case 4: d->b.layout = LATHE_COLUMN_MAJOR; break;
    case 5: d->epilogue.activation = LATHE_ACTIVATION_RELU; break;
    case 6: d->d.reserved = 1; break;
    default: d->k += 1;
  }
}

lathe_matmul_desc any_matmul(Anywhere& anywhere) {
  constexpr std::array<std::array<int, 4>, 5> kSizes = {
      {{4, 16, 8, 1}, {4, 8, 8, 2}, {1, 16, 16, 1}, {16, 4, 4, 1}, {2, 2, 0, 1}}};
  const auto& [m, n, k, batch] = kSizes[static_cast<size_t>(anywhere.pick(kSizes.size()))];
  lathe_matmul_desc d = LATHE_MATMUL_DESC_INIT;
  d.m = m, d.n = n, d.k = k, d.batch = batch;
  d.a.dtype = d.b.dtype = d.c.dtype = d.d.dtype = LATHE_F32;
  d.epilogue.bias_dtype = d.epilogue.residual.dtype = LATHE_F32;
  if (batch > 1) d.a.batch_stride = m * k, d.c.batch_stride = d.d.batch_stride = m * n;
  if (m == 4) d.epilogue.beta = 0.5f;
  if (m == 1) d.b.layout = LATHE_COLUMN_MAJOR;
  d.a.data = anywhere();
  d.b.data = anywhere();
  d.d.data = anywhere();
  d.c.data = anywhere.pick(2) == 0 ? d.d.data : anywhere();
  if (anywhere.pick(4) == 0) d.epilogue.bias = anywhere();
  if (anywhere.pick(4) == 0) d.epilogue.residual.data = anywhere.pick(2) == 0 ? d.d.data : anywhere();
  if (anywhere.pick(10) == 0) change_field(anywhere, &d);
  return d;
}

// The padding of the descriptor is random too.
lathe_argmax_desc any_argmax(Anywhere& anywhere) {
  lathe_argmax_desc d;
  std::memset(static_cast<void*>(&d), anywhere.pick(256), sizeof d);
  const lathe_argmax_desc empty = LATHE_ARGMAX_DESC_INIT;
  d.struct_size = empty.struct_size, d.next = nullptr, d.x = empty.x;
  d.rows = 1 + anywhere.pick(2), d.n = 40, d.x.dtype = LATHE_F32, d.x.data = anywhere();
  d.indices = anywhere();
  d.index_dtype = d.rows == 1 ? LATHE_I64 : LATHE_I32;
  d.index_offset = 7;
  d.values = anywhere.pick(2) == 0 ? nullptr : static_cast<float*>(anywhere());
  d.determinism = LATHE_DETERMINISM_FAST;
  d.miss_policy = LATHE_MISS_DEFAULT;
  d.dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;
  if (anywhere.pick(10) != 0) return d;
  switch (anywhere.pick(7)) {
    case 0: d.n = 41 + anywhere.pick(3); break;
    case 1: d.x.leading_dimension = 39 + anywhere.pick(3); break;
    case 2: d.index_dtype = anywhere.pick(2) == 0 ? LATHE_I32 : LATHE_I64; break;
    case 3: d.index_offset = int64_t{1} << 31; break;
    case 4: d.determinism = LATHE_DETERMINISM_RUN_TO_RUN; break;
    case 5: d.x.reserved = 1; break;
    default: d.x.dtype = LATHE_BF16;
  }
  return d;
}

absl::Status read(const lathe_matmul_desc& d, const lathe_device& device, Request* out) {
  return read_matmul(&d, Purpose::kRun, device.request_context(), nullptr, out);
}
absl::Status read(const lathe_argmax_desc& d, const lathe_device& device, Request* out) {
  return read_argmax(&d, Purpose::kRun, device.request_context(), nullptr, out);
}
lathe_status run(const lathe_matmul_desc& d, lathe_device* device) {
  return lathe_matmul(device, nullptr, &d);
}
lathe_status run(const lathe_argmax_desc& d, lathe_device* device) {
  return lathe_argmax(device, nullptr, &d);
}

// Runs random descriptors that often repeat with other pointers. The launch of each call must be that of its request,
// read in full. on_caller: kept calls run their tasks on this thread instead of a launch.
template <typename Desc>
void expect_what_the_whole_path_does(Desc (*any)(Anywhere&), bool on_caller) {
  FakeDevice fake;
  if (on_caller) fake.driver->tasks_of_caller.task = note_task, fake.driver->tasks_of_caller.count = 2;
  std::mt19937 random(20261125);
  Anywhere anywhere(&random);
  // Read the counter directly: lathe_context_statistics looks for the compiler library, which leaks 1.7 MiB under TSan.
  const HitCounter& hit_counter = fake.context->counters.dispatch_hits;
  int repeated = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const Desc d = any(anywhere);
    Request expected;
    const absl::Status is_read = read(d, *fake.device, &expected);
    const bool found = RecentCall<Desc>::find(*fake.device, nullptr, &d) != nullptr;
    const int launches = fake.driver->launches.load();
    const uint64_t hits = hit_counter.total();
    called.times = 0;
    const lathe_status status = run(d, fake.device.get());
    ASSERT_EQ(status == LATHE_OK, is_read.ok()) << is_read << " / " << lathe_last_error();
    if (!is_read.ok()) {
      ++refused;
      EXPECT_FALSE(found) << is_read;
      EXPECT_EQ(lathe_last_error(), is_read.message());
      continue;
    }
    const bool calls_tasks = found && on_caller;
    ASSERT_EQ(called.times, calls_tasks ? 2 : 0);
    ASSERT_EQ(fake.driver->launches.load() - launches, expected.needs_no_kernel() || calls_tasks ? 0 : 1);
    if (expected.needs_no_kernel()) continue;
    if (found) {
      ++repeated;
      EXPECT_EQ(hit_counter.total(), hits + 1);
    }
    const DispatchEntry* entry = fake.device->table.find(expected.key);
    ASSERT_NE(entry, nullptr);
    const LaunchConfig config = launch_config_for(*entry, expected);
    expected.args.splits = config.splits;
    expected.args.k_chunk = config.k_chunk;
    const ArgumentBlock& args = calls_tasks ? called.args : fake.driver->last_args;
    ASSERT_EQ(std::memcmp(&args, &expected.args, sizeof expected.args), 0);
    if (calls_tasks) continue;
    ASSERT_EQ(fake.driver->last.kernel, entry->kernel);
    EXPECT_EQ(std::memcmp(&fake.driver->last.dims, &expected.dims, sizeof expected.dims), 0);
    EXPECT_EQ(std::memcmp(&fake.driver->last.config, &config, sizeof config), 0);
    EXPECT_EQ(fake.driver->last_problem.op, expected.key.problem.op);
  }
  EXPECT_GT(repeated, 3000) << "most valid calls are repeats";
  EXPECT_GT(refused, 1000);
}

TEST(RecentCall, MatmulsDoTheSameAsTheWholePath) {
  for (const bool on_caller : {false, true}) expect_what_the_whole_path_does(any_matmul, on_caller);
}

TEST(RecentCall, ArgmaxesDoTheSameAsTheWholePath) {
  for (const bool on_caller : {false, true}) expect_what_the_whole_path_does(any_argmax, on_caller);
}

// Tasks that need aligned operands are not called with misaligned ones; the call is launched.
TEST_F(RecentCallTest, MisalignedOperandIsLaunched) {
  fake_.driver->tasks_of_caller.task = note_task;
  fake_.driver->tasks_of_caller.count = 1;
  fake_.driver->tasks_of_caller.misaligned = 15;
  ArgmaxRequest x(1, 64);
  x.desc.values = nullptr;
  alignas(16) std::array<float, 68> row = {};
  alignas(16) int64_t index;
  x.desc.indices = &index;
  for (const bool aligned : {true, true, true, false, true}) {
    x.desc.x.data = row.data() + (aligned ? 0 : 1);
    const int launches = fake_.driver->launches.load();
    const bool found = RecentCall<lathe_argmax_desc>::find(*fake_.device, nullptr, &x.desc) != nullptr;
    called.times = 0;
    ASSERT_EQ(lathe_argmax(fake_.device.get(), nullptr, &x.desc), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(called.times, found && aligned ? 1 : 0);
    EXPECT_EQ(fake_.driver->launches.load() - launches, found && aligned ? 0 : 1);
  }
  EXPECT_EQ(called.times, 1);
}

}  // namespace
}  // namespace lathe
