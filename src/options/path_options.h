// The options of a context that are paths. They are made absolute when the context is created, so the host may
// change its working directory later.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "options/options.h"

namespace lathe {

// One path option: where it is read and where it is stored. A test gives every row a relative path.
struct PathOption {
  const char* name;                           // name of the field
  const char* lathe_context_options::*given;  // null: only the variable exists
  const char* variable;                       // read if the field is NULL
  std::string ContextOptions::*path;
  bool may_be_searched = false;  // true: a name without '/' stays unchanged, because dlopen searches for it
};

inline constexpr PathOption kPathOptions[] = {
    {"cache_dir", &lathe_context_options::cache_dir, "LATHE_CACHE_DIR", &ContextOptions::cache_dir},
    {"compiler_library", &lathe_context_options::compiler_library, "LATHE_COMPILER_LIBRARY",
     &ContextOptions::compiler_library, true},
    {"compiler_program", &lathe_context_options::compiler_program, "LATHE_COMPILER_PROGRAM",
     &ContextOptions::compiler_program},
    {"fallback_bundle", &lathe_context_options::fallback_bundle, "LATHE_FALLBACK_BUNDLE",
     &ContextOptions::fallback_bundle},
    {"record", &lathe_context_options::record, "LATHE_RECORD", &ContextOptions::record},
    {"metrics", &lathe_context_options::metrics, "LATHE_METRICS", &ContextOptions::metrics},
    {"trace", &lathe_context_options::trace, "LATHE_TRACE", &ContextOptions::trace},
    {"tuning", &lathe_context_options::tuning, "LATHE_TUNING", &ContextOptions::tuning},
    {"calibration", &lathe_context_options::calibration, "LATHE_CALIBRATION", &ContextOptions::calibration},
    {"ukernels", nullptr, "LATHE_UKERNELS", &ContextOptions::ukernels},
};

// The calibration file of a cache directory. "" if there is no directory.
std::string calibration_beside(const std::string& cache_dir);

// Makes `path` absolute. An error starts with `what`, the field or the variable that gave the path.
// kUnavailable: the path is relative and there is no current directory.
absl::StatusOr<std::string> absolute_option(absl::string_view what, absl::string_view path);

// Fills the paths in `out`: kPathOptions with their defaults, the bundles, the pipelines of the chain, and
// the directories of assemblers. The log fields of `out` must be set before.
absl::Status read_paths(const lathe_context_options& options, const Environment& environment,
                        ContextOptions* out);

}  // namespace lathe
