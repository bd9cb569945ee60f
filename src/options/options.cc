#include "options/options.h"

#include <cstdio>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cache/remote_store.h"
#include "options/path_options.h"
#include "options/raw_enum.h"
#include "runtime/driver.h"

namespace lathe {
namespace {

const char* non_empty(const char* text) { return text != nullptr && *text != 0 ? text : nullptr; }

constexpr uint64_t kDefaultCacheBytes = uint64_t{4} << 30;  // about 100,000 kernels

absl::StatusOr<uint64_t> cache_bytes(const lathe_context_options& options, const Environment& environment) {
  if (options.cache_bytes != 0) return options.cache_bytes;
  const char* text = non_empty(environment("LATHE_CACHE_BYTES"));
  return text == nullptr ? kDefaultCacheBytes : parse_bytes("LATHE_CACHE_BYTES", text);
}

absl::StatusOr<bool> compiler_in_process(const lathe_context_options& options,
                                         const Environment& environment) {
  switch (raw(options.compiler)) {
    case LATHE_COMPILER_INPROCESS: return true;
    case LATHE_COMPILER_PROCESS: return false;
    case LATHE_COMPILER_DEFAULT: break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("lathe_context_options: compiler ", raw(options.compiler), " is unknown"));
  }
  const char* text = non_empty(environment("LATHE_COMPILER"));
  if (text == nullptr || absl::string_view(text) == "inprocess") return true;
  if (absl::string_view(text) == "process") return false;
  return absl::InvalidArgumentError(
      absl::StrCat("LATHE_COMPILER=", text, " is neither inprocess nor process"));
}

absl::Status read_compiler(const lathe_context_options& options, const Environment& environment,
                           ContextOptions* out) {
  LATHE_ASSIGN_OR_RETURN(out->compiler_in_process, compiler_in_process(options, environment));
  if (options.compiler_seconds != 0) {
    out->compiler_seconds = options.compiler_seconds;
  } else if (const char* text = non_empty(environment("LATHE_COMPILER_SECONDS"))) {
    uint32_t seconds = 0;
    if (!absl::SimpleAtoi(text, &seconds) || seconds == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("LATHE_COMPILER_SECONDS=", text, " is not a number of seconds"));
    out->compiler_seconds = seconds;
  }
  if (options.compiler_bytes != 0) {
    out->compiler_bytes = options.compiler_bytes;
  } else if (const char* text = non_empty(environment("LATHE_COMPILER_BYTES"))) {
    LATHE_ASSIGN_OR_RETURN(out->compiler_bytes, parse_bytes("LATHE_COMPILER_BYTES", text));
  }
  return absl::OkStatus();
}

absl::StatusOr<LogLevel> parse_log_level(absl::string_view name) {
  if (name == "error") return LogLevel::kError;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  return absl::InvalidArgumentError(
      absl::StrCat("LATHE_LOG=", name, " is not one of error, warning, info, debug"));
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "";
}

void log_to_stderr(LogLevel level, const std::string& message) {
  std::fprintf(stderr, "lathe %s: %s\n", name_of(level), message.c_str());
}

absl::Status check_header(const lathe_context_options& options) {
  if (options.struct_size != sizeof(lathe_context_options)) {
    return absl::InvalidArgumentError(absl::StrCat("lathe_context_options: struct_size ", options.struct_size,
                                                   " is not ", sizeof(lathe_context_options)));
  }
  if (raw(options.log_level) > LATHE_LOG_DEBUG) {
    return absl::InvalidArgumentError(
        absl::StrCat("lathe_context_options: log_level ", raw(options.log_level), " is unknown"));
  }
  if (options.validate != 0 && options.validate != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("lathe_context_options: validate ", options.validate, " is neither 0 nor 1"));
  }
  if (options.reserved != 0) return absl::UnimplementedError("lathe_context_options: reserved is not 0");
  return absl::OkStatus();
}

absl::StatusOr<bool> flag(const char* variable, const Environment& environment) {
  const char* text = non_empty(environment(variable));
  if (text == nullptr) return false;
  const absl::string_view value = text;
  if (value != "0" && value != "1")
    return absl::InvalidArgumentError(absl::StrCat(variable, "=", value, " is neither 0 nor 1"));
  return value == "1";
}

absl::Status read_workers(const lathe_context_options& options, const Environment& environment,
                          ContextOptions* out) {
  out->workers = options.workers;
  if (options.parallel_for != nullptr) {
    // Only the caller knows how many slots its callback uses, so there is no default.
    return check_workers("lathe_context_options with parallel_for", options.workers);
  }
  if (options.workers != 0) return check_workers("lathe_context_options", options.workers);
  const char* text = non_empty(environment("LATHE_WORKERS"));
  if (text == nullptr) return absl::OkStatus();
  if (!absl::SimpleAtoi(text, &out->workers) || out->workers < 0 || out->workers > kMaxWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat("LATHE_WORKERS=", text, " is not a number in [0, ", kMaxWorkers, "]"));
  }
  return absl::OkStatus();
}

// Parses LATHE_EXTERNAL: a use and an optional library, "prefer" or "prefer:onednn".
absl::StatusOr<ExternalChoice> parse_external(absl::string_view text) {
  const size_t colon = text.find(':');
  ExternalChoice choice;
  bool known = false;
  for (ExternalUse use :
       {ExternalUse::kOff, ExternalUse::kAllow, ExternalUse::kPrefer, ExternalUse::kRequire}) {
    if (text.substr(0, colon) != name_of(use)) continue;
    choice.use = use;
    known = colon == absl::string_view::npos ||
            (use != ExternalUse::kOff && parse(text.substr(colon + 1), &choice.which));
  }
  if (known) return choice;
  const auto name = [](std::string* out, ExternalId id) { absl::StrAppend(out, ":", name_of(id)); };
  return absl::InvalidArgumentError(
      absl::StrCat("LATHE_EXTERNAL=", text,
                   " is not one of off, allow, prefer, require; the last three may be followed by one of ",
                   absl::StrJoin(kExternalIds, ", ", name)));
}

absl::StatusOr<ExternalChoice> external(const lathe_context_options& options,
                                        const Environment& environment) {
  LATHE_ASSIGN_OR_RETURN(ExternalChoice choice,
                         read_external("lathe_context_options", options.external, options.external_library));
  if (choice.use != ExternalUse::kDefault) return choice;
  const char* text = non_empty(environment("LATHE_EXTERNAL"));
  return text == nullptr ? ExternalChoice() : parse_external(text);
}

}  // namespace

absl::StatusOr<uint64_t> parse_bytes(absl::string_view what, absl::string_view text) {
  constexpr absl::string_view kUnits = "KMGT";
  if (text == "unlimited") return std::numeric_limits<uint64_t>::max();
  absl::string_view digits = text;
  const size_t unit = digits.empty() ? absl::string_view::npos : kUnits.find(digits.back());
  const int shift = unit == absl::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (shift != 0) digits.remove_suffix(1);
  uint64_t value = 0;
  if (digits.empty() || !absl::ascii_isdigit(digits[0]) || !absl::SimpleAtoi(digits, &value) || value == 0 ||
      value > std::numeric_limits<uint64_t>::max() >> shift) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "=", text, " is neither a number of bytes (4096, 500M, 4G) nor unlimited"));
  }
  return value << shift;
}

absl::Status check_workers(absl::string_view what, int32_t workers) {
  if (workers >= 1 && workers <= kMaxWorkers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": workers ", workers, " is not in [1, ", kMaxWorkers, "]"));
}

absl::StatusOr<ExternalChoice> read_external(absl::string_view what, const lathe_external_use& use,
                                             const lathe_external_library& which) {
  if (raw(use) > LATHE_EXTERNAL_REQUIRE)
    return absl::InvalidArgumentError(absl::StrCat(what, ": external use ", raw(use), " is unknown"));
  const auto id = static_cast<ExternalId>(raw(which));
  if (id != ExternalId::kAny && !absl::c_linear_search(kExternalIds, id))
    return absl::InvalidArgumentError(absl::StrCat(what, ": external library ", raw(which), " is unknown"));
  const ExternalChoice choice = {static_cast<ExternalUse>(use), id};
  const bool none = choice.use == ExternalUse::kDefault || choice.use == ExternalUse::kOff;
  if (none && choice.which != ExternalId::kAny)
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": external library ", name_of(choice.which), " with ", name_of(choice.use)));
  return choice;
}

absl::StatusOr<MissPolicy> read_miss_policy(const lathe_miss_policy& policy, MissPolicy otherwise) {
  switch (raw(policy)) {
    case LATHE_MISS_DEFAULT: return otherwise;
    case LATHE_MISS_BLOCK: return MissPolicy::kBlock;
    case LATHE_MISS_FALLBACK: return MissPolicy::kFallback;
    case LATHE_MISS_ERROR: return MissPolicy::kError;
  }
  return absl::InvalidArgumentError(absl::StrCat("miss_policy ", raw(policy), " is unknown"));
}

absl::StatusOr<ContextOptions> read_options(const lathe_context_options* options,
                                            const Environment& environment) {
  static const lathe_context_options kDefaults = LATHE_CONTEXT_OPTIONS_INIT;
  if (options == nullptr) options = &kDefaults;
  LATHE_RETURN_IF_ERROR(check_header(*options));

  ContextOptions out;
  LATHE_ASSIGN_OR_RETURN(out.cache_bytes, cache_bytes(*options, environment));
  LATHE_RETURN_IF_ERROR(read_compiler(*options, environment, &out));
  const char* remote = options->remote;
  if (remote == nullptr) remote = environment("LATHE_REMOTE");
  if (remote != nullptr) out.remote = remote;
  if (!out.remote.empty()) LATHE_RETURN_IF_ERROR(parse_remote(out.remote).status());
  out.log_level = static_cast<LogLevel>(options->log_level);
  if (options->log != nullptr) {
    out.log_sink = [log = options->log, user = options->log_user](LogLevel level,
                                                                  const std::string& message) {
      log(user, static_cast<lathe_log_level>(level), message.c_str());
    };
  } else {
    out.log_sink = log_to_stderr;
    if (const char* level = non_empty(environment("LATHE_LOG"))) {
      LATHE_ASSIGN_OR_RETURN(out.log_level, parse_log_level(level));
    }
  }
  LATHE_ASSIGN_OR_RETURN(out.miss_policy, read_miss_policy(options->miss_policy, MissPolicy::kBlock));
  LATHE_RETURN_IF_ERROR(read_workers(*options, environment, &out));
  out.validate = options->validate == 1;
  if (!out.validate) {
    LATHE_ASSIGN_OR_RETURN(out.validate, flag("LATHE_VALIDATE", environment));
  }
  LATHE_ASSIGN_OR_RETURN(out.perf_map, flag("LATHE_PERF_MAP", environment));
  LATHE_ASSIGN_OR_RETURN(out.external, external(*options, environment));
  if (const char* target = non_empty(environment("LATHE_CPU_TARGET"))) out.cpu_target = target;
  out.parallel_for = options->parallel_for;
  out.parallel_for_user = options->parallel_for_user;
  LATHE_RETURN_IF_ERROR(read_paths(*options, environment, &out));
  return out;
}

}  // namespace lathe
