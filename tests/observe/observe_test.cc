// What a context reports: misses to the callback, statistics as metrics, the trace, log lines.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <thread>
#include <vector>

#include "core/manifest.h"
#include "fake_device.h"
#include "observe/metrics.h"
#include "observe/text_file.h"
#include "observe/trace.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Observe : public testing::Test {
 protected:
  Observe() {
    std::string pattern = (fs::temp_directory_path() / "lathe-observe-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~Observe() override { fs::remove_all(directory_); }
  static lathe_status run(lathe_device* device, int64_t m, lathe_miss_policy policy = LATHE_MISS_DEFAULT) {
    MatmulRequest request(m, 40, 33);
    request.desc.miss_policy = policy;
    return lathe_matmul(device, nullptr, &request.desc);
  }
  std::string directory_;
};

struct Misses {
  lathe_device* device = nullptr;
  std::vector<std::string> problems, entries;
  std::vector<lathe_miss_policy> policies;
  std::vector<std::thread::id> threads;
  std::vector<uint32_t> capturing;
};
void collect(void* user, const lathe_miss* miss) {
  auto* all = static_cast<Misses*>(user);
  EXPECT_EQ(miss->struct_size, sizeof(lathe_miss));
  EXPECT_STREQ(miss->device, "fake");
  all->problems.push_back(miss->problem);
  all->entries.push_back(miss->entry);
  all->policies.push_back(miss->policy);
  all->threads.push_back(std::this_thread::get_id());
  all->capturing.push_back(miss->capturing);
}

TEST_F(Observe, StrictModeNamesTheMissedClass) {
  FakeDevice fake;
  ASSERT_EQ(warm_weight(fake.device.get(), MatmulRequest(1, 40, 33).desc, 4), LATHE_OK);
  Misses misses;
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_ERROR, collect, &misses), LATHE_OK);
  for (int64_t m : {1, 4}) EXPECT_EQ(run(fake.device.get(), m), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(misses.problems.empty()) << "hits do not call the callback";
  EXPECT_EQ(run(fake.device.get(), 20), LATHE_MISS);
  ASSERT_EQ(misses.problems.size(), 1u);
  EXPECT_EQ(misses.problems[0], "matmul f32 a=n b=t m=20 n=40 k=33 batch=1");
  EXPECT_EQ(misses.policies[0], LATHE_MISS_ERROR);
  EXPECT_EQ(misses.threads[0], std::this_thread::get_id());
  EXPECT_EQ(misses.capturing[0], 0u);
  // The entry is the class, in the format of a manifest.
  const auto manifest = parse_manifest("{\"lathe_manifest\":1,\"classes\":[" + misses.entries[0] + "]}");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->entries[0].problem.m_lo, 17);
  EXPECT_EQ(manifest->entries[0].problem.m_hi, 32);

  // The policy of a call overrides the context's. The callback is called for every miss.
  EXPECT_EQ(run(fake.device.get(), 20, LATHE_MISS_BLOCK), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(misses.policies.size(), 2u);
  EXPECT_EQ(misses.policies[1], LATHE_MISS_BLOCK);
  // During a capture a miss fails under every policy.
  fake.driver->captured_stream = nullptr;
  EXPECT_EQ(run(fake.device.get(), 50, LATHE_MISS_BLOCK), LATHE_CAPTURE_MISS);
  EXPECT_EQ(misses.capturing.back(), 1u);
  fake.driver->captured_stream = &fake;

  // DEFAULT restores the policy that the context was made with. The callback is no longer set.
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_DEFAULT, nullptr, nullptr), LATHE_OK);
  EXPECT_EQ(run(fake.device.get(), 100), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(misses.problems.size(), 3u);
  EXPECT_EQ(lathe_context_set_miss(nullptr, LATHE_MISS_ERROR, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_context_set_miss(fake.context.get(), static_cast<lathe_miss_policy>(9), nullptr, nullptr),
            LATHE_INVALID_ARGUMENT);
}

TEST_F(Observe, CallbackMayCallLatheAndMiss) {
  FakeDevice fake;
  Misses misses;
  misses.device = fake.device.get();
  const auto reenter = [](void* user, const lathe_miss* miss) {
    collect(user, miss);
    auto* all = static_cast<Misses*>(user);
    EXPECT_EQ(run(all->device, 30, LATHE_MISS_BLOCK), LATHE_OK)
        << lathe_last_error();  // the first time it misses
    lathe_statistics s = LATHE_STATISTICS_INIT;
    EXPECT_EQ(lathe_context_statistics(&all->device->context, &s), LATHE_OK);
    EXPECT_EQ(lathe_context_set_miss(&all->device->context, LATHE_MISS_ERROR, nullptr, nullptr), LATHE_OK);
  };
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_BLOCK, reenter, &misses), LATHE_OK);
  EXPECT_EQ(run(fake.device.get(), 5), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(misses.problems.size(), 1u) << "a miss inside the callback does not call it again";
  EXPECT_EQ(run(fake.device.get(), 6), LATHE_MISS) << "the callback set the policy";
  // An exception of the callback ends the call.
  const auto throws = [](void*, const lathe_miss*) { throw std::runtime_error("an alarm broke"); };
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_BLOCK, throws, nullptr), LATHE_OK);
  EXPECT_EQ(run(fake.device.get(), 6), LATHE_INTERNAL);
  EXPECT_THAT(lathe_last_error(), HasSubstr("an alarm broke"));
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_BLOCK, collect, &misses), LATHE_OK);
  EXPECT_EQ(run(fake.device.get(), 6), LATHE_OK);
  EXPECT_EQ(misses.problems.size(), 2u);
}

// Parses Prometheus' text format. Each metric has HELP, TYPE and one sample, in this order.
std::map<std::string, double> parse_metrics(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  std::string help, type, sample;
  while (std::getline(lines, help) && std::getline(lines, type) && std::getline(lines, sample)) {
    std::smatch found;
    EXPECT_TRUE(std::regex_match(sample, found, std::regex("([a-z_]+) ([0-9.e+-]+)"))) << sample;
    const std::string name = found[1];
    EXPECT_EQ(help.rfind("# HELP " + name + " ", 0), 0u) << help;
    EXPECT_TRUE(type == "# TYPE " + name + " counter" || type == "# TYPE " + name + " gauge") << type;
    EXPECT_EQ(type.find("counter") != std::string::npos,
              name.size() > 6 && name.substr(name.size() - 6) == "_total");
    EXPECT_TRUE(values.emplace(name, std::stod(found[2])).second) << name;
  }
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  return values;
}

TEST_F(Observe, EveryStatisticIsAMetric) {
  FakeDevice fake;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(fake.device.get(), 5), LATHE_OK);
  ASSERT_EQ(run(fake.device.get(), 6), LATHE_OK);
  std::string text;
  ASSERT_EQ(lathe_context_metrics(
                fake.context.get(),
                [](void* user, const char*, const char* piece, size_t size) {
                  static_cast<std::string*>(user)->append(piece, size);
                },
                &text),
            LATHE_OK);
  const auto values = parse_metrics(text);
  const lathe_statistics s = fake.statistics();
  EXPECT_EQ(values.at("lathe_dispatch_hits_total"), 2);
  EXPECT_EQ(values.at("lathe_dispatch_misses_total"), 2);
  EXPECT_EQ(values.at("lathe_compiles_total"), 2);
  EXPECT_EQ(values.at("lathe_kernel_loads_total"), 2);
  EXPECT_EQ(values.at("lathe_compiler_loaded"), 1);
  EXPECT_EQ(values.at("lathe_background_waiting"), 0);
  EXPECT_EQ(values.at("lathe_artifact_bytes"), static_cast<double>(s.artifact_bytes));
  EXPECT_NEAR(values.at("lathe_compile_seconds_total"), s.compile_milliseconds * 1e-3, 1e-12);
  // Counts the fields of the statistics, so that none lacks a metric. Each has 8 bytes; size and chain come first.
  EXPECT_EQ(values.size(), (sizeof(lathe_statistics) - 2 * sizeof(void*)) / 8);
}

TEST_F(Observe, MetricsFileIsCompleteAndWrittenAtTheEnd) {
  ContextOptions options;
  options.compiler_library = fake_compiler();
  options.metrics = directory_ + "/lathe-%p.prom";
  const std::string path = directory_ + "/lathe-" + std::to_string(getpid()) + ".prom";
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  {
    lathe_context context(options);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!fs::exists(path) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(parse_metrics(*read_text_file(path)).at("lathe_compiles_total"), 0) << "written at once";
    ASSERT_EQ(run(&device, 5), LATHE_OK);
    // A child that destroys its copy of the context writes nothing and does not wait for a thread.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      context.metrics.~MetricsFile();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(parse_metrics(*read_text_file(path)).at("lathe_compiles_total"), 1) << "written at the end";
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1)
      << "no temporary files are left";
}

// If the disk is full or the directory does not exist yet, later writes still succeed.
TEST_F(Observe, RetriesAMetricsFileThatCannotBeWritten) {
  const std::string later = directory_ + "/later", path = later + "/lathe.prom";
  std::atomic<int> tried{0}, warnings{0};
  const Logger logger(LogLevel::kWarning, [&](LogLevel, const std::string&) { ++warnings; });
  const auto comes_true = [](const std::function<bool()>& is_true) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_true() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is_true();
  };
  const auto text = [&] { return "tried " + std::to_string(++tried) + "\n"; };
  const MetricsFile metrics(path, logger, text, std::chrono::milliseconds(1));
  EXPECT_TRUE(comes_true([&] { return tried > 3; }));
  fs::create_directory(later);
  EXPECT_TRUE(comes_true([&] { return fs::exists(path); }));
  EXPECT_EQ(warnings.load(), 1);
}

// Parses the events of a trace. The end of the array may be missing, and there may be a comma after the last event.
std::vector<Json> events_of(const std::string& path) {
  std::string text = *read_text_file(path);
  EXPECT_EQ(text.substr(0, 2), "[\n");
  EXPECT_EQ(text.substr(text.size() - 2), ",\n");
  text.resize(text.size() - 2);
  const Json all = Json::parse(text + "]");
  return {all.begin(), all.end()};
}

TEST_F(Observe, TraceHasMissesCompilationsAndLoads) {
  ContextOptions options;
  options.compiler_library = fake_compiler("slow");  // 100 ms per kernel
  options.trace = directory_ + "/trace.json";
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  lathe_context context(options);
  lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(&device, 20), LATHE_OK);
  EXPECT_EQ(run(&device, 5, LATHE_MISS_ERROR), LATHE_MISS);
  const std::vector<Json> events = events_of(options.trace);
  ASSERT_EQ(events.size(), 4u) << "hits are not traced";
  std::map<std::string, std::vector<Json>> by;
  for (const Json& e : events) {
    EXPECT_EQ(e["ph"], "X");
    EXPECT_EQ(e["pid"], getpid());
    EXPECT_EQ(e["args"]["device"], "fake");
    by[e["cat"]].push_back(e);
  }
  ASSERT_EQ(by["compile"].size(), 1u);
  ASSERT_EQ(by["load"].size(), 1u);
  ASSERT_EQ(by["miss"].size(), 2u);
  const Json &compile = by["compile"][0], &load = by["load"][0], &miss = by["miss"][0];
  EXPECT_EQ(miss["name"], "matmul f32 a=n b=t m=20 n=40 k=33 batch=1");
  EXPECT_EQ(compile["name"], "matmul f32 a=n b=t m=32 n=40 k=33 batch=1")
      << "the class, with the largest M of its bucket";
  EXPECT_EQ(miss["args"]["outcome"], "compiled");
  EXPECT_EQ(by["miss"][1]["args"]["outcome"], "refused");
  EXPECT_EQ(load["args"]["symbol"], "fake");
  EXPECT_GE(compile["dur"].get<double>(), 90e3);
  // Events are nested: the miss contains the compilation, then the load.
  const auto begin = [](const Json& e) { return e["ts"].get<double>(); };
  const auto end = [](const Json& e) { return e["ts"].get<double>() + e["dur"].get<double>(); };
  EXPECT_LE(begin(miss), begin(compile));
  EXPECT_LE(end(compile), begin(load) + 1);
  EXPECT_LE(end(load), end(miss) + 1);
}

TEST_F(Observe, ThreadsAndProcessesShareATrace) {
  const std::string path = directory_ + "/trace.json";
  const Logger silent;
  constexpr int kProcesses = 4, kThreads = 4, kEvents = 50;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      {
        const Trace trace(path, silent);
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t)
          threads.emplace_back([&] {
            for (int i = 0; i < kEvents; ++i)
              trace.span("load", std::string(300, 'x') + " \"quoted\"\n", Trace::Clock::now(), {{"i", i}});
          });
        for (std::thread& t : threads) t.join();
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) waitpid(child, nullptr, 0);
  std::set<std::pair<int, int>> threads;
  const std::vector<Json> events = events_of(path);
  EXPECT_EQ(events.size(), size_t{kProcesses} * kThreads * kEvents);
  for (const Json& e : events) threads.emplace(e["pid"], e["tid"]);
  EXPECT_EQ(threads.size(), size_t{kProcesses} * kThreads);
}

// The event is lost, but the signal of a write beyond the limit does not end the process.
TEST_F(Observe, FileSizeLimitLosesOnlyTraceEvents) {
  const std::string path = directory_ + "/trace.json";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit = {100, 100};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    const Trace trace(path, Logger());
    for (int i = 0; i < 3; ++i)
      trace.span("load", std::string(300, 'x'), Trace::Clock::now(), Json::object());
    sigset_t pending;
    sigpending(&pending);
    _exit(trace.enabled() && !sigismember(&pending, SIGXFSZ) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(path), 100u);
}

// If the reader of a pipe went away, the signal of the next write would end the process.
TEST_F(Observe, DoesNotTraceToAPipe) {
  const std::string path = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), S_IRUSR | S_IWUSR), 0);
  const FileDescriptor reader = open_file(AT_FDCWD, path, O_RDONLY);
  ASSERT_TRUE(reader.valid());
  std::vector<std::string> log;
  const Logger logger(LogLevel::kWarning, [&](LogLevel, const std::string& m) { log.push_back(m); });
  EXPECT_FALSE(Trace(path, logger).enabled());
  EXPECT_THAT(log, testing::ElementsAre("cannot trace: " + path + ": not a regular file"));
}

TEST_F(Observe, FilesThatCannotBeWrittenCauseWarnings) {
  ContextOptions options;
  options.compiler_library = fake_compiler();
  options.record = options.metrics = options.trace = "/nonexistent/file";
  std::vector<std::string> log;
  std::mutex mutex;
  options.log_sink = [&](LogLevel, const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex);
    log.push_back(message);
  };
  {
    const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
    lathe_context context(options);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    EXPECT_EQ(run(&device, 5), LATHE_OK) << lathe_last_error();
  }
  for (const char* what : {"cannot trace: ", "metrics: ", "recording stopped: "})
    EXPECT_TRUE(std::any_of(log.begin(), log.end(), [&](const std::string& l) {
      return l.rfind(what, 0) == 0;
    })) << what;
}

TEST_F(Observe, LogLinesStartWithTheirTopic) {
  FakeDevice fake;
  ASSERT_EQ(run(fake.device.get(), 20), LATHE_OK);
  EXPECT_EQ(run(fake.device.get(), 5, LATHE_MISS_ERROR), LATHE_MISS);
  ASSERT_EQ(warm_weight(fake.device.get(), MatmulRequest(1, 40, 33).desc, 2), LATHE_OK);
  const auto logged = [&](const std::string& pattern) {
    return std::any_of(fake.log.begin(), fake.log.end(),
                       [&](const std::string& l) { return std::regex_match(l, std::regex(pattern)); });
  };
  EXPECT_TRUE(
      logged("miss: matmul f32 a=n b=t m=20 n=40 k=33 batch=1 on fake: [a-z_0-9]+, compiled, [0-9.]+ ms"));
  EXPECT_TRUE(logged("miss: matmul f32 a=n b=t m=5 n=40 k=33 batch=1 on fake: refused, [0-9.]+ ms"));
  EXPECT_TRUE(logged(
      "warm-up: 2 classes on fake: 2 compiled, 0 loaded, 0 present, 0 failed, 0 not begun, [0-9.]+ ms"));
}

}  // namespace
}  // namespace lathe
