#include "options/path_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absolute_path.h"
#include "lathe/pipelines.h"

namespace lathe {
namespace {

const char* non_empty(const char* text) { return text != nullptr && *text != 0 ? text : nullptr; }

absl::Status read_rows(const lathe_context_options& options, const Environment& environment,
                       ContextOptions* out) {
  for (const PathOption& row : kPathOptions) {
    const char* path = row.given != nullptr ? options.*row.given : nullptr;
    const std::string what =
        path != nullptr ? absl::StrCat("lathe_context_options: ", row.name) : std::string(row.variable);
    if (path == nullptr) path = environment(row.variable);
    if (path == nullptr) continue;
    if (row.may_be_searched && absl::string_view(path).find('/') == absl::string_view::npos) {
      out->*row.path = path;
    } else {
      LATHE_ASSIGN_OR_RETURN(out->*row.path, absolute_option(what, path));
    }
  }
  return absl::OkStatus();
}

// The default if neither the caller nor the environment sets the directory ("" would mean: no disk store).
absl::Status read_default_cache_dir(const Environment& environment, ContextOptions* out) {
  if (const char* xdg = non_empty(environment("XDG_CACHE_HOME"))) {
    LATHE_ASSIGN_OR_RETURN(out->cache_dir, absolute_option("XDG_CACHE_HOME", absl::StrCat(xdg, "/lathe")));
  } else if (const char* home = non_empty(environment("HOME"))) {
    LATHE_ASSIGN_OR_RETURN(out->cache_dir, absolute_option("HOME", absl::StrCat(home, "/.cache/lathe")));
  } else {
    Logger(out->log_level, out->log_sink)
        .log(LogLevel::kWarning,
             "cache: none of LATHE_CACHE_DIR, XDG_CACHE_HOME and HOME names a directory, so kernels are kept "
             "in memory only");
  }
  return absl::OkStatus();
}

// `list` is the name of the field, for errors.
absl::Status read_list(absl::string_view list, const char* const* paths, size_t count,
                       std::vector<std::string>* out) {
  if (paths == nullptr && count != 0)
    return absl::InvalidArgumentError(absl::StrCat(list, " is NULL and its count is not 0"));
  for (size_t i = 0; i < count; ++i) {
    const std::string what = absl::StrCat(list, "[", i, "]");
    if (paths[i] == nullptr) return absl::InvalidArgumentError(absl::StrCat(what, " is NULL"));
    LATHE_ASSIGN_OR_RETURN(std::string path, absolute_option(what, paths[i]));
    out->push_back(std::move(path));
  }
  return absl::OkStatus();
}

absl::Status read_bundles(const lathe_context_options& options, const Environment& environment,
                          ContextOptions* out) {
  if (options.bundles != nullptr || options.bundle_count != 0)
    return read_list("lathe_context_options: bundles", options.bundles, options.bundle_count, &out->bundles);
  const char* text = non_empty(environment("LATHE_BUNDLES"));
  if (text == nullptr) return absl::OkStatus();
  for (const absl::string_view name : absl::StrSplit(text, ':', absl::SkipEmpty())) {
    LATHE_ASSIGN_OR_RETURN(std::string path, absolute_option("LATHE_BUNDLES", name));
    out->bundles.push_back(std::move(path));
  }
  return absl::OkStatus();
}

absl::Status read_chain(const lathe_context_options& options, ContextOptions* out) {
  if (options.next == nullptr) return absl::OkStatus();
  const auto* pipelines = reinterpret_cast<const lathe_pipelines*>(options.next);
  if (options.next->struct_size != sizeof(lathe_pipelines) || options.next->kind != LATHE_CHAIN_PIPELINES ||
      options.next->next != nullptr || options.next->reserved != 0)
    return absl::UnimplementedError(
        "lathe_context_options: the chain may hold one lathe_pipelines and nothing else");
  LATHE_RETURN_IF_ERROR(
      read_list("lathe_pipelines: paths", pipelines->paths, pipelines->count, &out->pipelines));
  if (pipelines->parameters != nullptr) {
    LATHE_ASSIGN_OR_RETURN(out->pipeline_parameters,
                           absolute_option("lathe_pipelines: parameters", pipelines->parameters));
  }
  if (!out->pipeline_parameters.empty() && out->pipelines.empty())
    return absl::InvalidArgumentError("lathe_pipelines: parameters without a pipeline");
  return absl::OkStatus();
}

// Searches PATH and the CUDA toolkit: $CUDA_HOME, else where NVIDIA's installers put it. Temporary files go
// to $TMPDIR first. Relative directories in PATH and a relative TMPDIR are ignored.
absl::Status read_assemblers(const Environment& environment, ContextOptions* out) {
  AssemblerSearch search;
  if (const char* ptxas = environment("LATHE_PTXAS")) {
    if (*ptxas == 0) return absl::OkStatus();
    LATHE_ASSIGN_OR_RETURN(search.ptxas, absolute_option("LATHE_PTXAS", ptxas));
  }
  if (const char* path = environment("PATH"))
    search.directories = absl::StrSplit(path, ':', absl::SkipEmpty());
  const char* home = non_empty(environment("CUDA_HOME"));
  LATHE_ASSIGN_OR_RETURN(const std::string toolkit,
                         absolute_option("CUDA_HOME", home != nullptr ? home : "/usr/local/cuda"));
  search.directories.push_back(absl::StrCat(toolkit, "/bin"));
  search.nvjitlink_directories.push_back(absl::StrCat(toolkit, "/lib64"));
  if (const char* temporary = non_empty(environment("TMPDIR")); temporary != nullptr && *temporary == '/')
    search.temporary.insert(search.temporary.begin(), temporary);
  out->assembler = std::move(search);
  return absl::OkStatus();
}

}  // namespace

std::string calibration_beside(const std::string& cache_dir) {
  return cache_dir.empty() ? "" : absl::StrCat(cache_dir, "/calibration.json");
}

absl::StatusOr<std::string> absolute_option(absl::string_view what, absl::string_view path) {
  absl::StatusOr<std::string> absolute = absolute_path(path);
  if (absolute.ok()) return absolute;
  return absl::Status(absolute.status().code(), absl::StrCat(what, ": ", absolute.status().message()));
}

absl::Status read_paths(const lathe_context_options& options, const Environment& environment,
                        ContextOptions* out) {
  LATHE_RETURN_IF_ERROR(read_chain(options, out));
  LATHE_RETURN_IF_ERROR(read_rows(options, environment, out));
  if (options.cache_dir == nullptr && environment("LATHE_CACHE_DIR") == nullptr)
    LATHE_RETURN_IF_ERROR(read_default_cache_dir(environment, out));
  if (environment("LATHE_UKERNELS") == nullptr && !out->cache_dir.empty())
    out->ukernels = out->cache_dir + "/ukernels";
  if (options.calibration == nullptr && environment("LATHE_CALIBRATION") == nullptr)
    out->calibration = calibration_beside(out->cache_dir);
  LATHE_RETURN_IF_ERROR(read_bundles(options, environment, out));
  return read_assemblers(environment, out);
}

}  // namespace lathe
