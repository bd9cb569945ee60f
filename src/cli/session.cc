#include "cli/session.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/files.h"
#include "lathe/pipelines.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// The directory of the shipped facts files: ../share/lathe/facts, seen from the program (also in the build tree), or
// where this build installs them.
fs::path facts_directory() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.parent_path().parent_path() / "share" / "lathe" / "facts";
  return fs::is_directory(beside, error) ? beside : fs::path(LATHE_FACTS_DIRECTORY);
}

// The path of a facts file. `name` is a path, or the name of a shipped file ("h200").
absl::StatusOr<std::string> find_facts(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error)) return name;
  if (name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("--facts: file '", name, "' does not exist"));
  }
  const fs::path directory = facts_directory();
  for (const std::string& candidate : {name, name + ".json"}) {
    if (fs::is_regular_file(directory / candidate, error)) return (directory / candidate).string();
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory, error))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return absl::InvalidArgumentError(
      absl::StrCat("--facts: file '", name, "' does not exist",
                   names.empty() ? "" : absl::StrCat("; shipped files: ", absl::StrJoin(names, ", "))));
}

// For --target without --facts: a shipped facts file with this target. If there are several, takes the first by name.
// Prints the choice to stderr.
absl::StatusOr<std::string> facts_of_target(const std::string& target) {
  std::error_code error;
  std::map<std::string, std::string> targets;  // file name -> target
  for (const auto& entry : fs::directory_iterator(facts_directory(), error)) {
    std::ifstream in(entry.path());
    const Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("target") && json["target"].is_string())
      targets[entry.path().stem().string()] = json["target"].get<std::string>();
  }
  std::vector<std::string> found;
  for (const auto& [name, of] : targets)
    if (of == target.substr(0, target.find(':'))) found.push_back(name);
  if (found.empty()) {
    const auto line = [](std::string* out, const auto& file) {
      absl::StrAppend(out, file.first, " (", file.second, ")");
    };
    return absl::InvalidArgumentError(
        absl::StrCat("--target: no shipped facts file has the target '", target, "'; give --facts FILE",
                     targets.empty() ? "" : ", or a shipped target: ", absl::StrJoin(targets, ", ", line)));
  }
  std::fprintf(
      stderr, "lathe: --target %s: planning for %s%s\n", target.c_str(), found[0].c_str(),
      found.size() == 1 ? "" : absl::StrCat("; --facts selects one of ", absl::StrJoin(found, ", ")).c_str());
  return (facts_directory() / (found[0] + ".json")).string();
}

absl::StatusOr<lathe_miss_policy> miss_policy(const Arguments& arguments) {
  const std::string name = arguments.text("miss", "block");
  if (name == "block") return LATHE_MISS_BLOCK;
  if (name == "fallback") return LATHE_MISS_FALLBACK;
  if (name == "error") return LATHE_MISS_ERROR;
  return absl::InvalidArgumentError(absl::StrCat("--miss takes block, fallback or error, not '", name, "'"));
}

absl::StatusOr<lathe_compiler_mode> compiler_mode(const Arguments& arguments) {
  if (!arguments.has("compiler")) return LATHE_COMPILER_DEFAULT;
  const std::string name = arguments.text("compiler", "");
  if (name == "inprocess") return LATHE_COMPILER_INPROCESS;
  if (name == "process") return LATHE_COMPILER_PROCESS;
  return absl::InvalidArgumentError(absl::StrCat("--compiler takes inprocess or process, not '", name, "'"));
}

// Reads --external: a use ("allow"), a use of one library ("prefer:onednn"), or a library ("onednn"), which is then
// required.
absl::Status read_external(const Arguments& arguments, lathe_context_options* options) {
  if (!arguments.has("external")) return absl::OkStatus();
  // In the order of lathe_external_use, from 1 on.
  const std::vector<std::string> uses = {"off", "allow", "prefer", "require"};
  const std::string text = arguments.text("external", "");
  const size_t colon = text.find(':');
  std::string use = text.substr(0, colon), which = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (absl::c_linear_search(external_libraries(), use)) which = std::exchange(use, "require");
  const auto at = std::find(uses.begin(), uses.end(), use), end = uses.end();
  const auto library = std::find(external_libraries().begin(), external_libraries().end(), which);
  const bool any = which.empty() && colon == std::string::npos;
  if (at == end || (!any && library == external_libraries().end()) || (use == "off" && !any))
    return absl::InvalidArgumentError(absl::StrCat("--external takes off, allow, prefer, require, or one of ",
                                                   absl::StrJoin(external_libraries(), ", "),
                                                   " (also as prefer:onednn), not '", text, "'"));
  options->external = static_cast<lathe_external_use>(at - uses.begin() + 1);
  if (!any)
    options->external_library =
        static_cast<lathe_external_library>(library - external_libraries().begin() + 1);
  return absl::OkStatus();
}

// Whether the name is that of a device ("cpu", "cuda:0") and not of a target.
bool is_device(const std::string& name) {
  const std::string backend = name.substr(0, name.find(':'));
  return name == "cpu" || backend == "cuda" || backend == "hip";
}

// For --params without --pipeline: the file must have no "parameters", because no pipeline would use them.
absl::Status check_no_parameters(const std::string& path) {
  absl::StatusOr<Json> json = read_json_file(path);
  if (!json.ok()) return json.status();
  const Json none = Json::object();
  const Json& parameters = json->is_object() && json->contains("parameters") ? json->at("parameters") : none;
  if (parameters.empty() || !parameters.is_object()) return absl::OkStatus();
  const std::string name = parameters.begin().key();
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  const size_t object = std::min(text->find("\"parameters\""), text->size()),
               at = std::min(text->find(Json(name).dump(), object), text->size());
  const auto line = 1 + std::count(text->begin(), text->begin() + static_cast<ptrdiff_t>(at), '\n');
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", line, ": parameter '", name, "' is used by no pipeline: give --pipeline"));
}

}  // namespace

const std::vector<std::string>& external_libraries() {
  static const std::vector<std::string> names = {"openblas", "onednn", "cublaslt", "hipblaslt"};
  return names;
}

absl::Status check(lathe_status status) {
  if (status == LATHE_OK) return absl::OkStatus();
  const std::string message = absl::StrCat(lathe_status_name(status), ": ", lathe_last_error());
  return status == LATHE_UNSUPPORTED ? absl::UnimplementedError(message) : absl::UnknownError(message);
}

absl::StatusOr<Context> make_context(const Arguments& arguments, const ExternalUse& external) {
  absl::StatusOr<int64_t> workers = arguments.integer("workers", 0, 1, 1024);
  if (!workers.ok()) return workers.status();
  const std::string cache_dir = arguments.text("cache-dir", "");
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  if (arguments.has("cache-dir")) options.cache_dir = cache_dir.c_str();
  options.workers = static_cast<int32_t>(*workers);
  absl::StatusOr<uint64_t> cache_bytes = arguments.bytes("cache-bytes", 0);
  if (!cache_bytes.ok()) return cache_bytes.status();
  if (arguments.has("cache-bytes") && *cache_bytes == 0)
    return absl::InvalidArgumentError(
        "--cache-bytes takes 1 or more; use --cache-dir '' to run without a cache on disk");
  options.cache_bytes = *cache_bytes;
  const std::vector<std::string> paths =
      absl::StrSplit(arguments.text("bundles", ""), ':', absl::SkipEmpty());
  std::vector<const char*> bundles;
  for (const std::string& path : paths) bundles.push_back(path.c_str());
  bundles.push_back("");  // so that data() is not null: null would mean $LATHE_BUNDLES
  if (arguments.has("bundles")) {
    options.bundles = bundles.data();
    options.bundle_count = paths.size();
  }
  const std::string remote = arguments.text("remote", "");
  if (arguments.has("remote")) options.remote = remote.c_str();
  const std::string tuning = arguments.text("tuning", "");
  if (arguments.has("tuning")) options.tuning = tuning.c_str();
  const std::string calibration = arguments.text("calibration", "");
  if (arguments.has("calibration")) options.calibration = calibration.c_str();
  absl::StatusOr<lathe_miss_policy> miss = miss_policy(arguments);
  if (!miss.ok()) return miss.status();
  options.miss_policy = *miss;
  absl::StatusOr<lathe_compiler_mode> compiler = compiler_mode(arguments);
  if (!compiler.ok()) return compiler.status();
  options.compiler = *compiler;
  if (absl::Status s = read_external(arguments, &options); !s.ok()) return s;
  if (external.use != LATHE_EXTERNAL_DEFAULT) {
    options.external = external.use;
    options.external_library = external.which;
  }
  const std::vector<std::string> pipelines =
      absl::StrSplit(arguments.text("pipeline", ""), ':', absl::SkipEmpty());
  std::vector<const char*> pipeline_paths;
  for (const std::string& path : pipelines) pipeline_paths.push_back(path.c_str());
  const std::string parameters = arguments.text("params", "");
  if (pipelines.empty() && arguments.has("params"))
    if (absl::Status s = check_no_parameters(parameters); !s.ok()) return s;
  lathe_pipelines own = LATHE_PIPELINES_INIT;
  own.paths = pipeline_paths.data();
  own.count = pipeline_paths.size();
  if (arguments.has("params")) own.parameters = parameters.c_str();
  if (!pipelines.empty()) options.next = reinterpret_cast<const lathe_chain*>(&own);
  lathe_context* context = nullptr;
  if (absl::Status s = check(lathe_context_create(&options, &context)); !s.ok()) return s;
  return Context(context);
}

bool names_described_device(const Arguments& arguments) {
  return arguments.has("facts") || (arguments.has("target") && !is_device(arguments.text("target", "")));
}

absl::StatusOr<Device> open_device(lathe_context* context, const Arguments& arguments) {
  lathe_device* device = nullptr;
  const std::string target = arguments.text("target", "");
  if (arguments.has("device") && (arguments.has("facts") || arguments.has("target")))
    return absl::InvalidArgumentError(
        "--device names a device of this machine, --facts and --target describe one: give one of the two");
  if (names_described_device(arguments)) {
    absl::StatusOr<std::string> path =
        arguments.has("facts") ? find_facts(arguments.text("facts", "")) : facts_of_target(target);
    if (!path.ok()) return path.status();
    const char* named = arguments.has("target") ? target.c_str() : nullptr;
    if (absl::Status s = check(lathe_device_describe(context, path->c_str(), named, &device)); !s.ok())
      return s;
    return Device(device);
  }
  const std::string here = arguments.has("target") ? target : arguments.text("device", "cpu");
  if (absl::Status s = check(lathe_device_open(context, here.c_str(), &device)); !s.ok()) return s;
  return Device(device);
}

Flag device_flag() { return {"device", "NAME", "one of the devices in 'lathe devices' (default: cpu)"}; }
Flag miss_flag() {
  return {"miss", "block|fallback|error",
          "if there is no kernel yet: compile it first, run a generic kernel meanwhile, or fail (default: "
          "block)"};
}
Flag pipeline_flag() {
  return {"pipeline", "FILES", "YAML pipelines that replace the built-in ones, separated by ':'"};
}
Flag params_flag() {
  return {"params", "FILE", "JSON file whose \"parameters\" set the params.NAME of the pipelines"};
}
Flag facts_flag() {
  return {"facts", "FILE",
          "plan for the device in this facts file; shipped files have short names, such as h200"};
}
Flag target_flag() {
  return {"target", "TARGET",
          "compile for this target (sm_90a, gfx942, spirv64, ...), which without --facts selects a shipped "
          "facts file; or use a device of this machine (cpu, cuda:0, hip:0)"};
}

absl::StatusOr<lathe_statistics> statistics(lathe_context* context) {
  lathe_statistics s = LATHE_STATISTICS_INIT;
  if (absl::Status status = check(lathe_context_statistics(context, &s)); !status.ok()) return status;
  return s;
}

void collect_text(void* user, const char* name, const char* text, size_t size) {
  static_cast<std::vector<Text>*>(user)->push_back({name ? name : "", std::string(text, size)});
}

absl::StatusOr<Json> parse_json(const std::vector<Text>& pieces, const std::string& what) {
  std::string text;
  for (const Text& piece : pieces) text += piece.text;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return absl::InternalError(absl::StrCat(what, ": the library did not write valid JSON"));
  return json;
}

}  // namespace lathe::cli
