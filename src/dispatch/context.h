// The body of a lathe_context: options, cache, compiler library and counters, shared by its devices.
#pragma once

#include <atomic>
#include <memory>

#include "base/log.h"
#include "cache/cache.h"
#include "compile_client/compiler_library.h"
#include "compile_client/compiler_processes.h"
#include "compile_client/pipelines.h"
#include "compile_client/user_ukernels.h"
#include "dispatch/background.h"
#include "dispatch/fallback.h"
#include "dispatch/miss.h"
#include "dispatch/plan_records.h"
#include "lathe/lathe.h"
#include "observe/counters.h"
#include "observe/metrics.h"
#include "observe/miss_manifest.h"
#include "observe/trace.h"
#include "options/options.h"
#include "request/elementwise_programs.h"

struct lathe_context {
  // Tests pass a cache of their own; null makes the one that the options ask for.
  explicit lathe_context(lathe::ContextOptions given,
                         std::unique_ptr<lathe::ArtifactCache> own_cache = nullptr);

  const lathe::ContextOptions options;
  const lathe::Logger logger;
  const std::unique_ptr<lathe::ArtifactCache> cache;
  const std::unique_ptr<lathe::Compiler> compiler;
  // Payloads, and the pipelines of dumps, are read in processes of their own, whichever way the context
  // compiles: damaged text can crash MLIR's parser, or leave it damaged.
  lathe::CompilerProcesses readers;
  const lathe::TuningRecords tuning;
  lathe::Pipelines pipelines;  // read by lathe_context_create, and only read from then on
  lathe::UserUkernels ukernels;
  lathe::Programs programs;
  lathe::FallbackBundle fallback;
  lathe::Counters counters;
  std::atomic<int> devices{0};  // open ones
  std::atomic<bool> told_of_no_assembler{false}, told_of_foreign_tuning{false}, told_of_no_fallback{false};
  lathe::MissWatch misses;
  lathe::Recorder recorder;
  const lathe::Trace trace;
  // The last two have threads, which end before anything that they use.
  lathe::BackgroundCompiler background;
  lathe::MetricsFile metrics;
};

namespace lathe {

// The cache that a context makes for itself.
CacheOptions cache_options(const ContextOptions& from, const Logger& logger);
// A ukernel as it may be added. What reads its bitcode is a process that reads nothing else: damaged bitcode
// can crash LLVM.
absl::StatusOr<UserUkernel> check_ukernel(const lathe_context& context, absl::string_view description,
                                          absl::string_view bitcode);
// Those of its options, by a process that ends then.
absl::Status read_pipelines(lathe_context* context);
void read_statistics(const lathe_context& context, lathe_statistics* out);
// lathe_cache_list's JSON.
absl::StatusOr<Json> cache_json(lathe_context& context);

}  // namespace lathe
