#include "dispatch/warm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_device.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

class ManifestHandle {
 public:
  ManifestHandle() { EXPECT_EQ(lathe_manifest_create(&manifest_), LATHE_OK); }
  ~ManifestHandle() { lathe_manifest_destroy(manifest_); }
  operator lathe_manifest*() const { return manifest_; }

 private:
  lathe_manifest* manifest_ = nullptr;
};

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::vector<std::string>*>(user)->emplace_back(text, size);
}

// The number of buckets for M from 1 to m: up to 16 exact ones, and the ranges that begin below m.
void add_weight(lathe_manifest* manifest, int64_t n, int64_t m_max, const char* name = nullptr) {
  const MatmulRequest weight(1, n, 33);
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, name, &weight.desc, m_max), LATHE_OK) << lathe_last_error();
}

TEST(Warm, NoMCompilesAfterIt) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  weight.desc.m = 0;  // ignored
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), weight.desc, 600, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.compiled, report.classes);
  EXPECT_EQ(report.loaded + report.present + report.failed + report.skipped, 0u);
  EXPECT_GT(report.milliseconds, 0.0);
  EXPECT_EQ(fake.statistics().compiles, report.classes);
  for (int64_t m = 1; m <= 600; ++m) {
    MatmulRequest request(m, 40, 33);
    request.desc.miss_policy = LATHE_MISS_ERROR;
    ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &request.desc), LATHE_OK) << m;
  }
  EXPECT_EQ(fake.statistics().dispatch_misses, 0u);

  lathe_warmup_report again = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), weight.desc, 600, &again), LATHE_OK);
  EXPECT_EQ(again.classes, report.classes);
  EXPECT_EQ(again.present, report.classes);
  EXPECT_EQ(again.compiled + again.loaded, 0u);
  EXPECT_EQ(warm_weight(fake.device.get(), weight.desc, 600), LATHE_OK);
}

TEST(Warm, DescribedDeviceOnlyFillsTheCache) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.described.get(), weight.desc, 16, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 16u);
  EXPECT_EQ(report.compiled, 16u);
  EXPECT_EQ(fake.described->table.size(), 0u);
  ASSERT_EQ(warm_weight(fake.described.get(), weight.desc, 16, &report), LATHE_OK);
  EXPECT_EQ(report.loaded, 16u);
  // The device with a driver has the same facts and finds the kernels.
  ASSERT_EQ(warm_weight(fake.device.get(), weight.desc, 16, &report), LATHE_OK);
  EXPECT_EQ(report.loaded, 16u);
  EXPECT_EQ(fake.statistics().compiles, 16u);
}

TEST(Warm, ArgmaxIsReadyForEveryRowLength) {
  FakeDevice fake;
  ArgmaxRequest rows(1, 10);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), rows.desc, 1, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.compiled, report.classes);
  for (int64_t n : {1, 1000, 1024, 1025, 16384, 16385, 50000}) {
    ArgmaxRequest request(2, n);
    request.desc.miss_policy = LATHE_MISS_ERROR;
    EXPECT_EQ(lathe_argmax(fake.device.get(), nullptr, &request.desc), LATHE_OK) << n;
  }
}

TEST(Warm, ReportsTheFirstErrorAndItsClass) {
  FakeDevice fake(fake_compiler("fails"));
  ManifestHandle manifest;
  add_weight(manifest, 40, 64, "llama qkv");
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, nullptr, &report), LATHE_COMPILE_FAILED);
  const std::string message = lathe_last_error();
  EXPECT_THAT(message, HasSubstr("llama qkv"));
  EXPECT_THAT(message, HasSubstr("n=40 k=33"));
  EXPECT_THAT(message, HasSubstr("stage vectorise"));
  EXPECT_EQ(report.failed, report.classes) << "the other classes are tried after a failure";

  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.stop_on_failure = 1;
  options.parallelism = 1;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_COMPILE_FAILED);
  EXPECT_EQ(report.failed, 1u);
  EXPECT_EQ(report.skipped, report.classes - 1);
}

TEST(Warm, WeightsWithoutKernelsHaveNoClasses) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  MatmulRequest no_products(1, 40, 0);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  EXPECT_EQ(warm_weight(fake.device.get(), no_products.desc, 64, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 0u);
  MatmulRequest no_columns(1, 40, 33);
  no_columns.desc.n = 0;
  EXPECT_EQ(warm_weight(fake.device.get(), no_columns.desc, 64, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 0u);
}

TEST(Warm, ListsTheClassesToPrepare) {
  FakeDevice fake("/nowhere/liblathe-compiler.so");
  ManifestHandle manifest;
  add_weight(manifest, 40, 40);
  std::vector<std::string> classes;
  ASSERT_EQ(lathe_manifest_classes(fake.described.get(), manifest, append, &classes), LATHE_OK)
      << lathe_last_error();
  int64_t next = 1;
  for (const std::string& text : classes) {
    const Json c = Json::parse(text);
    EXPECT_EQ(c["n"], 40);
    EXPECT_EQ(c["m_lo"], next) << "no M is left out";
    next = c["m_hi"].get<int64_t>() + 1;
  }
  EXPECT_GT(next, 40);
}

TEST(Warm, ManifestTextGivesTheSameClasses) {
  FakeDevice fake;
  ManifestHandle manifest, read;
  add_weight(manifest, 40, 20, "one");
  add_weight(manifest, 48, 3, "two");
  add_weight(manifest, 48, 3, "its twin");
  const ArgmaxRequest rows(1, 10);
  ASSERT_EQ(lathe_manifest_add_argmax(manifest, "argmax", &rows.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_manifest_note(manifest, "model", "two layers"), LATHE_OK);
  std::vector<std::string> text;
  ASSERT_EQ(lathe_manifest_text(manifest, append, &text), LATHE_OK);
  ASSERT_EQ(text.size(), 1u);
  EXPECT_THAT(text[0], HasSubstr("\"model\":\"two layers\""));
  ASSERT_EQ(lathe_manifest_parse(read, text[0].data(), text[0].size()), LATHE_OK) << lathe_last_error();
  lathe_warmup_report first = LATHE_WARMUP_REPORT_INIT, second = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(lathe_warmup(fake.device.get(), manifest, nullptr, &first), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(first.classes, 17u + 3 + 3) << "M 1..16 and (16,32]; 3; three lengths of rows";
  ASSERT_EQ(lathe_warmup(fake.device.get(), read, nullptr, &second), LATHE_OK);
  EXPECT_EQ(second.present, first.classes);

  // Fields that are not read have no effect.
  EXPECT_EQ(lathe_manifest_parse(read, text[0].data(), text[0].size() / 2), LATHE_INVALID_ARGUMENT);
  std::vector<std::string> after;
  ASSERT_EQ(lathe_manifest_text(read, append, &after), LATHE_OK);
  EXPECT_EQ(after, text);
}

// Classes recorded on a GPU are prepared as the CPU's requests have them.
TEST(Warm, TakesClassesOfAnotherDevice) {
  FakeDevice fake;
  ManifestHandle manifest;
  const std::string text =
      R"({"lathe_manifest":1,"classes":[
          {"op":"matmul","a":"f32","b":"f32","d":"f32","trans_b":1,"n":40,"k":33,"m_lo":5,"m_hi":5,"alignment":1,
           "dependent_launch":2},
          {"op":"matmul","a":"f32","b":"f32","d":"f32","trans_b":1,"n":48,"k":33,"alignment":2}]})";
  ASSERT_EQ(lathe_manifest_parse(manifest, text.data(), text.size()), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_warmup(fake.device.get(), manifest, nullptr, nullptr), LATHE_OK) << lathe_last_error();
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{5, 40}, {1, 48}, {100, 48}}) {
    MatmulRequest request(m, n, 33);
    request.desc.miss_policy = LATHE_MISS_ERROR;
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &request.desc), LATHE_OK) << lathe_last_error();
  }
}

TEST(Warm, ReportsEachClassOnce) {
  FakeDevice fake;
  ManifestHandle manifest;
  add_weight(manifest, 40, 20, "qkv");
  struct Told {
    std::vector<uint64_t> done;
    std::set<std::string> problems;
  } told;
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.progress_user = &told;
  options.parallelism = 4;
  options.progress = [](void* user, const lathe_warmup_progress* p) {
    auto* all = static_cast<Told*>(user);
    all->done.push_back(p->done);
    all->problems.insert(p->problem);
    EXPECT_EQ(p->total, 17u);
    EXPECT_STREQ(p->name, "qkv");
    EXPECT_STREQ(p->error, "");
    EXPECT_EQ(p->status, LATHE_OK);
    EXPECT_GE(p->seconds, 0.0);
    return int32_t{0};
  };
  ASSERT_EQ(lathe_warmup(fake.device.get(), manifest, &options, nullptr), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(told.done.size(), 17u);
  for (size_t i = 0; i < told.done.size(); ++i) EXPECT_EQ(told.done[i], i + 1);
  EXPECT_EQ(told.problems.size(), 17u);
  EXPECT_EQ(told.problems.count("matmul f32 a=n b=t m=32 n=40 k=33 batch=1 on fake"), 1u);
}

// A signal handler of the host must not run on Lathe's threads.
TEST(Warm, ThreadsBlockSignals) {
  FakeDevice fake;
  ManifestHandle manifest;
  add_weight(manifest, 40, 600);
  struct Seen {
    std::thread::id caller = std::this_thread::get_id();
    int elsewhere = 0, takes_signals = 0;
  } seen;
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = 4;
  options.progress_user = &seen;
  options.progress = [](void* user, const lathe_warmup_progress*) {
    auto* all = static_cast<Seen*>(user);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (std::this_thread::get_id() == all->caller) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // leaves classes for the other threads
    } else {
      ++all->elsewhere;
      all->takes_signals += sigismember(&blocked, SIGTERM) == 0;
    }
    return int32_t{0};
  };
  ASSERT_EQ(lathe_warmup(fake.device.get(), manifest, &options, nullptr), LATHE_OK) << lathe_last_error();
  EXPECT_GT(seen.elsewhere, 0);
  EXPECT_EQ(seen.takes_signals, 0);
}

TEST(Warm, EndsIfTheCallbackOrTheFlagSaysSo) {
  FakeDevice fake;
  ManifestHandle manifest;
  add_weight(manifest, 40, 600);
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = 1;
  options.progress = [](void*, const lathe_warmup_progress* p) { return int32_t{p->done == 3}; };
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_CANCELLED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("classes are not begun"));
  EXPECT_EQ(report.compiled, 3u);
  EXPECT_EQ(report.skipped, report.classes - 3);

  volatile int32_t cancel = 1;
  options.progress = nullptr;
  options.cancel = &cancel;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_CANCELLED);
  EXPECT_EQ(report.skipped, report.classes);
  cancel = 0;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_OK);
  EXPECT_EQ(report.present, 3u) << "prepared classes stay";
}

TEST(Warm, KeepsTheDeadline) {
  FakeDevice fake(fake_compiler("slow"));  // 100 ms per kernel
  ManifestHandle manifest;
  add_weight(manifest, 40, 600);
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = 1;
  options.deadline_nanoseconds = 500'000'000;
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_TIMEOUT);
  // A busy machine compiles fewer, but none can compile more in that time.
  EXPECT_LE(report.compiled, 6u) << "of " << report.classes;
  EXPECT_GE(report.compiled, 1u);
  EXPECT_EQ(report.skipped, report.classes - report.compiled);
}

TEST(Warm, WithoutACompilerLoadsStoredKernels) {
  FakeDevice fake;
  ManifestHandle manifest;
  add_weight(manifest, 40, 2);
  ASSERT_EQ(lathe_warmup(fake.described.get(), manifest, nullptr, nullptr), LATHE_OK) << lathe_last_error();
  add_weight(manifest, 40, 4);  // two of the four classes are in memory
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.miss_policy = LATHE_MISS_ERROR;
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, &report), LATHE_MISS);
  EXPECT_THAT(lathe_last_error(), HasSubstr("no store has its kernel"));
  EXPECT_EQ(report.loaded, 2u);
  EXPECT_EQ(report.failed, 2u);
  EXPECT_EQ(fake.statistics().compiles, 2u);
}

TEST(Warm, WithoutACompilerALibraryIsNotReplaced) {
  FakeDevice fake(fake_compiler(), MissPolicy::kBlock, "ryzen-7-5800u.json", "", 1024,
                  {ExternalUse::kPrefer, ExternalId::kOpenBlas});
  ManifestHandle manifest;
  add_weight(manifest, 40, 2);
  ASSERT_EQ(lathe_warmup(fake.described.get(), manifest, nullptr, nullptr), LATHE_OK) << lathe_last_error();
  const uint64_t compiles = fake.statistics().compiles;
  fake.driver->external_load_error = absl::UnavailableError("libopenblas.so.0 has no cblas_sgemm");
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, nullptr), LATHE_MISS);
  EXPECT_THAT(lathe_last_error(), HasSubstr("no store has its kernel"));
  EXPECT_EQ(fake.statistics().compiles, compiles);
}

TEST(Warm, ExceptionOfTheCallbackEndsIt) {
  FakeDevice fake;
  ManifestHandle manifest;
  add_weight(manifest, 40, 20);
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.progress = [](void*, const lathe_warmup_progress*) -> int32_t {
    throw std::runtime_error("a bar broke");
  };
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, &options, nullptr), LATHE_INTERNAL);
  EXPECT_THAT(lathe_last_error(), HasSubstr("a bar broke"));
}

TEST(Warm, RefusesBadArguments) {
  FakeDevice fake;
  MatmulRequest weight(1, 40, 33);
  ManifestHandle manifest;
  EXPECT_EQ(lathe_manifest_create(nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_matmul(nullptr, nullptr, &weight.desc, 64), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_matmul(manifest, nullptr, nullptr, 64), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_matmul(manifest, nullptr, &weight.desc, 0), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_matmul(manifest, nullptr, &weight.desc, int64_t{1} << 31),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_argmax(manifest, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_add_matmul_argmax(manifest, nullptr, nullptr, 1), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_parse(manifest, nullptr, 3), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_text(manifest, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_note(manifest, "a", nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_manifest_classes(fake.device.get(), manifest, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warmup(nullptr, manifest, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_warmup(fake.device.get(), nullptr, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  report.struct_size = 4;
  EXPECT_EQ(lathe_warmup(fake.device.get(), manifest, nullptr, &report), LATHE_INVALID_ARGUMENT);
  const auto refused = [&](auto&& change) {
    lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
    change(options);
    return lathe_warmup(fake.device.get(), manifest, &options, nullptr);
  };
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.struct_size = 8; }), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.parallelism = -1; }), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.parallelism = 1025; }), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.stop_on_failure = 2; }), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.miss_policy = LATHE_MISS_FALLBACK; }),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](lathe_warmup_options& o) { o.reserved = 1; }), LATHE_UNSUPPORTED);
}

}  // namespace
}  // namespace lathe
