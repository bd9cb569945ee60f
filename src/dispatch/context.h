// The body of a lathe_context: what its devices share, such as options, cache, compiler and counters.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/log.h"
#include "cache/cache.h"
#include "compile_client/compiler_library.h"
#include "compile_client/compiler_processes.h"
#include "compile_client/pipelines.h"
#include "compile_client/user_ukernels.h"
#include "dispatch/background.h"
#include "dispatch/calibrations.h"
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
  // `own_cache` is for tests. Null: the cache is made from the options.
  explicit lathe_context(lathe::ContextOptions given,
                         std::unique_ptr<lathe::ArtifactCache> own_cache = nullptr);

  const lathe::ContextOptions options;
  const lathe::Logger logger;
  const std::unique_ptr<lathe::ArtifactCache> cache;
  const std::unique_ptr<lathe::Compiler> compiler;
  // Payloads and the pipelines of dumps are always read in other processes, since damaged text can crash or
  // corrupt MLIR's parser.
  lathe::CompilerProcesses readers;
  const lathe::TuningRecords tuning;
  const std::string calibration_path;  // where lathe_calibrate stores; "": nowhere
  const lathe::CalibrationFile calibrations;
  lathe::Pipelines pipelines;  // set by lathe_context_create; constant afterwards
  lathe::UserUkernels ukernels;
  lathe::ElementwisePrograms programs;
  lathe::FallbackBundle fallback;
  lathe::Counters counters;
  std::atomic<int> devices{0};  // number of open devices
  // Whether each of these warnings was logged.
  std::atomic<bool> told_of_no_assembler{false}, told_of_foreign_tuning{false}, told_of_no_fallback{false};
  lathe::MissWatch misses;
  lathe::MissManifest miss_manifest;
  const lathe::Trace trace;
  // Declared last: these two have threads, which must end before what they use.
  lathe::BackgroundCompiler background;
  lathe::MetricsFile metrics;
};

namespace lathe {

// The options of the cache that a context makes for itself.
CacheOptions cache_options(const ContextOptions& from, const Logger& logger);
// Checks a user's ukernel. Its bitcode is read in a process of its own, since damaged bitcode can crash LLVM.
absl::StatusOr<UserUkernel> check_ukernel(const lathe_context& context, absl::string_view description,
                                          absl::string_view bitcode);
// Reads the pipelines that the context's options name, in a process that ends afterwards.
absl::Status read_pipelines(lathe_context* context);
void read_statistics(const lathe_context& context, lathe_statistics* out);
// The JSON of lathe_cache_list.
absl::StatusOr<Json> cache_json(lathe_context& context);

}  // namespace lathe
