#include "options/options.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lathe/pipelines.h"

namespace lathe {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<ContextOptions> read(const lathe_context_options* options, const Variables& variables = {}) {
  return read_options(options, [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Options, TakeTheCacheDirectoryFromTheFirstSetVariable) {
  Variables all = {{"LATHE_CACHE_DIR", "/lathe"}, {"XDG_CACHE_HOME", "/xdg"}, {"HOME", "/home/u"}};
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_dir = "/given";
  EXPECT_EQ(read(&options, all)->cache_dir, "/given");
  options.cache_dir = "";
  EXPECT_EQ(read(&options, all)->cache_dir, "");
  EXPECT_EQ(read(nullptr, all)->cache_dir, "/lathe");
  all["LATHE_CACHE_DIR"] = "";
  EXPECT_EQ(read(nullptr, all)->cache_dir, "") << "set but empty: no disk";
  all.erase("LATHE_CACHE_DIR");
  EXPECT_EQ(read(nullptr, all)->cache_dir, "/xdg/lathe");
  all["XDG_CACHE_HOME"] = "";
  EXPECT_EQ(read(nullptr, all)->cache_dir, "/home/u/.cache/lathe");
  EXPECT_EQ(read(nullptr)->cache_dir, "");
}

TEST(Options, TakeTheRestFromTheEnvironmentUnlessGiven) {
  const Variables variables = {
      {"LATHE_COMPILER_LIBRARY", "/c.so"}, {"LATHE_WORKERS", "3"}, {"LATHE_LOG", "debug"}};
  const absl::StatusOr<ContextOptions> defaults = read(nullptr, variables);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->compiler_library, "/c.so");
  EXPECT_EQ(defaults->workers, 3);
  EXPECT_EQ(defaults->log_level, LogLevel::kDebug);

  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.compiler_library = "/mine.so";
  options.workers = 5;
  std::string logged;
  options.log = [](void* user, lathe_log_level, const char* message) {
    *static_cast<std::string*>(user) = message;
  };
  options.log_user = &logged;
  options.log_level = LATHE_LOG_ERROR;
  const absl::StatusOr<ContextOptions> given = read(&options, variables);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->compiler_library, "/mine.so");
  EXPECT_EQ(given->workers, 5);
  EXPECT_EQ(given->log_level, LogLevel::kError);
  given->log_sink(LogLevel::kError, "told");
  EXPECT_EQ(logged, "told");
}

TEST(Options, SelectWhereKernelsAreCompiled) {
  EXPECT_TRUE(read(nullptr)->compiler_in_process);
  EXPECT_TRUE(read(nullptr, {{"LATHE_COMPILER", "inprocess"}})->compiler_in_process);
  const Variables process = {{"LATHE_COMPILER", "process"},
                             {"LATHE_COMPILER_PROGRAM", "/p"},
                             {"LATHE_COMPILER_SECONDS", "7"},
                             {"LATHE_COMPILER_BYTES", "2G"}};
  const absl::StatusOr<ContextOptions> set = read(nullptr, process);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_FALSE(set->compiler_in_process);
  EXPECT_EQ(set->compiler_program, "/p");
  EXPECT_EQ(set->compiler_seconds, 7);
  EXPECT_EQ(set->compiler_bytes, uint64_t{2} << 30);
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.compiler = LATHE_COMPILER_INPROCESS;
  options.compiler_program = "/mine";
  options.compiler_seconds = 3;
  options.compiler_bytes = UINT64_MAX;
  const absl::StatusOr<ContextOptions> given = read(&options, process);
  EXPECT_TRUE(given->compiler_in_process) << "the option wins";
  EXPECT_EQ(given->compiler_program, "/mine");
  EXPECT_EQ(given->compiler_seconds, 3);
  EXPECT_EQ(given->compiler_bytes, UINT64_MAX);
  EXPECT_EQ(read(nullptr, {{"LATHE_COMPILER", "fork"}}).status().message(),
            "LATHE_COMPILER=fork is neither inprocess nor process");
  for (const char* seconds : {"0", "-1", "soon"})
    EXPECT_FALSE(read(nullptr, {{"LATHE_COMPILER_SECONDS", seconds}}).ok()) << seconds;
  EXPECT_FALSE(read(nullptr, {{"LATHE_COMPILER_BYTES", "much"}}).ok());
  options.compiler = static_cast<lathe_compiler_mode>(3);
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Options, TakeTheAddressOfTheRemoteStore) {
  EXPECT_EQ(read(nullptr)->remote, "");
  const Variables variables = {{"LATHE_REMOTE", "redis://cache:1"}};
  EXPECT_EQ(read(nullptr, variables)->remote, "redis://cache:1");
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.remote = "";
  EXPECT_EQ(read(&options, variables)->remote, "") << "the option wins";
  options.remote = "cache:1";
  EXPECT_EQ(read(&options, variables).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Options, ValidateIfTheOptionOrTheEnvironmentSaysSo) {
  EXPECT_FALSE(read(nullptr)->validate);
  EXPECT_TRUE(read(nullptr, {{"LATHE_VALIDATE", "1"}})->validate);
  EXPECT_FALSE(read(nullptr, {{"LATHE_VALIDATE", "0"}})->validate);
  EXPECT_FALSE(read(nullptr, {{"LATHE_VALIDATE", ""}})->validate);
  const absl::Status wrong = read(nullptr, {{"LATHE_VALIDATE", "yes"}}).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "LATHE_VALIDATE=yes is neither 0 nor 1");
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.validate = 1;
  EXPECT_TRUE(read(&options, {{"LATHE_VALIDATE", "0"}})->validate) << "the option wins";
  options.validate = 2;
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kInvalidArgument);
  options.validate = 0;
  options.reserved = 1;
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Options, NameTheFilesForRecordTraceAndMetrics) {
  const auto none = read(nullptr, {});
  EXPECT_EQ(none->record + none->metrics + none->trace + none->tuning, "");
  const std::map<std::string, std::string> all = {{"LATHE_RECORD", "/tmp/met.json"},
                                                  {"LATHE_METRICS", "/tmp/%p.prom"},
                                                  {"LATHE_TRACE", "/tmp/trace.json"},
                                                  {"LATHE_TUNING", "/tmp/tuning.json"}};
  const auto from_environment = read(nullptr, all);
  EXPECT_EQ(from_environment->record, "/tmp/met.json");
  EXPECT_EQ(from_environment->metrics, "/tmp/%p.prom");
  EXPECT_EQ(from_environment->trace, "/tmp/trace.json");
  EXPECT_EQ(from_environment->tuning, "/tmp/tuning.json");
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.record = "/mine.json";
  options.trace = "";
  const auto given = read(&options, all);
  EXPECT_EQ(given->record, "/mine.json");
  EXPECT_EQ(given->metrics, "/tmp/%p.prom");
  EXPECT_EQ(given->trace, "") << "empty: none";
}

TEST(Options, LimitTheCache) {
  constexpr uint64_t kMega = 1 << 20;
  EXPECT_EQ(read(nullptr)->cache_bytes, 4096 * kMega);
  EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_BYTES", ""}})->cache_bytes, 4096 * kMega);
  const std::pair<const char*, uint64_t> good[] = {{"1", 1},
                                                   {"4096", 4096},
                                                   {"3K", 3072},
                                                   {"500M", 500 * kMega},
                                                   {"2G", 2048 * kMega},
                                                   {"1T", kMega * kMega}};
  for (const auto& [text, bytes] : good)
    EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_BYTES", text}})->cache_bytes, bytes) << text;
  EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_BYTES", "unlimited"}})->cache_bytes, UINT64_MAX);
  for (const char* bad :
       {"0", "M", "-1", "+1", "5X", "1.5G", "500MB", "18446744073709551616", "17179869184G"}) {
    const absl::Status status = read(nullptr, {{"LATHE_CACHE_BYTES", bad}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find(absl::string_view(bad)), absl::string_view::npos) << status;
  }
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_bytes = 77;
  EXPECT_EQ(read(&options, {{"LATHE_CACHE_BYTES", "5X"}})->cache_bytes, 77u) << "the option wins";
}

TEST(Options, NameTheBundles) {
  EXPECT_TRUE(read(nullptr)->bundles.empty());
  EXPECT_EQ(read(nullptr, {{"LATHE_BUNDLES", "/a:/b::/c"}})->bundles,
            (std::vector<std::string>{"/a", "/b", "/c"}));
  const char* const paths[] = {"/x", "/y:z"};
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.bundles = paths;
  options.bundle_count = 2;
  EXPECT_EQ(read(&options, {{"LATHE_BUNDLES", "/a"}})->bundles, (std::vector<std::string>{"/x", "/y:z"}));
  options.bundle_count = 0;
  EXPECT_TRUE(read(&options, {{"LATHE_BUNDLES", "/a"}})->bundles.empty()) << "empty list: none";
  options.bundles = nullptr;
  options.bundle_count = 1;
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kInvalidArgument);
  const char* const holes[] = {"/x", nullptr};
  options.bundles = holes;
  options.bundle_count = 2;
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Options, SayWhereToSearchAssemblers) {
  const AssemblerSearch bare = read(nullptr)->assembler.value();
  EXPECT_EQ(bare.ptxas, "");
  EXPECT_EQ(bare.directories, std::vector<std::string>{"/usr/local/cuda/bin"});
  EXPECT_EQ(bare.nvjitlink_directories, std::vector<std::string>{"/usr/local/cuda/lib64"});
  EXPECT_EQ(bare.temporary, (std::vector<std::string>{"/tmp", "/dev/shm"}));
  const AssemblerSearch full =
      read(nullptr,
           {{"PATH", "/a:/b::"}, {"CUDA_HOME", "/cuda"}, {"LATHE_PTXAS", "/mine"}, {"TMPDIR", "/big"}})
          ->assembler.value();
  EXPECT_EQ(full.temporary, (std::vector<std::string>{"/big", "/tmp", "/dev/shm"}));
  EXPECT_EQ(read(nullptr, {{"TMPDIR", "here"}})->assembler->temporary, bare.temporary)
      << "relative directories are ignored";
  EXPECT_EQ(full.ptxas, "/mine");
  EXPECT_EQ(full.directories, (std::vector<std::string>{"/a", "/b", "/cuda/bin"}));
  EXPECT_EQ(full.nvjitlink_directories, std::vector<std::string>{"/cuda/lib64"});
  EXPECT_FALSE(read(nullptr, {{"PATH", "/a"}, {"LATHE_PTXAS", ""}})->assembler.has_value())
      << "set but empty: none";
}

TEST(Options, AcceptALesserProcessor) {
  EXPECT_FALSE(read(nullptr)->perf_map);
  EXPECT_TRUE(read(nullptr, {{"LATHE_PERF_MAP", "1"}})->perf_map);
  EXPECT_FALSE(read(nullptr, {{"LATHE_PERF_MAP", "0"}})->perf_map);
  EXPECT_EQ(read(nullptr, {{"LATHE_PERF_MAP", "all"}}).status().message(),
            "LATHE_PERF_MAP=all is neither 0 nor 1");
  EXPECT_EQ(read(nullptr)->cpu_target, "");
  EXPECT_EQ(read(nullptr, {{"LATHE_CPU_TARGET", ""}})->cpu_target, "");
  EXPECT_EQ(read(nullptr, {{"LATHE_CPU_TARGET", "x86-64-avx2"}})->cpu_target, "x86-64-avx2");
}

TEST(Options, SelectExternalLibraries) {
  using Choice = ExternalChoice;
  EXPECT_EQ(read(nullptr)->external, Choice()) << "off by default";
  EXPECT_EQ(Choice().use, ExternalUse::kOff);
  const auto of = [](const char* text) { return read(nullptr, {{"LATHE_EXTERNAL", text}}); };
  EXPECT_EQ(of("off")->external, Choice());
  EXPECT_EQ(of("allow")->external, (Choice{ExternalUse::kAllow, ExternalId::kAny}));
  EXPECT_EQ(of("prefer:onednn")->external, (Choice{ExternalUse::kPrefer, ExternalId::kOneDnn}));
  EXPECT_EQ(of("require:cublaslt")->external, (Choice{ExternalUse::kRequire, ExternalId::kCublasLt}));
  for (const char* bad : {"on", "prefer:", "prefer:mkl", "off:openblas", ":openblas", "require:openblas:1"})
    EXPECT_TRUE(absl::IsInvalidArgument(of(bad).status())) << bad;
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.external = LATHE_EXTERNAL_REQUIRE;
  options.external_library = LATHE_EXTERNAL_OPENBLAS;
  EXPECT_EQ(read(&options, {{"LATHE_EXTERNAL", "off"}})->external,
            (Choice{ExternalUse::kRequire, ExternalId::kOpenBlas}));
  options.external = LATHE_EXTERNAL_OFF;
  EXPECT_TRUE(absl::IsInvalidArgument(read(&options).status())) << "off together with a library";
  options.external = static_cast<lathe_external_use>(5);
  EXPECT_TRUE(absl::IsInvalidArgument(read(&options).status()));
  options.external = LATHE_EXTERNAL_ALLOW;
  options.external_library = static_cast<lathe_external_library>(5);
  EXPECT_TRUE(absl::IsInvalidArgument(read(&options).status()));
}

TEST(Options, RefuseUnknownValues) {
  const auto code = [](void (*change)(lathe_context_options*)) {
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    change(&options);
    return read(&options).status().code();
  };
  static const lathe_chain kElement = {sizeof(lathe_chain), nullptr, 99, 0};
  EXPECT_EQ(code([](lathe_context_options* o) { o->struct_size -= 8; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](lathe_context_options* o) { o->next = &kElement; }), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code([](lathe_context_options* o) { o->workers = -1; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](lathe_context_options* o) { o->log_level = static_cast<lathe_log_level>(9); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](lathe_context_options* o) { o->miss_policy = static_cast<lathe_miss_policy>(9); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](lathe_context_options*) {}), absl::StatusCode::kOk);
}

TEST(Options, PipelinesAreAChainElement) {
  const char* paths[] = {"/a.yaml", "/b.yaml"};
  lathe_pipelines pipelines = LATHE_PIPELINES_INIT;
  pipelines.paths = paths;
  pipelines.count = 2;
  pipelines.parameters = "/p.json";
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.next = reinterpret_cast<const lathe_chain*>(&pipelines);
  const absl::StatusOr<ContextOptions> out = read(&options);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->pipelines, (std::vector<std::string>{"/a.yaml", "/b.yaml"}));
  EXPECT_EQ(out->pipeline_parameters, "/p.json");
  const auto code = [&] { return read(&options).status().code(); };
  pipelines.count = 0;
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument) << "parameters without a pipeline";
  pipelines.parameters = nullptr;
  EXPECT_EQ(code(), absl::StatusCode::kOk);
  pipelines.count = 1;
  pipelines.paths = nullptr;
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument);
  pipelines = LATHE_PIPELINES_INIT;
  pipelines.struct_size -= 8;
  EXPECT_EQ(code(), absl::StatusCode::kUnimplemented);
  pipelines = LATHE_PIPELINES_INIT;
  pipelines.next = reinterpret_cast<const lathe_chain*>(&pipelines);
  EXPECT_EQ(code(), absl::StatusCode::kUnimplemented);
}

TEST(Options, ParallelForNeedsItsNumberOfWorkers) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.parallel_for = [](void*, int64_t, lathe_task_fn, void*) {};
  for (const int32_t workers : {0, -1, 1025}) {
    options.workers = workers;
    const absl::Status status = read(&options, {{"LATHE_WORKERS", "3"}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << workers;
    EXPECT_NE(std::string(status.message()).find("parallel_for"), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find("workers"), std::string::npos) << status;
  }
  options.workers = 5;
  const absl::StatusOr<ContextOptions> given = read(&options, {{"LATHE_WORKERS", "many"}});
  ASSERT_TRUE(given.ok()) << "the variable is not read: " << given.status();
  EXPECT_EQ(given->workers, 5);
}

TEST(Options, AcceptUpTo1024Workers) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.workers = 1024;
  EXPECT_EQ(read(&options)->workers, 1024);
  options.workers = 1025;
  EXPECT_EQ(read(&options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read(nullptr, {{"LATHE_WORKERS", "1024"}})->workers, 1024);
  EXPECT_EQ(read(nullptr, {{"LATHE_WORKERS", "0"}})->workers, 0);
}

TEST(Options, NameABadVariable) {
  for (const char* text : {"many", "-1", "1025", "2x"}) {
    const absl::Status status = read(nullptr, {{"LATHE_WORKERS", text}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(status.message()).find("LATHE_WORKERS"), std::string::npos) << status;
  }
  const absl::Status status = read(nullptr, {{"LATHE_LOG", "loud"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("loud"), std::string::npos) << status;
}

TEST(Options, ReadTheMissPolicy) {
  EXPECT_EQ(*read_miss_policy(LATHE_MISS_DEFAULT, MissPolicy::kBlock), MissPolicy::kBlock);
  EXPECT_EQ(*read_miss_policy(LATHE_MISS_DEFAULT, MissPolicy::kError), MissPolicy::kError);
  EXPECT_EQ(*read_miss_policy(LATHE_MISS_BLOCK, MissPolicy::kError), MissPolicy::kBlock);
  EXPECT_EQ(*read_miss_policy(LATHE_MISS_FALLBACK, MissPolicy::kError), MissPolicy::kFallback);
  EXPECT_EQ(*read_miss_policy(LATHE_MISS_ERROR, MissPolicy::kBlock), MissPolicy::kError);
}

}  // namespace
}  // namespace lathe
