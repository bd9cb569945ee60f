#include "observe/miss_manifest.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "core/manifest.h"
#include "dispatch/warm.h"
#include "fake_device.h"
#include "observe/text_file.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MissManifestTest : public testing::Test {
 protected:
  MissManifestTest() {
    std::string pattern = (fs::temp_directory_path() / "lathe-record-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/met.json";
  }
  ~MissManifestTest() override { fs::remove_all(directory_); }

  static DispatchKey key_for(int64_t n) {
    DispatchKey key;
    ProblemClass& c = key.problem;
    c.a = c.b = c.d = DType::kF32;
    c.n = n;
    c.k = 33;
    c.m_hi = 1;
    return key;
  }
  Manifest recorded() const {
    const auto text = read_text_file(path_);
    EXPECT_TRUE(text.ok()) << text.status();
    const auto manifest = parse_manifest(text.ok() ? *text : "");
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest.ok() ? *manifest : Manifest();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_))
      names.push_back(entry.path().filename().string());
    return names;
  }
  Logger logger() {
    return Logger(LogLevel::kDebug,
                  [this](LogLevel, const std::string& message) { log_.push_back(message); });
  }

  std::string directory_, path_;
  std::vector<std::string> log_;
};

// The misses of one context warm up another one, which then has no misses.
TEST_F(MissManifestTest, WarmUpFromItCoversExactlyTheMisses) {
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  ContextOptions options;
  options.compiler_library = fake_compiler();
  options.workers = 2;
  options.record = path_;
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 3;
  std::vector<MatmulRequest> met;
  for (int64_t m : {1, 7, 20, 30, 600}) met.emplace_back(m, 40, 33);  // 20 and 30 are in one class
  met.emplace_back(7, 48, 5000);
  met.back().desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  ArgmaxRequest rows(3, 2000);
  {
    lathe_context context(options);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    for (int round = 0; round < 3; ++round)
      for (MatmulRequest& m : met)
        ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    ASSERT_EQ(lathe_argmax(&device, nullptr, &rows.desc), LATHE_OK);
    EXPECT_EQ(recorded().entries.size(), 4u + 1 + 1) << "a class is in the file when its call returns";
  }
  options.record.clear();
  lathe_context context(options);
  lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
  const std::string text = *read_text_file(path_);
  lathe_manifest manifest;
  ASSERT_EQ(lathe_manifest_parse(&manifest, text.data(), text.size()), LATHE_OK) << lathe_last_error();
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(lathe_warmup(&device, &manifest, nullptr, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 6u);
  EXPECT_EQ(report.compiled, 6u) << "the store was empty";
  ASSERT_EQ(lathe_context_set_miss(&context, LATHE_MISS_ERROR, nullptr, nullptr), LATHE_OK);
  for (MatmulRequest& m : met)
    EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(lathe_argmax(&device, nullptr, &rows.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(context.counters.dispatch_misses.load(), 0u);
  MatmulRequest other(8, 40, 33);
  EXPECT_EQ(lathe_matmul(&device, nullptr, &other.desc), LATHE_MISS)
      << "only classes that missed are warmed up";
}

TEST_F(MissManifestTest, ThreadsAndProcessesShareAFile) {
  const Logger log = logger();
  // Few enough that no process waits for kPatienceSeconds, even on a loaded machine with a sanitizer.
  constexpr int kProcesses = 4, kThreads = 2, kClasses = 4;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    {
      MissManifest manifest(path_, log);
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          for (int i = 0; i < kClasses; ++i) manifest.add(key_for(1 + i + kClasses * (t + kThreads * p)));
        });
      for (std::thread& t : threads) t.join();
    }
    _exit(log_.empty() ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  std::vector<bool> seen(1 + kProcesses * kThreads * kClasses);
  const Manifest all = recorded();
  for (const ManifestEntry& e : all.entries) seen[static_cast<size_t>(e.problem.n)] = true;
  EXPECT_EQ(all.entries.size(), seen.size() - 1);
  for (size_t n = 1; n < seen.size(); ++n) EXPECT_TRUE(seen[n]) << n;
  EXPECT_EQ(files(), std::vector<std::string>{"met.json"}) << "no lock or temporary file is left";
}

TEST_F(MissManifestTest, ForkedChildAddsItsOwnMisses) {
  const Logger log = logger();
  MissManifest manifest(path_, log);
  manifest.add(key_for(1));
  // Threads that hold the manifest's locks during the fork do not exist in the child.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (int64_t n = 100; !stop; n = n < 150 ? n + 1 : 100) manifest.add(key_for(n));
  });
  for (int64_t i = 0; i < 10; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // fails the test on a deadlock
      manifest.add(key_for(2 + i));
      manifest.add(key_for(2 + i));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
  manifest.add(key_for(50));
  std::vector<int> counts(200);
  for (const ManifestEntry& e : recorded().entries) ++counts[static_cast<size_t>(e.problem.n)];
  for (size_t n = 1; n <= 11; ++n) EXPECT_EQ(counts[n], 1) << n;
  EXPECT_EQ(counts[50], 1);
}

// If a process holds the lock and never releases it, all calls together wait once, and the classes are still written.
TEST_F(MissManifestTest, CallsWaitForAHeldLockOnlyOnce) {
  const Logger log = logger();
  constexpr int64_t kClasses = 8;
  const auto hold = [&] {
    const int file = open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(flock(file, LOCK_EX), 0);
    return file;
  };
  const auto seconds_of = [](const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int held = hold();
  {
    MissManifest manifest(path_, log);
    const double waited = seconds_of([&] {
      std::vector<std::thread> threads;
      for (int64_t n = 1; n <= kClasses; ++n) threads.emplace_back([&, n] { manifest.add(key_for(n)); });
      for (std::thread& t : threads) t.join();
    });
    EXPECT_GE(waited, MissManifest::kPatienceSeconds);
    EXPECT_LT(waited, MissManifest::kPatienceSeconds * 6) << "not once for each of " << kClasses;
    EXPECT_EQ(recorded().entries.size(), static_cast<size_t>(kClasses)) << "written without the lock";
    ASSERT_EQ(log_.size(), 1u) << "logged once";
    EXPECT_THAT(log_[0], HasSubstr("cannot get " + path_ + ".lock"));
    // If another process overwrites the file, the next write adds the classes again.
    std::filesystem::remove(path_);
    manifest.add(key_for(kClasses + 1));
    EXPECT_EQ(recorded().entries.size(), static_cast<size_t>(kClasses) + 1);
    std::filesystem::remove(path_);
    close(held);
  }
  EXPECT_EQ(recorded().entries.size(), static_cast<size_t>(kClasses) + 1)
      << "written at the end, with the lock";
  EXPECT_EQ(log_.size(), 1u);

  held = hold();
  log_.clear();
  {
    MissManifest manifest(path_, log);
    manifest.add(key_for(100));
    manifest.add(key_for(101));
  }
  close(held);
  ASSERT_EQ(log_.size(), 2u);
  EXPECT_THAT(log_[1], HasSubstr("2 classes were written to " + path_ + " without its lock"));
}

TEST_F(MissManifestTest, ContinuesAManifestAndDoesNotChangeOtherFiles) {
  const Logger log = logger();
  std::ofstream(path_) << manifest_text([] {
    Manifest m;
    m.about["by"] = "hand";
    ManifestEntry e;
    e.name = "qkv";
    e.problem = key_for(7).problem;
    m.add(e);
    return m;
  }());
  MissManifest(path_, log).add(key_for(8));
  const Manifest joined = recorded();
  ASSERT_EQ(joined.entries.size(), 2u);
  EXPECT_EQ(joined.entries[0].name, "qkv");
  EXPECT_EQ(joined.about.at("by"), "hand");

  const std::string letter = "Dear reader,";
  std::ofstream(path_, std::ios::trunc) << letter;
  MissManifest manifest(path_, log);
  manifest.add(key_for(9));
  manifest.add(key_for(10));
  EXPECT_EQ(*read_text_file(path_), letter);
  ASSERT_EQ(log_.size(), 1u) << "logged once";
  EXPECT_THAT(log_[0], HasSubstr("recording stopped: " + path_ + ": not changed"));
}

TEST_F(MissManifestTest, FailureToWriteDoesNotFailCalls) {
  const Logger log = logger();
  MissManifest nowhere("/nonexistent/met.json", log);
  nowhere.add(key_for(1));
  nowhere.add(key_for(2));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_THAT(log_[0], HasSubstr("/nonexistent"));
  MissManifest none("", log);
  none.add(key_for(1));
  EXPECT_FALSE(none.enabled());
  MissManifest directory(directory_, log);
  directory.add(key_for(1));
  EXPECT_EQ(log_.size(), 2u);
}

}  // namespace
}  // namespace lathe
