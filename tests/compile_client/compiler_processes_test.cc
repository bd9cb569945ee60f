// Compiler processes with a fake compiler that crashes, hangs or runs out of memory for certain N of a request.
#include "compile_client/compiler_processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/idle_thread.h"
#include "compile_client/compiler_library.h"
#include "core/key.h"
#include "fake_device.h"
#include "generic_bundle.h"
#include "tests/compiler_children.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

enum Way {
  kCrashes = 1001,
  kAborts,
  kHangs,
  kExits,
  kEatsMemory,
  kHalfAnswer,
  kGarbage,
  kHugeDump,
  kStartsAndHangs
};

// The shadow memory of a sanitizer exceeds any limit, so the process sets none.
#ifndef __has_feature
#define __has_feature(x) 0
#endif
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);

CompilerProcessOptions options(const std::string& way = "misbehaves") {
  CompilerProcessOptions o;
  o.executable = LATHE_COMPILER_PROCESS_FILE;
  o.compiler_path = fake_compiler(way);
  o.request_seconds = 60;
  return o;
}

absl::StatusOr<Artifact> compile(Compiler& compiler, int64_t n = 7) {
  ProblemClass problem;
  problem.n = n;
  return compiler.compile({problem, CompileConfig(), Target(), nullptr});
}

TEST(CompilerProcesses, AnswerLikeTheLibrary) {
  CompilerProcesses processes(options(""));
  CompilerLibrary library(fake_compiler());
  const auto out = compile(processes), in = compile(library);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(serialize(*out), serialize(*in));
  EXPECT_FALSE(processes.mapped());
  EXPECT_GT(processes.load_milliseconds(), 0.0);
  EXPECT_EQ(children_of(getpid()).size(), 1u);
}

TEST(CompilerProcesses, PassDumpsAndErrors) {
  CompilerProcesses processes(options(""));
  std::vector<std::string> stages;
  ProblemClass problem;
  ASSERT_TRUE(processes
                  .dump({problem, CompileConfig(), Target(), nullptr}, "stages: []",
                        [&](absl::string_view name, absl::string_view text) {
                          stages.push_back(std::string(name) + "=" + std::string(text));
                        })
                  .ok());
  EXPECT_THAT(stages, testing::ElementsAre("00-payload.mlir=payload", "llvm.ll=stages: []"));
  CompilerProcesses failing(options("fails"));
  const absl::Status failed = compile(failing).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(failed.message(), "stage vectorise: no such shape");
  CompilerProcesses mumbling(options("gives_garbage"));
  EXPECT_EQ(compile(mumbling).status().code(), absl::StatusCode::kInternal);
}

TEST(CompilerProcesses, CrashFailsOnlyItsRequest) {
  CompilerProcessOptions o = options();
  o.request_seconds = 3;
  o.memory_bytes = uint64_t{1} << 30;
  CompilerProcesses processes(o);
  const std::tuple<Way, absl::StatusCode, const char*> ways[] = {
      {kCrashes, absl::StatusCode::kAborted, "signal 11 (Segmentation fault)"},
      {kAborts, absl::StatusCode::kAborted, "signal 6 (Aborted)"},
      {kHangs, absl::StatusCode::kDeadlineExceeded, "took more than 3 s"},
      {kExits, absl::StatusCode::kAborted, "ended with status 3"},
      {kEatsMemory, absl::StatusCode::kAborted, "signal 6"},
      {kHalfAnswer, absl::StatusCode::kAborted, "ended with status 0"},
      {kGarbage, absl::StatusCode::kAborted, "magic"},
  };
  for (const auto& [way, code, text] : ways) {
    if (way == kEatsMemory && kSanitized) continue;
    const absl::Status status = compile(processes, way).status();
    EXPECT_EQ(status.code(), code) << way << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text)) << way;
    const auto next = compile(processes);
    EXPECT_TRUE(next.ok()) << "after " << way << ": " << next.status();
  }
  EXPECT_EQ(children_of(getpid()).size(), 1u) << "dead processes are reaped";
  EXPECT_TRUE(compile(processes, kHugeDump).ok()) << "a dump of 20 MB arrives";
}

TEST(CompilerProcesses, ServeOtherRequestsWhileOneHangs) {
  CompilerProcessOptions o = options();
  o.request_seconds = 6;  // enough for the others on a busy machine
  CompilerProcesses processes(o);
  std::atomic<bool> ended{false};
  std::thread hanging([&] {
    EXPECT_EQ(compile(processes, kHangs).status().code(), absl::StatusCode::kDeadlineExceeded);
    ended = true;
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(compile(processes).ok());
  EXPECT_FALSE(ended) << "the others waited for it";
  hanging.join();
}

TEST(CompilerProcesses, KillingAHungProcessKillsItsChildren) {
  CompilerProcessOptions o = options();
  o.request_seconds = 4;  // the watcher must see the child before
  CompilerProcesses processes(o);
  std::vector<pid_t> group;
  std::thread watcher([&] {
    comes_true([&] {
      const auto children = children_of(getpid());
      if (children.empty()) return false;
      group = processes_where(
          [&](const ProcessStat& s) { return s.group == children[0] && s.name == "(sleep)"; });
      return !group.empty();
    });
  });
  EXPECT_EQ(compile(processes, kStartsAndHangs).status().code(), absl::StatusCode::kDeadlineExceeded);
  watcher.join();
  ASSERT_EQ(group.size(), 1u);
  EXPECT_TRUE(comes_true([&] { return is_gone(group[0]); }));
}

TEST(CompilerProcesses, KilledIdleProcessIsReplaced) {
  CompilerProcesses processes(options());
  ASSERT_TRUE(compile(processes).ok());
  const auto before = children_of(getpid());
  ASSERT_EQ(before.size(), 1u);
  kill(before[0], SIGKILL);
  // Wait until all its threads have ended, since its socket stays open until then.
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(before[0]), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(compile(processes).ok());
  EXPECT_THAT(children_of(getpid()), testing::Not(testing::ElementsAre(before[0])));
}

TEST(CompilerProcesses, KilledBusyProcessFailsItsRequest) {
  CompilerProcesses processes(options());
  ASSERT_TRUE(compile(processes).ok());
  const auto children = children_of(getpid());
  ASSERT_EQ(children.size(), 1u);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the request must have begun
    kill(children[0], SIGKILL);
  });
  const absl::Status status = compile(processes, kHangs).status();
  killer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 9 (Killed)"));
  EXPECT_TRUE(compile(processes).ok());
}

TEST(CompilerProcesses, EndWhenIdleForTooLong) {
  CompilerProcessOptions o = options();
  o.idle_seconds = 0.1;
  CompilerProcesses processes(o);
  ASSERT_TRUE(compile(processes).ok());
  EXPECT_TRUE(comes_true([] { return children_of(getpid()).empty(); }));
  EXPECT_TRUE(compile(processes).ok());
}

// A request that arrives after the goodbye goes to another process. With an idle time of 0 this is every request.
TEST(CompilerProcesses, RequestAfterGoodbyeGoesToAnotherProcess) {
  CompilerProcessOptions o = options();
  o.idle_seconds = 0.02;
  CompilerProcesses processes(o);
  for (int i = 0; i < 40; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(19500 + i * 25));
    const auto artifact = compile(processes);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
  }
}

TEST(CompilerProcesses, AreNotAvailableWithoutExecutableOrLibrary) {
  CompilerProcessOptions o = options();
  o.executable = "/nowhere/lathe-compiler-process";
  absl::Status status = compile(*std::make_unique<CompilerProcesses>(o)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "compiler process /nowhere/lathe-compiler-process: No such file or directory");
  o = options();
  o.compiler_path = "/nowhere/liblathe-compiler.so";
  status = CompilerProcesses(o).load();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/liblathe-compiler.so: "));
  status = CompilerProcesses(options("other_codegen")).load();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("codegen id 0123456789abcdef"));
  o.executable = "/bin/false";
  EXPECT_FALSE(CompilerProcesses(o).load().ok());
}

TEST(CompilerProcesses, RepeatedCrashesCauseGrowingPauses) {
  CompilerProcesses processes(options());
  const auto begin = Clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(compile(processes, kAborts).ok());
  const auto three = Clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(compile(processes, kAborts).ok());
  EXPECT_GT(Clock::now() - three, std::chrono::milliseconds(124 + 248)) << "paused";
  EXPECT_LT(three - begin, std::chrono::seconds(20));
  EXPECT_TRUE(compile(processes).ok());
}

TEST(CompilerProcesses, ServeManyThreads) {
  CompilerProcesses processes(options("slow"));
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += compile(processes).ok(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good.load(), 8);
  const size_t most = std::max(2u, std::thread::hardware_concurrency());
  EXPECT_THAT(children_of(getpid()).size(), testing::AllOf(testing::Ge(2u), testing::Le(most)));
}

TEST(CompilerProcesses, RunAtThePriorityOfTheCaller) {
  CompilerProcesses processes(options());
  ASSERT_TRUE(compile(processes).ok());
  const pid_t plain = children_of(getpid()).at(0);
  const int own = getpriority(PRIO_PROCESS, 0);
  std::thread([&] {
    if (own < 19) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    EXPECT_TRUE(compile(processes).ok());
  }).join();
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(plain)), own);
  if (own == 19) GTEST_SKIP() << "the test itself runs at the lowest priority";
  const auto children = children_of(getpid());
  ASSERT_EQ(children.size(), 2u);
  const pid_t niced = children[0] == plain ? children[1] : children[0];
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(niced)), 19);
  EXPECT_EQ(sched_getscheduler(niced), SCHED_OTHER);
}

TEST(CompilerProcesses, RunIdlyForAnIdleCaller) {
  CompilerProcesses processes(options());
  ASSERT_TRUE(compile(processes).ok());
  const pid_t plain = children_of(getpid()).at(0);
  run_idly([&] { EXPECT_TRUE(compile(processes).ok()); });  // same nice value, other policy
  const auto children = children_of(getpid());
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(sched_getscheduler(plain), SCHED_OTHER);
  EXPECT_EQ(sched_getscheduler(children[0] == plain ? children[1] : children[0]), SCHED_IDLE);
}

// A process that waits is not starved, so its deadline is not extended.
TEST(CompilerProcesses, HungIdleProcessGetsNoExtension) {
  CompilerProcessOptions o = options();
  o.request_seconds = 2;
  CompilerProcesses processes(o);
  const auto before = Clock::now();
  run_idly([&] { EXPECT_TRUE(absl::IsDeadlineExceeded(compile(processes, kHangs).status())); });
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));
}

TEST(CompilerProcesses, DoNotChangeTheHostsSignalsOrFiles) {
  constexpr int kSignals = 32;  // higher numbers are real-time signals
  struct sigaction before[kSignals], after[kSignals];
  for (int i = 1; i < kSignals; ++i) sigaction(i, nullptr, &before[i]);
  int leaks[2];
  ASSERT_EQ(pipe(leaks), 0);  // without O_CLOEXEC: a child inherits it unless it closes it
  CompilerProcesses processes(options());
  EXPECT_FALSE(compile(processes, kAborts).ok());
  ASSERT_TRUE(compile(processes).ok());
  for (int i = 1; i < kSignals; ++i) {
    sigaction(i, nullptr, &after[i]);
    EXPECT_EQ(before[i].sa_handler, after[i].sa_handler) << i;
  }
  close(leaks[1]);
  char byte;
  EXPECT_EQ(read(leaks[0], &byte, 1), 0) << "the child holds the pipe open";
  close(leaks[0]);
  for (const auto& file : fs::directory_iterator("/proc/self/fd"))
    if (fs::is_socket(file.path()))
      EXPECT_NE(fcntl(std::atoi(file.path().filename().c_str()), F_GETFD) & FD_CLOEXEC, 0) << file.path();
}

// A host whose SIGCHLD handler reaps every child, or that ignores SIGCHLD.
TEST(CompilerProcesses, WorkIfTheHostReapsChildren) {
  struct sigaction ignore = {}, before;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  {
    CompilerProcesses processes(options());
    EXPECT_TRUE(compile(processes).ok());
    const absl::Status status = compile(processes, kAborts).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is gone"));
    EXPECT_TRUE(compile(processes).ok());
  }
  sigaction(SIGCHLD, &before, nullptr);
}

TEST(CompilerProcesses, EndWithTheContext) {
  { EXPECT_TRUE(compile(*std::make_unique<CompilerProcesses>(options())).ok()); }
  EXPECT_TRUE(children_of(getpid()).empty());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

// A compiler process does not outlive its host, whether it is idle or busy.
TEST(CompilerProcesses, EndWithTheirHost) {
  for (const bool at_work : {false, true}) {
    int pipe_of_pids[2];
    ASSERT_EQ(pipe(pipe_of_pids), 0);
    const pid_t host = fork();
    if (host == 0) {
      CompilerProcesses processes(options());
      if (!compile(processes).ok()) _exit(1);
      const pid_t pid = children_of(getpid()).at(0);
      // Another child of the host that inherits the socket must not keep the process alive.
      const pid_t holder = fork();
      if (holder == 0) {
        pause();
        _exit(0);
      }
      const pid_t pids[] = {pid, holder};
      if (write(pipe_of_pids[1], pids, sizeof(pids)) != sizeof(pids)) _exit(1);
      if (at_work) (void)compile(processes, kHangs);
      pause();
    }
    pid_t pids[2] = {};
    ASSERT_EQ(read(pipe_of_pids[0], pids, sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
    const pid_t pid = pids[0];
    EXPECT_FALSE(is_gone(pid));
    kill(host, SIGKILL);
    waitpid(host, nullptr, 0);
    EXPECT_TRUE(comes_true([&] { return is_gone(pid); })) << at_work;
    kill(pids[1], SIGKILL);
    close(pipe_of_pids[0]);
    close(pipe_of_pids[1]);
  }
}

TEST(CompilerProcesses, ForkedHostStartsItsOwn) {
  CompilerProcesses processes(options());
  ASSERT_TRUE(compile(processes).ok());
  const auto mine = children_of(getpid());
  const pid_t child = fork();
  if (child == 0) {
    const bool good = compile(processes).ok() &&
                      compile(processes, kAborts).status().code() == absl::StatusCode::kAborted &&
                      compile(processes).ok() && children_of(getpid()).size() == 1;
    _exit(good ? 0 : 1);
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(compile(processes).ok());
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(compile(processes).ok());
  EXPECT_EQ(children_of(getpid()), mine) << "the end of the child did not end the parent's processes";
}

// The same through a context: a crash fails the request, and the background of LATHE_MISS_FALLBACK compiles in
// processes too.
struct IsolatedDevice {
  explicit IsolatedDevice(const std::string& way, const std::string& fallback_bundle = "",
                          bool compiles_in_process = false) {
    ContextOptions o;
    o.fallback_bundle = fallback_bundle;
    if (!fallback_bundle.empty()) o.miss_policy = MissPolicy::kFallback;
    o.compiler_library = fake_compiler(way);
    o.compiler_in_process = compiles_in_process;
    o.compiler_program = LATHE_COMPILER_PROCESS_FILE;
    o.workers = 2;
    o.log_sink = [](LogLevel, const std::string&) {};
    context = std::make_unique<lathe_context>(std::move(o));
    const DeviceFacts facts = load_facts(facts_file("ryzen-7-5800u.json")).value();
    auto own = std::make_unique<FakeDriver>(facts);
    driver = own.get();
    device = std::make_unique<lathe_device>(*context, "fake", facts, std::move(own));
  }
  lathe_statistics statistics() const {
    lathe_statistics s = LATHE_STATISTICS_INIT;
    EXPECT_EQ(lathe_context_statistics(context.get(), &s), LATHE_OK);
    return s;
  }
  bool ran_generic() const { return driver->last.kernel->recipe().steps[0].symbol == "generic"; }
  std::unique_ptr<lathe_context> context;
  std::unique_ptr<lathe_device> device;
  FakeDriver* driver = nullptr;
};

TEST(CompilerProcesses, CrashFailsOneCallAndNotTheNext) {
  IsolatedDevice isolated("misbehaves");
  MatmulRequest bad(7, kAborts, 33), good(7, 40, 33);
  EXPECT_EQ(lathe_matmul(isolated.device.get(), nullptr, &bad.desc), LATHE_COMPILE_FAILED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("matmul f32"));
  EXPECT_THAT(lathe_last_error(), HasSubstr("the compiler process was ended by signal 6 (Aborted)"));
  EXPECT_EQ(lathe_matmul(isolated.device.get(), nullptr, &good.desc), LATHE_OK) << lathe_last_error();
  lathe_statistics s = LATHE_STATISTICS_INIT;
  ASSERT_EQ(lathe_context_statistics(isolated.context.get(), &s), LATHE_OK);
  EXPECT_EQ(s.compiles, 1u);
  EXPECT_EQ(s.compile_failures, 1u);
  EXPECT_EQ(s.compiler_loaded, 0u);
}

// Also for a context that compiles in its own process.
TEST(CompilerProcesses, ReadThePipelineForADump) {
  IsolatedDevice isolated("misbehaves", "", /*compiles_in_process=*/true);
  lathe_device described(*isolated.context, "described", isolated.device->facts, nullptr);
  std::string text;
  const auto dump = [&](int64_t n) {
    const MatmulRequest m(7, n, 33);
    lathe_plan* plan = nullptr;
    EXPECT_EQ(lathe_plan_matmul(&described, &m.desc, &plan), LATHE_OK) << lathe_last_error();
    const auto append = [](void* user, const char*, const char* piece, size_t size) {
      static_cast<std::string*>(user)->append(piece, size).append("\n");
    };
    const lathe_status status = lathe_plan_dump(plan, "my: yaml", append, &text);
    lathe_plan_destroy(plan);
    return status;
  };
  ASSERT_EQ(dump(40), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(text, "payload\nmy: yaml\n");
  ASSERT_EQ(children_of(getpid()).size(), 1u) << "otherwise the pipeline below would end this process";
  EXPECT_EQ(dump(kAborts), LATHE_COMPILE_FAILED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("the compiler process was ended by signal 6 (Aborted)"));
}

class FallbackBundle {
 public:
  FallbackBundle() {
    std::string pattern = (fs::temp_directory_path() / "lathe-isolated-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    std::ofstream(path(), std::ios::binary) << generic_bundle_bytes();
  }
  ~FallbackBundle() { fs::remove_all(directory_); }
  std::string path() const { return directory_ + "/fallback.bundle"; }

 private:
  std::string directory_;
};

TEST(CompilerProcesses, FallbackCompilesInAnIdleProcess) {
  const FallbackBundle bundle;
  IsolatedDevice isolated("slow", bundle.path());
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(lathe_matmul(isolated.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(isolated.ran_generic());
  EXPECT_TRUE(comes_true([&] {
    return lathe_matmul(isolated.device.get(), nullptr, &m.desc) == LATHE_OK && !isolated.ran_generic();
  }));
  const std::vector<pid_t> made = children_of(getpid());
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(made[0])), 19);
  EXPECT_EQ(sched_getscheduler(made[0]), SCHED_IDLE);
  const lathe_statistics s = isolated.statistics();
  EXPECT_EQ(s.compiles, 1u);
  EXPECT_EQ(s.compiler_loaded, 0u);
}

// If the compiler crashes in the background, calls keep running on the generic kernel.
TEST(CompilerProcesses, FallbackSurvivesACrashingCompiler) {
  const FallbackBundle bundle;
  IsolatedDevice isolated("misbehaves", bundle.path());
  uint64_t failures = 0;
  for (const Way way : {kCrashes, kAborts, kGarbage}) {
    MatmulRequest bad(7, way, 33);
    ASSERT_EQ(lathe_matmul(isolated.device.get(), nullptr, &bad.desc), LATHE_OK) << lathe_last_error();
    ++failures;
    ASSERT_TRUE(comes_true([&] { return isolated.statistics().compile_failures == failures; })) << way;
    ASSERT_EQ(lathe_matmul(isolated.device.get(), nullptr, &bad.desc), LATHE_OK) << lathe_last_error();
    EXPECT_TRUE(isolated.ran_generic());
  }
  MatmulRequest good(7, 40, 33);
  EXPECT_TRUE(comes_true([&] {
    return lathe_matmul(isolated.device.get(), nullptr, &good.desc) == LATHE_OK && !isolated.ran_generic();
  }));
  EXPECT_EQ(isolated.statistics().compile_failures, failures) << "each class is tried once";
}

TEST(CompilerProcesses, WarmUpUsesSeveralProcesses) {
  IsolatedDevice isolated("slow");
  MatmulRequest weight(1, 40, 33);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(isolated.device.get(), weight.desc, 64, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.compiled, report.classes);
  EXPECT_EQ(children_of(getpid()).size(), 2u);
}

}  // namespace
}  // namespace lathe
