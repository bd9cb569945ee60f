// The floating-point state of the host changes no result on any thread that runs a kernel, and a call restores it.
#include <fenv.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "device.h"
#include "guarded_memory.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

#if defined(__x86_64__)
void flush_subnormals() { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); }
// The floating-point state that a host can set, without the flags that arithmetic sets.
uint64_t state_of_thread() {
  return (__builtin_ia32_stmxcsr() & ~0x3fu) | static_cast<uint64_t>(fegetround()) << 32;
}
#else
void flush_subnormals() {
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" ::"r"(fpcr | uint64_t{1} << 24));
}
uint64_t state_of_thread() {
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
}
#endif
void reset_thread() { fesetenv(FE_DFL_ENV); }

struct HostState {
  const char* name;
  void (*set)();
};
const HostState kStates[] = {
    {"subnormal numbers are flushed", flush_subnormals},
    {"upward", [] { fesetround(FE_UPWARD); }},
    {"downward", [] { fesetround(FE_DOWNWARD); }},
    {"toward zero", [] { fesetround(FE_TOWARDZERO); }},
#if defined(__x86_64__)
    {"exceptions trap", [] { feenableexcept(FE_ALL_EXCEPT); }},
#endif
};

// Runs `call` in that state. Returns whether the thread has the same state afterwards.
template <typename Call>
bool keeps_state(const HostState& state, const Call& call) {
  state.set();
  const uint64_t before = state_of_thread();
  call();
  const uint64_t after = state_of_thread();
  reset_thread();
  return before == after;
}

// Each element of this matmul is a product of two numbers, so its exact bits are known.
class OuterProduct {
 public:
  static constexpr int64_t kM = 300, kN = 700;

  // `magnitude` is that of A's elements.
  OuterProduct(double magnitude, Random* random) : a_(kM), b_(kN), d_(kM * kN), expected_(kM * kN) {
    for (float& x : a_) x = static_cast<float>(random->normal() * magnitude);
    for (float& x : b_) x = static_cast<float>(random->normal());
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j)  // exact in double, then rounded to nearest once
        expected_[static_cast<size_t>(i * kN + j)] =
            static_cast<float>(static_cast<double>(a_[static_cast<size_t>(i)]) * b_[static_cast<size_t>(j)]);
    desc_.m = kM, desc_.n = kN, desc_.k = 1;
    desc_.a.data = a_.data(), desc_.a.dtype = LATHE_F32, desc_.a.leading_dimension = 1;
    desc_.b.data = b_.data(), desc_.b.dtype = LATHE_F32, desc_.b.leading_dimension = kN;
    desc_.d.data = d_.data(), desc_.d.dtype = LATHE_F32, desc_.d.leading_dimension = kN;
    desc_.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
  }

  void poison() { std::memset(d_.data(), 0xff, d_.size() * sizeof(float)); }
  bool is_right() const { return std::memcmp(d_.data(), expected_.data(), d_.size() * sizeof(float)) == 0; }
  const lathe_matmul_desc* desc() const { return &desc_; }
  lathe_matmul_desc* mutable_desc() { return &desc_; }

 private:
  std::vector<float> a_, b_, d_, expected_;
  lathe_matmul_desc desc_ = LATHE_MATMUL_DESC_INIT;
};

class HostStateTest : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    SKIP_UNLESS_CPU("only CPU kernels run on the host's threads");
  }
  // Calls twice: the second call takes the path for repeated calls.
  void expect_right(lathe_device* device, OuterProduct* product, const HostState& state) {
    for (int call = 0; call < 2; ++call) {
      product->poison();
      lathe_status status = LATHE_INTERNAL;
      const bool kept = keeps_state(state, [&] { status = lathe_matmul(device, nullptr, product->desc()); });
      ASSERT_EQ(status, LATHE_OK) << lathe_last_error();
      EXPECT_TRUE(product->is_right()) << state.name << ", call " << call;
      EXPECT_TRUE(kept) << state.name << ": the state changed during the call";
    }
  }

  Random random_ = random_stream(21);
  OuterProduct normal_{1, &random_};
  OuterProduct subnormal_{0x1p-128, &random_};
};

TEST_F(HostStateTest, ChangesNoResultWhenSetBeforeTheThreadsStart) {
  for (const HostState& state : kStates) {
    for (int32_t workers : {1, 4}) {
      OpenDevice fresh(memory_only(workers));
      ASSERT_EQ(fresh.status(), LATHE_OK) << lathe_last_error();
      expect_right(fresh.get(), &normal_, state);  // compiles, and starts the workers
      expect_right(fresh.get(), &subnormal_, state);
    }
  }
}

TEST_F(HostStateTest, ChangesNoResultWhenSetAfterTheThreadsStarted) {
  OpenDevice started(memory_only(4));
  ASSERT_EQ(started.status(), LATHE_OK) << lathe_last_error();
  ASSERT_LATHE_OK(lathe_matmul(started.get(), nullptr, normal_.desc()));
  for (const HostState& state : kStates) {
    expect_right(started.get(), &normal_, state);
    expect_right(started.get(), &subnormal_, state);
  }
}

// The first thread is the caller's. The other threads inherit its state.
struct CallersThreads {
  std::atomic<uint64_t> seen{0};

  static void run(void* user, int64_t count, lathe_task_fn body, void* context) {
    static_cast<CallersThreads*>(user)->seen = state_of_thread();
    std::atomic<int64_t> next{0};
    const auto work = [&](int32_t slot) {
      for (int64_t i = next++; i < count; i = next++) body(context, i, slot);
    };
    std::thread other(work, 1);
    work(0);
    other.join();
  }
};

TEST_F(HostStateTest, ChangesNoResultOfACallersParallelFor) {
  CallersThreads callers;
  lathe_context_options options = memory_only(2);
  options.parallel_for = CallersThreads::run;
  options.parallel_for_user = &callers;
  OpenDevice lent(options);
  ASSERT_EQ(lent.status(), LATHE_OK) << lathe_last_error();
  ASSERT_LATHE_OK(lathe_matmul(lent.get(), nullptr, normal_.desc()));
  ASSERT_NE(callers.seen, 0u) << "the product is not run in parallel";
  for (const HostState& state : kStates) {
    expect_right(lent.get(), &normal_, state);
    expect_right(lent.get(), &subnormal_, state);
    state.set();
    const uint64_t wanted = state_of_thread();
    reset_thread();
    EXPECT_EQ(callers.seen, wanted) << state.name;
  }
}

TEST_F(HostStateTest, ChangesNoSlice) {
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), subnormal_.desc(), &plan));
  int32_t phases = 0;
  ASSERT_LATHE_OK(lathe_plan_phases(plan, &phases));
  constexpr int32_t kWorkers = 2;
  size_t bytes = 0;
  ASSERT_LATHE_OK(lathe_plan_slice_workspace_bytes(plan, kWorkers, &bytes));
  const GuardedMemory memory(bytes, Flush::kStart);
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.data = memory.address(), workspace.bytes = bytes;
  subnormal_.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(&workspace);
  for (const HostState& state : kStates) {
    subnormal_.poison();
    for (int32_t phase = 0; phase < phases; ++phase)
      for (int32_t worker = 0; worker < kWorkers; ++worker)
        EXPECT_TRUE(keeps_state(state, [&] {
          EXPECT_LATHE_OK(lathe_plan_run_matmul_slice(plan, subnormal_.desc(), phase, worker, kWorkers));
        })) << state.name;
    EXPECT_TRUE(subnormal_.is_right()) << state.name;
  }
  lathe_plan_destroy(plan);
}

// K = 0 runs no kernel: the library itself computes beta * C.
TEST_F(HostStateTest, ChangesNoEmptyProduct) {
  float c[2] = {0x1.000002p-128f, 3}, d[2] = {};
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1, desc.n = 2, desc.k = 0;
  desc.epilogue.beta = 1.0f / 3;
  for (lathe_operand* o : {&desc.a, &desc.b, &desc.c, &desc.d})
    o->dtype = LATHE_F32, o->leading_dimension = 2;
  desc.a.data = desc.b.data = desc.c.data = c;
  desc.d.data = d;
  for (const HostState& state : kStates) {
    EXPECT_TRUE(keeps_state(state, [&] { EXPECT_LATHE_OK(lathe_matmul(device(), nullptr, &desc)); }))
        << state.name;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(d[i], static_cast<float>(static_cast<double>(c[i]) * desc.epilogue.beta)) << state.name;
  }
}

#if defined(__x86_64__)
// A kernel must not rely on the tile configuration that it finds: the ABI lets a call change it.
TEST_F(HostStateTest, MayContainConfiguredTiles) {
  MatmulCase c;
  c.m = 70, c.n = 130, c.k = 250, c.in = LATHE_BF16;
  MatmulRequest request(c, &random_);
  ASSERT_TRUE(request.run(device()));  // opening the device requested the AMX registers
  if (!__builtin_cpu_supports("amx-tile")) GTEST_SKIP() << "this processor has no AMX";
  alignas(64) uint8_t config[64] = {1};  // palette 1
  config[16] = 4, config[48] = 1;        // tile 0: one line of 4 bytes
  config[18] = 12, config[49] = 3;       // tile 1: three lines of 12
  asm volatile("ldtilecfg %0" ::"m"(config));
  EXPECT_TRUE(request.run(device()));
  asm volatile("tilerelease");
}
#endif

// The oracle computes times. Another rounding mode could change them, and so the plan.
TEST_F(HostStateTest, ChangesNoPlan) {
  const auto explain = [&] {
    std::string text;
    EXPECT_LATHE_OK(lathe_explain_matmul(
        device(), normal_.desc(),
        [](void* user, const char*, const char* piece, size_t size) {
          static_cast<std::string*>(user)->append(piece, size);
        },
        &text));
    return text;
  };
  const std::string wanted = explain();
  for (const HostState& state : kStates) {
    std::string text;
    keeps_state(state, [&] { text = explain(); });
    EXPECT_EQ(text, wanted) << state.name;
  }
}

}  // namespace
}  // namespace lathe::conformance
