// Hosts with restrictions: no memory that becomes executable, no AMX registers, no standard streams, a small stack.
#include "../system_rules.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "argmax_case.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Runs a product on a new device. Returns "OK", the status with its message, or the result of `check`, which is called
// while the device is open.
std::string run_product(
    const lathe_context_options& options = memory_only(1),
    const std::function<std::string()>& check = [] { return std::string("OK"); }) {
  OpenDevice fresh(options);
  if (fresh.status() != LATHE_OK)
    return std::string(lathe_status_name(fresh.status())) + ": " + lathe_last_error();
  MatmulCase c;
  c.m = 3, c.n = 20, c.k = 50;
  Random random = random_stream(22);
  MatmulRequest request(c, &random);
  request.reset_output();
  const lathe_status status = lathe_matmul(fresh.get(), nullptr, request.desc());
  if (status != LATHE_OK) return std::string(lathe_status_name(status)) + ": " + lathe_last_error();
  return request.check() ? check() : "the result is wrong";
}

// This process opens no device, so a child inherits none.
class SystemRules : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_CPU("this tests restrictions of host processes"); }
};

TEST_F(SystemRules, WorksWhereMemoryCannotBecomeExecutable) {
  const std::string answer =
      in_child([] { return refuse_gain_of_execution() ? run_product() : "no PR_SET_MDWE"; });
  if (answer == "no PR_SET_MDWE") GTEST_SKIP() << answer;
  EXPECT_EQ(answer, "OK");
}

TEST_F(SystemRules, ReportsDeniedExecutableMemoryWithItsCauses) {
  const std::string answer =
      in_child([] { return deny_execution(/*files=*/true) ? run_product() : "no seccomp"; });
  if (answer == "no seccomp") GTEST_SKIP() << answer;
  EXPECT_THAT(answer,
              AllOf(StartsWith("NOT_AVAILABLE: matmul f32 "), HasSubstr("m=3 n=20 k=50"),
                    HasSubstr("mprotect: Permission denied"), HasSubstr("memfd_create: Permission denied")));
}

// A daemon closes its standard streams. What it still prints must not go into a file of Lathe.
TEST_F(SystemRules, UsesNoStandardStreamDescriptors) {
  const TemporaryDirectory directory;
  const std::string answer = in_child([&]() -> std::string {
    for (const int stream : {0, 1, 2}) close(stream);
    std::atomic<bool> stop{false};
    std::thread prints([&] {
      while (!stop)
        for (const int stream : {0, 1, 2}) (void)!write(stream, "not Lathe's", 11);
    });
    lathe_context_options options = memory_only(1);
    options.cache_dir = directory.path().c_str();
    options.compiler = LATHE_COMPILER_PROCESS;
    // The compiler process waits for more work while the device is open, so its socket is open too.
    const auto check = [] {
      for (const int stream : {0, 1, 2})
        if (fcntl(stream, F_GETFD) != -1) return "descriptor " + std::to_string(stream) + " is open";
      return std::string("OK");
    };
    std::string result = run_product(options, check);
    if (result == "OK") result = run_product(options, check);  // now from the disk cache
    stop = true;
    prints.join();
    return result;
  });
  EXPECT_EQ(answer, "OK");
}

#if defined(__x86_64__)
// Linux refuses the AMX registers to a process whose alternate signal stack is too small for them.
TEST_F(SystemRules, ReportsRefusedAmxRegisters) {
  if (!__builtin_cpu_supports("amx-tile")) GTEST_SKIP() << "this processor has no AMX";
  const std::string answer = in_child([]() -> std::string {
    static char small[2048];
    stack_t stack = {};
    stack.ss_sp = small, stack.ss_size = sizeof small;
    if (sigaltstack(&stack, nullptr) != 0) return "the system rejects a small stack";
    setenv("LATHE_CPU_TARGET", "x86-64-amx", 1);
    return run_product();
  });
  if (answer == "the system rejects a small stack") GTEST_SKIP() << answer;
  EXPECT_THAT(answer,
              AllOf(StartsWith("NOT_AVAILABLE: "), HasSubstr("refuses this process the registers of AMX")));
}
#endif

// A stack that measures how much of it was used.
class PaintedStack {
 public:
  explicit PaintedStack(size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, kGuard + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    low_ = static_cast<unsigned char*>(memory) + kGuard;
    mprotect(memory, kGuard, PROT_NONE);
    std::memset(low_, kPaint, bytes);
  }
  ~PaintedStack() { munmap(low_ - kGuard, kGuard + bytes_); }
  PaintedStack(const PaintedStack&) = delete;
  PaintedStack& operator=(const PaintedStack&) = delete;

  // Runs `body` on a thread with this stack. Returns the bytes used, including the C library's.
  size_t run(const std::function<void()>& body) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, low_, bytes_);
    pthread_t thread;
    const auto call = [](void* user) -> void* {
      (*static_cast<const std::function<void()>*>(user))();
      return nullptr;
    };
    const int error = pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&body));
    EXPECT_EQ(error, 0) << std::strerror(error);
    if (error == 0) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    size_t unused = 0;
    while (unused < bytes_ && low_[unused] == kPaint) ++unused;
    return bytes_ - unused;
  }

 private:
  static constexpr size_t kGuard = 1 << 16;
  static constexpr unsigned char kPaint = 0xa5;
  const size_t bytes_;
  unsigned char* low_;
};

// The limits that lathe.h promises.
constexpr size_t kStackOfAFirstUse = 18 << 10, kStackOfACall = 12 << 10;

// One request of an op. The check is separate from the call, because it needs more stack.
struct Request {
  std::string name;
  std::function<void()> reset;
  std::function<lathe_status(lathe_device*)> call;
  std::function<testing::AssertionResult()> check;
};

template <typename Op, typename Case, typename Run>
Request request_of(const Case& c, Random* random, const Run& run) {
  const auto op = std::make_shared<Op>(c, random);
  return {c.describe(), [op] { op->reset_output(); },
          [op, run](lathe_device* d) { return run(d, nullptr, op->desc()); }, [op] { return op->check(); }};
}

// D = max(X, 0), the shortest program worth a kernel.
class Relu {
 public:
  explicit Relu(Random* random) : x_(kM * kN), d_(kM * kN) {
    for (float& x : x_) x = static_cast<float>(random->normal());
    const std::string text = R"({"d":"f32","inputs":[{"dims":"mn","dtype":"f32"}],)"
                             R"("nodes":[["number","f32",0.0],["arith.maximumf","f32",0,1]],"yield":2})";
    EXPECT_LATHE_OK(lathe_program_create(text.data(), text.size(), &program_));
    desc_.program = program_, desc_.m = kM, desc_.n = kN;
    desc_.inputs[0].data = x_.data(), desc_.inputs[0].dtype = LATHE_F32;
    desc_.d.data = d_.data(), desc_.d.dtype = LATHE_F32;
  }
  ~Relu() { lathe_program_destroy(program_); }
  Relu(const Relu&) = delete;
  Relu& operator=(const Relu&) = delete;

  void reset_output() { std::fill(d_.begin(), d_.end(), -1.0f); }
  lathe_status call(lathe_device* device) { return lathe_elementwise(device, nullptr, &desc_); }
  testing::AssertionResult check() const {
    for (size_t i = 0; i < d_.size(); ++i)
      if (d_[i] != std::max(x_[i], 0.0f))
        return testing::AssertionFailure() << "element " << i << " is " << d_[i];
    return testing::AssertionSuccess();
  }

 private:
  static constexpr int64_t kM = 20, kN = 333;
  std::vector<float> x_, d_;
  lathe_program* program_ = nullptr;
  lathe_elementwise_desc desc_ = LATHE_ELEMENTWISE_DESC_INIT;
};

// Every op, with the kernels that the oracle chooses for few and for many rows, with and without a split.
std::vector<Request> some_requests(Random* random) {
  std::vector<Request> all;
  MatmulCase c;
  c.n = 300, c.k = 520;
  for (const lathe_dtype dtype : {LATHE_F32, LATHE_BF16, LATHE_I8}) {
    for (const int64_t m : {1, 5, 64, 300}) {
      c.m = m, c.trans_b = m != 64;
      c.in = dtype, c.out = dtype == LATHE_I8 ? LATHE_I32 : dtype;
      all.push_back(request_of<MatmulRequest>(c, random, lathe_matmul));
    }
  }
  c.m = 4, c.k = 9000, c.split_k = 5, c.in = c.out = LATHE_F32;
  all.push_back(request_of<MatmulRequest>(c, random, lathe_matmul));
  ArgmaxCase rows;
  rows.rows = 3, rows.n = 70001, rows.wants_values = true;
  all.push_back(request_of<ArgmaxRequest>(rows, random, lathe_argmax));
  MatmulArgmaxCase greedy;
  greedy.m = 2, greedy.n = 3000, greedy.k = 128;
  all.push_back(request_of<MatmulArgmaxRequest>(greedy, random, lathe_matmul_argmax));
  const auto relu = std::make_shared<Relu>(random);
  all.push_back({"elementwise", [relu] { relu->reset_output(); },
                 [relu](lathe_device* device) { return relu->call(device); },
                 [relu] { return relu->check(); }});
  return all;
}

class SmallStacks : public SystemRules {
 protected:
  // Calls on a thread with a stack of that size and checks on this thread. Returns the bytes of stack used.
  size_t call(const Request& request, lathe_device* device, size_t stack_bytes) {
    PaintedStack stack(stack_bytes);
    request.reset();
    lathe_status status = LATHE_INTERNAL;
    const size_t used = stack.run([&] { status = request.call(device); });
    EXPECT_EQ(status, LATHE_OK) << lathe_status_name(status) << ": " << request.name;
    EXPECT_TRUE(request.check()) << request.name;
    return used;
  }

  Random random_ = random_stream(23);
  const std::vector<Request> requests_ = some_requests(&random_);
};

TEST_F(SmallStacks, SufficeForAFirstUse) {
  const TemporaryDirectory directory;
  for (const int run : {0, 1}) {  // first compiled, then read from disk
    lathe_context_options options = memory_only(2);
    options.cache_dir = directory.path().c_str();
    OpenDevice fresh(options);
    ASSERT_EQ(fresh.status(), LATHE_OK) << lathe_last_error();
    for (const Request& request : requests_) call(request, fresh.get(), 32 << 10);
    if (run == 1) EXPECT_EQ(fresh.statistics().compiles, 0u);
  }
}

TEST_F(SmallStacks, CallsStayWithinThePromisedStack) {
  constexpr size_t kLarge = 1 << 20;
  PaintedStack idle(kLarge);
  const size_t of_a_thread = idle.run([] {});
  size_t first = 0, repeated = 0;
  for (const int32_t workers : {1, 2}) {
    OpenDevice fresh(memory_only(workers));
    ASSERT_EQ(fresh.status(), LATHE_OK) << lathe_last_error();
    for (const Request& request : requests_) {
      first = std::max(first, call(request, fresh.get(), kLarge) - of_a_thread);
      for (int i = 0; i < 2; ++i)
        repeated = std::max(repeated, call(request, fresh.get(), kLarge) - of_a_thread);
    }
  }
  std::printf("  stack: first use %zu bytes, repeated %zu, a thread's own %zu\n", first, repeated,
              of_a_thread);
  EXPECT_LE(first, kStackOfAFirstUse);
  EXPECT_LE(repeated, kStackOfACall);
}

}  // namespace
}  // namespace lathe::conformance
