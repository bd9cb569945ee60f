// A context's options: the caller's values, completed from the environment. The environment is read only here.
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

// What a call does if its class has no kernel yet (LATHE_MISS_*).
enum class MissPolicy : int32_t { kBlock, kFallback, kError };

// Paths are absolute (options/path_options.h), except a compiler_library without '/', which dlopen searches for.
struct ContextOptions {
  std::string cache_dir;                // "": no disk store
  uint64_t cache_bytes = ~uint64_t{0};  // limit of the disk store; the default: no limit
  std::vector<std::string> bundles;
  std::string remote;            // a URL (cache/remote_store.h); "": none
  std::string compiler_library;  // "": in the directory of this library
  bool compiler_in_process = true;
  std::string compiler_program;   // "": in the directory of this library
  double compiler_seconds = 120;  // time limit for one kernel, payload or ukernel
  uint64_t compiler_bytes = uint64_t{8} << 30;
  LogLevel log_level = LogLevel::kWarning;
  Logger::Sink log_sink;
  std::string fallback_bundle;  // "": in the directory of this library
  std::string ukernels;         // directory of the users' ukernels; "": none
  MissPolicy miss_policy = MissPolicy::kBlock;
  int32_t workers = 0;  // 0: one per core that this process may run on
  // Where to find a PTX assembler for described devices (real devices assemble PTX in the driver). Empty if
  // $LATHE_PTXAS is set and empty: PTX is then not assembled.
  std::optional<AssemblerSearch> assembler;
  lathe_parallel_for_fn parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  std::vector<std::string> pipelines;                       // YAML files of the caller's pipelines
  std::string pipeline_parameters;                          // a JSON file; "": none
  std::string record, metrics, trace, tuning, calibration;  // files; "": none
  size_t most_waiting = 1024;  // maximum number of classes that wait for background compilation
  bool perf_map = false;       // write the CPU device's symbols for perf
  bool validate = false;       // check GPU pointers before each launch
  ExternalChoice external;     // for requests without a lathe_external
  std::string cpu_target;      // instruction set of the CPU device, a part of the processor's; "": all of it
};

// Returns a variable's value, or null if it is unset. A parameter, so that tests need not change the process's
// environment.
using Environment = std::function<const char*(const char* name)>;

// `options` may be null. kInvalidArgument names the field or the variable.
absl::StatusOr<ContextOptions> read_options(const lathe_context_options* options,
                                            const Environment& environment);

// Parses a number of bytes: "4096", "500M", "4G". The units K, M, G and T are powers of 1024. "unlimited" is
// UINT64_MAX. The error, kInvalidArgument, starts with `what`.
absl::StatusOr<uint64_t> parse_bytes(absl::string_view what, absl::string_view text);

// kInvalidArgument if a launch cannot have this number of workers. The message starts with `what`.
absl::Status check_workers(absl::string_view what, int32_t workers);

// kInvalidArgument for unknown values of the enums, and for a library without a use. The message starts with
// `what`.
absl::StatusOr<ExternalChoice> read_external(absl::string_view what, const lathe_external_use& use,
                                             const lathe_external_library& which);

// `otherwise` is the result for LATHE_MISS_DEFAULT.
absl::StatusOr<MissPolicy> read_miss_policy(const lathe_miss_policy& policy, MissPolicy otherwise);

}  // namespace lathe
