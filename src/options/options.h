// A context's options: what the caller gave, completed from the environment, which is read here and nowhere
// else.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "core/assembler_search.h"
#include "core/external.h"
#include "lathe/lathe.h"

namespace lathe {

// What a call does whose class has no kernel yet (LATHE_MISS_*).
enum class MissPolicy : int32_t { kBlock, kFallback, kError };

// Paths are absolute (options/path_options.h), except a compiler_library that dlopen searches for by name.
struct ContextOptions {
  std::string cache_dir;                // "": no disk store
  uint64_t cache_bytes = ~uint64_t{0};  // its cap; that: none
  std::vector<std::string> bundles;
  std::string remote;            // a URL (cache/remote_store.h); "": none
  std::string compiler_library;  // "": beside this library
  bool compiler_in_process = true;
  std::string compiler_program;   // "": beside this library
  double compiler_seconds = 120;  // for one kernel, payload or ukernel
  uint64_t compiler_bytes = uint64_t{8} << 30;
  LogLevel log_level = LogLevel::kWarning;
  Logger::Sink log_sink;
  std::string fallback_bundle;  // "": beside this library
  std::string ukernels;         // directory of users' ukernels; "": none
  MissPolicy miss_policy = MissPolicy::kBlock;
  int32_t workers = 0;  // 0: one per core this process may run on
  // For described devices: a driver assembles PTX itself. Empty: $LATHE_PTXAS is set and empty, PTX stays
  // PTX.
  std::optional<AssemblerSearch> assembler;
  lathe_parallel_for_fn parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  std::vector<std::string> pipelines;          // YAML files of the caller's own
  std::string pipeline_parameters;             // a JSON file; "": none
  std::string record, metrics, trace, tuning;  // files; "": none
  size_t most_waiting = 1024;                  // classes in the queue of background compilation
  bool perf_map = false;                       // the CPU device's code is named for perf
  bool validate = false;                       // GPU pointers are looked up before each launch
  ExternalChoice external;                     // of requests that say nothing
  std::string cpu_target;  // the CPU device's instruction set, less than the processor has; "": all of it
};

// Looks a variable up; null when unset. An argument so that tests need not touch the process' environment.
using Environment = std::function<const char*(const char* name)>;

// `options` may be null. kInvalidArgument names the field or the variable.
absl::StatusOr<ContextOptions> read_options(const lathe_context_options* options,
                                            const Environment& environment);

// "4096", "500M", "4G": bytes, K to T of 1024 each; "unlimited" is UINT64_MAX. kInvalidArgument starts with
// `what`.
absl::StatusOr<uint64_t> parse_bytes(absl::string_view what, absl::string_view text);

// kInvalidArgument, which starts with `what`, unless `workers` is a number that a launch can have.
absl::Status check_workers(absl::string_view what, int32_t workers);

// kInvalidArgument, which starts with `what`, for values that lathe_external_use and _library do not have.
absl::StatusOr<ExternalChoice> read_external(absl::string_view what, const lathe_external_use& use,
                                             const lathe_external_library& which);

// `otherwise` answers for LATHE_MISS_DEFAULT.
absl::StatusOr<MissPolicy> read_miss_policy(const lathe_miss_policy& policy, MissPolicy otherwise);

}  // namespace lathe
