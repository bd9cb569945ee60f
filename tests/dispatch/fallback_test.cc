// LATHE_MISS_FALLBACK with a fake driver and fake compilers: which kernel runs, and what is compiled where.
#include "dispatch/fallback.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "core/generic.h"
#include "fake_device.h"
#include "generic_bundle.h"
#include "kernels/candidates_generic.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class Fallback : public testing::Test {
 protected:
  Fallback() {
    std::string pattern = (fs::temp_directory_path() / "lathe-fallback-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/fallback.bundle";
    write(generic_bundle_bytes());
  }
  ~Fallback() override { fs::remove_all(directory_); }

  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  std::unique_ptr<FakeDevice> open(const std::string& compiler = fake_compiler(),
                                   const std::string& facts = "ryzen-7-5800u.json") {
    return std::make_unique<FakeDevice>(compiler, MissPolicy::kFallback, facts, path_);
  }
  static lathe_status run(FakeDevice& fake, MatmulRequest& m) {
    return lathe_matmul(fake.device.get(), nullptr, &m.desc);
  }
  static bool ran_generic(const FakeDevice& fake) {
    return fake.driver->last.kernel->recipe().steps[0].symbol == "generic";
  }
  // Repeats the call until the class's own kernel runs. Fails after two minutes.
  static void wait_for_own_kernel(FakeDevice& fake, MatmulRequest& m) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    do {
      ASSERT_EQ(run(fake, m), LATHE_OK) << lathe_last_error();
      if (!ran_generic(fake)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (std::chrono::steady_clock::now() < end);
    FAIL() << "the generic kernel still runs";
  }
  static bool says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static bool error_says(const std::string& part) { return says(lathe_last_error(), part); }

  std::string directory_, path_;
};

TEST_F(Fallback, FirstCallRunsTheGenericKernelAndLaterOnesTheirOwn) {
  auto fake = open(fake_compiler("slow"));
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
  EXPECT_EQ(fake->statistics().compiles, 0u) << "the slow compiler cannot be done yet";
  EXPECT_EQ(fake->statistics().fallback_runs, 1u);
  EXPECT_EQ(fake->statistics().dispatch_misses, 1u);
  EXPECT_EQ(fake->driver->last_args.form, form_of(fake->driver->last_problem));
  EXPECT_EQ(fake->driver->last_args.form & 2, 2) << "B is column-major";
  wait_for_own_kernel(*fake, m);
  const lathe_statistics before = fake->statistics();
  EXPECT_EQ(before.compiles, 1u);
  ASSERT_EQ(run(*fake, m), LATHE_OK);
  EXPECT_EQ(fake->statistics().dispatch_hits, before.dispatch_hits + 1);
  EXPECT_EQ(fake->statistics().fallback_runs, before.fallback_runs);
}

TEST_F(Fallback, PolicyOfACallOverridesTheContexts) {
  auto fake = open(fake_compiler("slow"));
  MatmulRequest blocks(7, 40, 33), refuses(8, 40, 33);
  blocks.desc.miss_policy = LATHE_MISS_BLOCK;
  ASSERT_EQ(run(*fake, blocks), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(ran_generic(*fake));
  refuses.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(run(*fake, refuses), LATHE_MISS);
  EXPECT_EQ(fake->statistics().fallback_runs, 0u);

  FakeDevice other(fake_compiler("slow"), MissPolicy::kBlock, "ryzen-7-5800u.json", path_);
  MatmulRequest falls_back(7, 40, 33);
  falls_back.desc.miss_policy = LATHE_MISS_FALLBACK;
  ASSERT_EQ(run(other, falls_back), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(other));
}

// A background compile runs at idle priority, so a call that must have the kernel compiles it itself.
TEST_F(Fallback, BlockingCallDoesNotWaitForTheBackground) {
  auto fake = open(fake_compiler("slow"));
  // Repeats until a call arrives while the background compiles its class. If the call is first, the background waits
  // for it instead.
  uint64_t classes = 0;
  while (classes < 200 && fake->statistics().compiles == classes) {
    MatmulRequest m(7, 40 + static_cast<int64_t>(classes++), 33);
    ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
    EXPECT_TRUE(ran_generic(*fake));
    while (fake->statistics().background_waiting > 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lathe_plan* plan = nullptr;
    ASSERT_EQ(lathe_plan_matmul(fake->device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
    lathe_plan_destroy(plan);
    wait_for_own_kernel(*fake, m);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (fake->statistics().compiles == classes && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(fake->statistics().compiles, classes) << "one kernel was compiled twice";
}

TEST_F(Fallback, NeedsNoCompiler) {
  auto fake = open("/nonexistent/liblathe-compiler.so");
  MatmulRequest m(7, 40, 33);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
  EXPECT_EQ(fake->statistics().fallback_runs, 3u);
}

TEST_F(Fallback, DeterminismAboveFastBlocks) {
  auto fake = open();
  for (lathe_determinism d : {LATHE_DETERMINISM_RUN_TO_RUN, LATHE_DETERMINISM_BATCH_INVARIANT}) {
    MatmulRequest m(7, 40, 33);
    m.desc.determinism = d;
    ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
    EXPECT_FALSE(ran_generic(*fake));
  }
  EXPECT_EQ(fake->statistics().fallback_runs, 0u);
  ArgmaxRequest a(3, 100);
  a.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  ASSERT_EQ(lathe_argmax(fake->device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake)) << "every argmax kernel gives the same bits";
}

TEST_F(Fallback, ForcedCandidatesAndPlansBlock) {
  auto fake = open();
  MatmulRequest m(7, 40, 33);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.candidate = 1;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(ran_generic(*fake));
  MatmulRequest planned(8, 40, 33);
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake->device.get(), &planned.desc, &plan), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &planned.desc), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(ran_generic(*fake));
  lathe_plan_destroy(plan);
  EXPECT_EQ(fake->statistics().fallback_runs, 0u);
}

TEST_F(Fallback, ContextThatRequiresALibraryBlocks) {
  FakeDevice fake(fake_compiler(), MissPolicy::kFallback, "ryzen-7-5800u.json", path_, 1024,
                  {ExternalUse::kRequire, ExternalId::kOpenBlas});
  fake.driver->absent_openblas = "no such file";
  MatmulRequest m(7, 40, 33);
  EXPECT_EQ(run(fake, m), LATHE_UNSUPPORTED);
  EXPECT_TRUE(error_says("no such file")) << lathe_last_error();
  EXPECT_EQ(fake.statistics().fallback_runs, 0u);
}

TEST_F(Fallback, WithoutAUsableBundleMissesBlockAndWarnOnce) {
  std::string damaged = generic_bundle_bytes();
  damaged.back() ^= 1;  // in the payload that all kernels of the last target share
  const std::tuple<const char*, std::string, const char*> bundles[] = {
      {"ryzen-7-5800u.json", "", "fallback.bundle: "},
      {"ryzen-7-5800u.json", generic_bundle_bytes().substr(0, 1000), "fallback.bundle: "},
      {"ryzen-7-5800u.json", generic_bundle_bytes("another"), "codegen id another"},
      {"mi300x.json", damaged, "wrong checksum"}};
  for (const auto& [facts, bytes, cause] : bundles) {
    fs::remove(path_);
    if (!bytes.empty()) write(bytes);
    auto fake = open(fake_compiler(), facts);
    for (int64_t n : {40, 41, 42}) {
      MatmulRequest m(7, n, 33);
      EXPECT_EQ(run(*fake, m), LATHE_OK) << cause << ": " << lathe_last_error();
      EXPECT_FALSE(ran_generic(*fake));
      EXPECT_EQ(run(*fake, m), LATHE_OK);
    }
    EXPECT_EQ(fake->statistics().compiles, 3u);
    EXPECT_EQ(fake->statistics().dispatch_hits, 3u);
    EXPECT_EQ(fake->statistics().fallback_runs, 0u);
    const std::vector<std::string> said = fake->warnings();
    ASSERT_EQ(said.size(), 1u) << cause;
    EXPECT_TRUE(says(said[0], path_) && says(said[0], cause)) << said[0];
    write(generic_bundle_bytes());
    MatmulRequest next(7, 43, 33);
    EXPECT_EQ(run(*fake, next), LATHE_OK) << lathe_last_error();
    EXPECT_TRUE(ran_generic(*fake)) << "a bundle that appears later is found";
  }
}

TEST_F(Fallback, WithoutBundleAndCompilerTheErrorHasBothCauses) {
  fs::remove(path_);
  ContextOptions options;
  options.cache_dir = directory_ + "/cache";
  options.compiler_library = fake_compiler();
  options.fallback_bundle = path_;
  options.miss_policy = MissPolicy::kFallback;
  options.log_sink = [](LogLevel, const std::string&) {};
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  MatmulRequest kept(7, 40, 33), unknown(7, 41, 33);
  for (const bool first : {true, false}) {
    if (!first) options.compiler_library = "/nonexistent/liblathe-compiler.so";
    lathe_context context(options);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    EXPECT_EQ(lathe_matmul(&device, nullptr, &kept.desc), LATHE_OK) << lathe_last_error();
    lathe_statistics s = LATHE_STATISTICS_INIT;
    read_statistics(context, &s);
    EXPECT_EQ(s.compiles, first ? 1u : 0u);
    if (first) continue;
    EXPECT_EQ(lathe_matmul(&device, nullptr, &unknown.desc), LATHE_NOT_AVAILABLE);
    EXPECT_TRUE(error_says("matmul f32 a=n b=t m=7 n=41")) << lathe_last_error();
    EXPECT_TRUE(error_says(path_) && error_says("/nonexistent/liblathe-compiler.so")) << lathe_last_error();
  }
}

TEST_F(Fallback, ClosingWaitsForTheRunningCompileOnly) {
  for (int i = 0; i < 3; ++i) {
    auto fake = open(fake_compiler("slow"));
    std::vector<MatmulRequest> requests;
    for (int64_t n = 1; n <= 200; ++n) requests.emplace_back(3, n, 33);
    for (MatmulRequest& m : requests) ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
    const auto start = std::chrono::steady_clock::now();
    fake->device.reset();
    fake->described.reset();
    fake->context.reset();
    // 200 jobs of 100 ms each wait, and one runs.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST_F(Fallback, ManyThreadsSubmitAClassOnce) {
  auto fake = open(fake_compiler("slow"));
  fake->driver->record = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      MatmulRequest m(7, 40, 33);
      for (int i = 0; i < 100; ++i)
        if (run(*fake, m) != LATHE_OK) ADD_FAILURE() << lathe_last_error();
    });
  for (std::thread& t : threads) t.join();
  fake->driver->record = true;
  MatmulRequest m(7, 40, 33);
  wait_for_own_kernel(*fake, m);
  EXPECT_EQ(fake->statistics().compiles, 1u);
}

TEST_F(Fallback, ClassThatFailsToCompileStaysGenericAndIsNotRetried) {
  auto fake = open(fake_compiler("fails"));
  MatmulRequest m(7, 40, 33);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (fake->statistics().compile_failures == 0 && std::chrono::steady_clock::now() < end)
    ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
  MatmulRequest next(9, 40, 33);  // the queue continues
  ASSERT_EQ(run(*fake, next), LATHE_OK) << lathe_last_error();
  while (fake->statistics().compile_failures < 2 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(fake->statistics().compile_failures, 2u) << "one per class";
}

TEST_F(Fallback, GenericKernelDoesNotUseAWorkspaceThatIsTooSmall) {
  auto fake = open(fake_compiler("slow"));
  MatmulRequest m(7, 40, 33);
  alignas(64) char memory[256];
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.data = memory;
  workspace.bytes = sizeof(memory);
  m.desc.next = reinterpret_cast<const lathe_chain*>(&workspace);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
  EXPECT_EQ(fake->driver->last.workspace, nullptr) << "7 x 40 x 4 bytes do not fit into it";
}

TEST_F(Fallback, OnAGpuTheDriverAssemblesThePtx) {
  auto fake = open(fake_compiler("slow"), "h200.json");
  fake->driver->finished_code = "cubin";
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
  EXPECT_EQ(fake->driver->finishes.load(), 1);
  MatmulRequest other(70, 80, 90);
  ASSERT_EQ(run(*fake, other), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake->statistics().fallback_runs, 2u);
}

TEST_F(Fallback, EveryAmdDeviceHasAGenericKernel) {
  for (const char* facts :
       {"mi210.json", "mi250x.json", "mi300x.json", "mi355x.json", "rx-7900-xtx.json", "rx-9070-xt.json"}) {
    auto fake = open("/nonexistent/liblathe-compiler.so", facts);
    MatmulRequest m(7, 40, 33);
    ASSERT_EQ(run(*fake, m), LATHE_OK) << facts << ": " << lathe_last_error();
    EXPECT_TRUE(ran_generic(*fake)) << facts;
    EXPECT_EQ(fake->driver->finishes.load(), 0) << "an hsaco needs no assembling";
  }
}

// The background thread runs in the parent and does not exist in the child.
TEST_F(Fallback, ForkedChildCanDestroyItsCopyOfTheContext) {
  auto fake = open();
  MatmulRequest m(7, 40, 33);
  wait_for_own_kernel(*fake, m);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // fails the test if the child hangs
      const bool served = run(*fake, m) == LATHE_OK;
      fake.reset();
      _exit(served ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(Fallback, ForkedChildHasItsOwnBackground) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer ends a child that starts a thread";
#endif
#endif
  auto fake = open();
  MatmulRequest m(7, 40, 33), other(7, 48, 33);
  wait_for_own_kernel(*fake, m);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    const bool generic_first = run(*fake, other) == LATHE_OK && ran_generic(*fake);
    wait_for_own_kernel(*fake, other);
    const bool refused = fake->statistics().background_refused != 0;
    fake.reset();
    _exit(generic_first && !refused && !HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Loads generic kernels at once and others when the gate opens, so that the test controls which job runs.
class GatedDriver : public FakeDriver {
 public:
  GatedDriver(DeviceFacts facts, std::mutex* gate) : FakeDriver(std::move(facts)), gate_(*gate) {}
  absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) override {
    if (artifact.code == "generic") return FakeDriver::load(artifact);
    const std::lock_guard<std::mutex> lock(gate_);
    return FakeDriver::load(artifact);
  }

 private:
  std::mutex& gate_;
};

class Queue : public Fallback {
 protected:
  void SetUp() override {
    fake_ = std::make_unique<FakeDevice>(fake_compiler(), MissPolicy::kFallback, "ryzen-7-5800u.json", path_,
                                         /*most_waiting=*/3);
    device_ = std::make_unique<lathe_device>(*fake_->context, "gated", fake_->device->facts,
                                             std::make_unique<GatedDriver>(fake_->device->facts, &gate_));
    closed_ = std::unique_lock<std::mutex>(gate_);
    miss(1);
    wait_until([&] { return fake_->statistics().background_waiting == 0; });  // its job runs
  }
  void miss(int64_t n) {
    MatmulRequest m(3, n, 33);
    ASSERT_EQ(lathe_matmul(device_.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  }
  template <typename Condition>
  static void wait_until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(condition());
  }
  void open_gate(uint64_t compiles) {
    closed_.unlock();
    wait_until([&] { return fake_->statistics().background_compiles == compiles; });
    EXPECT_EQ(fake_->statistics().background_waiting, 0u);
  }

  std::mutex gate_;
  std::unique_ptr<FakeDevice> fake_;
  std::unique_ptr<lathe_device> device_;
  std::unique_lock<std::mutex> closed_;
};

TEST_F(Queue, RefusesJobsWhenFullAndTakesThemLater) {
  for (int64_t n = 2; n <= 10; ++n) miss(n);
  EXPECT_EQ(fake_->statistics().background_waiting, 3u);
  EXPECT_EQ(fake_->statistics().background_refused, 6u);
  EXPECT_EQ(fake_->statistics().fallback_runs, 10u) << "refused calls run too";
  open_gate(4);
  miss(10);
  wait_until([&] { return fake_->statistics().background_compiles == 5; });
  MatmulRequest m(3, 10, 33);
  m.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_matmul(device_.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
}

TEST_F(Queue, CompilesMostRequestedFirst) {
  for (int64_t n : {2, 3, 4}) miss(n);
  for (int64_t n : {3, 4, 4}) miss(n);
  open_gate(4);
  std::vector<std::string> ready;
  const std::string before = "batch=1 on gated: ready";
  wait_until([&] {
    const std::lock_guard<std::mutex> lock(fake_->log_mutex);
    ready.clear();
    for (const std::string& line : fake_->log)
      if (line.rfind("background: ", 0) == 0 && line.find(before) != std::string::npos)
        ready.push_back(line.substr(line.find(" n=") + 3, 1));
    return ready.size() == 4;
  });
  EXPECT_EQ(ready, (std::vector<std::string>{"1", "4", "3", "2"})) << "1 was running; 4 missed three times";
}

// A HIP version that does not know generic targets.
TEST_F(Fallback, ErrorNamesARuntimeWithoutGenericTargets) {
  MatmulRequest m(7, 40, 33);
  auto fake = open(fake_compiler(), "mi300x.json");
  fake->driver->refused_code = "generic";
  EXPECT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake->statistics().compiles, 1u) << "the miss blocks";
  ASSERT_EQ(fake->warnings().size(), 1u);
  const std::string said = fake->warnings()[0];
  EXPECT_TRUE(says(said, path_) && says(said, "gfx9-4-generic") && says(said, "ROCm 6.4")) << said;
  // A lack of memory does not mean that the device refuses the code.
  MatmulRequest other(7, 41, 33);
  fake->driver->refused_code = "none";
  fake->driver->load_error = absl::ResourceExhaustedError("no memory for the module");
  EXPECT_EQ(run(*fake, other), LATHE_OUT_OF_MEMORY);
  EXPECT_TRUE(error_says("no memory for the module")) << lathe_last_error();
  fake->driver->load_error = absl::OkStatus();
  EXPECT_EQ(run(*fake, other), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(ran_generic(*fake));
}

TEST_F(Fallback, BlocksIfTheDeviceRefusesTheBundlesCode) {
  auto fake = open();
  fake->driver->refused_code = "generic";
  fake->driver->refusal = absl::InvalidArgumentError("cannot link kernel object");
  MatmulRequest m(7, 40, 33);
  EXPECT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(ran_generic(*fake));
  ASSERT_EQ(fake->warnings().size(), 1u);
  EXPECT_TRUE(says(fake->warnings()[0], "cannot link kernel object")) << fake->warnings()[0];
}

// A driver that assembles PTX only when a gate opens.
class SlowFinish : public FakeDriver {
 public:
  SlowFinish(DeviceFacts facts, std::mutex* gate, std::atomic<int>* arrived)
      : FakeDriver(std::move(facts)), gate_(*gate), arrived_(*arrived) {}
  Artifact finish(Artifact artifact) override {
    ++arrived_;
    const std::lock_guard<std::mutex> lock(gate_);
    artifact.format = CodeFormat::kCubin;
    return artifact;
  }

 private:
  std::mutex& gate_;
  std::atomic<int>& arrived_;
};

// The assembled code of a generic kernel is kept in the cache. No call waits for another caller that assembles it.
TEST_F(Fallback, OnAGpuNoCallWaitsForAnothersAssembly) {
  ContextOptions options;
  options.cache_dir = directory_ + "/cache";
  options.compiler_library = "/nonexistent/liblathe-compiler.so";
  options.fallback_bundle = path_;
  options.miss_policy = MissPolicy::kFallback;
  options.trace = directory_ + "/trace.json";
  options.log_sink = [](LogLevel, const std::string&) {};
  const DeviceFacts facts = *load_facts(facts_file("h200.json"));
  std::mutex closed, open;
  std::atomic<int> slow_finishes{0}, finishes{0};
  const auto serve = [&](lathe_context& context, std::mutex* gate, std::atomic<int>* arrived) {
    lathe_device device(context, "fake", facts, std::make_unique<SlowFinish>(facts, gate, arrived));
    MatmulRequest m(7, 40, 33);
    EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  };
  lathe_context context(options), another(options);
  std::future<void> slow, quick;
  {
    const std::lock_guard<std::mutex> lock(closed);
    slow = std::async(std::launch::async, [&] { serve(context, &closed, &slow_finishes); });
    while (slow_finishes.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    quick = std::async(std::launch::async, [&] {
      serve(context, &open, &finishes);
      serve(another, &open, &finishes);
    });
    EXPECT_EQ(quick.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(finishes.load(), 1) << "the other context finds it on disk";
  }
  quick.get();
  slow.get();
  std::ifstream trace(options.trace);
  const std::string events(std::istreambuf_iterator<char>(trace), {});
  EXPECT_TRUE(says(events, R"("cat":"load")") && says(events, R"("symbol":"generic")")) << events;
}

// If the cached cubin is for another driver version, the bundle's PTX is assembled again and replaces it.
TEST_F(Fallback, OnAGpuAStaleCubinIsReplaced) {
  auto fake = open(fake_compiler("slow"), "h200.json");
  fake->driver->finished_code = "an old cubin";
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  for (const int finishes : {1, 0}) {
    auto own = std::make_unique<FakeDriver>(fake->device->facts);
    FakeDriver& driver = *own;
    driver.refused_code = "an old cubin";
    driver.finished_code = "a new cubin";
    lathe_device device(*fake->context, "updated", fake->device->facts, std::move(own));
    EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(driver.last.kernel->recipe().steps[0].symbol, "generic");
    EXPECT_EQ(driver.finishes.load(), finishes);
  }
}

TEST_F(Fallback, MissDuringACapturePreparesNothing) {
  for (const char* facts : {"h200.json", "mi300x.json"}) {
    auto fake = open(fake_compiler("slow"), facts);
    fake->driver->captured_stream = nullptr;
    MatmulRequest m(7, 40, 33);
    EXPECT_EQ(run(*fake, m), LATHE_CAPTURE_MISS);
    EXPECT_EQ(fake->driver->loads.load(), 0);
    EXPECT_EQ(fake->statistics().fallback_runs, 0u);
  }
}

// Column tiles are along y of the grid, which has at most 65535 workgroups on a GPU.
TEST_F(Fallback, GridWithTooManyTilesBlocks) {
  auto fake = open(fake_compiler(), "h200.json");
  MatmulRequest m(1, 5 * 65535, 1);
  ASSERT_EQ(run(*fake, m), LATHE_OK) << lathe_last_error();
  EXPECT_FALSE(ran_generic(*fake));
}

}  // namespace
}  // namespace lathe
