#include "api/compiler_library.h"

#include <dlfcn.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "api/beside_library.h"
#include "base/status.h"
#include "core/assembler_search.h"
#include "core/key.h"

namespace lathe {
namespace {

absl::Status unavailable(const std::string& path, absl::string_view cause) {
  return absl::UnavailableError(absl::StrCat("compiler library ", path, ": ", cause));
}

Json request_json(const CompileRequest& request) {
  Json json = {{"class", to_json(request.problem)},
               {"config", to_json(request.config)},
               {"target", to_json(request.target)}};
  if (request.assembler != nullptr) json["assemble"] = to_json(*request.assembler);
  return json;
}

// What the sink has received so far. No exception may cross the compiler's frames, so the first one waits
// here.
struct Output {
  StageSink stages;
  std::string artifact, error;
  int artifacts = 0;
  std::exception_ptr exception;
};

void receive(void* user, int kind, const char* name, const uint8_t* data, size_t size) {
  Output& out = *static_cast<Output*>(user);
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (kind == LATHE_COMPILER_ARTIFACT) {
      out.artifact.assign(bytes.data(), bytes.size());
      ++out.artifacts;
    } else if (kind == LATHE_COMPILER_ERROR) {
      out.error.assign(bytes.data(), bytes.size());
    } else if (kind == LATHE_COMPILER_DUMP) {
      out.stages(name == nullptr ? "" : name, bytes);
    }
  } catch (...) {
    if (!out.exception) out.exception = std::current_exception();
  }
}

}  // namespace

CompilerLibrary::CompilerLibrary(std::string path)
    : path_(path.empty() ? beside_library("liblathe-compiler.so") : std::move(path)) {}

absl::Status CompilerLibrary::load() {
  if (compile_.load(std::memory_order_acquire) != nullptr) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (compile_.load(std::memory_order_relaxed) != nullptr) return absl::OkStatus();
  const auto start = std::chrono::steady_clock::now();
  // The handle is never closed, not even a refused one: LLVM's statics and thread-locals may not survive it.
  void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* cause = dlerror();
    absl::string_view text = cause != nullptr ? cause : "dlopen failed";
    absl::ConsumePrefix(&text, absl::StrCat(path_, ": "));
    return unavailable(path_, text);
  }
  const auto abi =
      reinterpret_cast<lathe_compiler_abi_version_fn>(dlsym(library, "lathe_compiler_abi_version"));
  const auto id = reinterpret_cast<lathe_compiler_codegen_id_fn>(dlsym(library, "lathe_compiler_codegen_id"));
  const auto compile = reinterpret_cast<lathe_compiler_compile_fn>(dlsym(library, "lathe_compiler_compile"));
  if (abi == nullptr || id == nullptr || compile == nullptr) {
    return unavailable(path_,
                       "not a Lathe compiler: it lacks lathe_compiler_abi_version, _codegen_id or _compile");
  }
  if (abi() != LATHE_COMPILER_ABI_VERSION) {
    return unavailable(path_,
                       absl::StrCat("its ABI version ", abi(), " is not ", LATHE_COMPILER_ABI_VERSION));
  }
  if (codegen_id() != id()) {
    return unavailable(path_, absl::StrCat("its codegen id ", id(), " is not this library's ", codegen_id()));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  load_milliseconds_.store(took.count(), std::memory_order_relaxed);
  compile_.store(compile, std::memory_order_release);
  return absl::OkStatus();
}

bool CompilerLibrary::mapped() const {
  void* library = dlopen(path_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

absl::StatusOr<Artifact> CompilerLibrary::run(const std::string& request, StageSink stages) {
  LATHE_RETURN_IF_ERROR(load());
  Output out{stages, {}, {}, 0, nullptr};
  const int failed = compile_.load(std::memory_order_acquire)(
      reinterpret_cast<const uint8_t*>(request.data()), request.size(), receive, &out);
  if (out.exception) std::rethrow_exception(out.exception);
  if (failed != 0) {
    return absl::AbortedError(out.error.empty() ? "the compiler failed without a message" : out.error);
  }
  if (out.artifacts != 1) {
    return absl::InternalError(absl::StrCat("the compiler gave ", out.artifacts, " artifacts, not one"));
  }
  absl::StatusOr<Artifact> artifact = parse_artifact(out.artifact);
  if (!artifact.ok()) {
    return absl::InternalError(absl::StrCat("the compiler's artifact: ", artifact.status().message()));
  }
  return artifact;
}

absl::StatusOr<Artifact> CompilerLibrary::compile(const CompileRequest& request) {
  return run(request_json(request).dump(), [](absl::string_view, absl::string_view) {});
}

absl::Status CompilerLibrary::dump(const CompileRequest& request, absl::string_view pipeline_yaml,
                                   StageSink stages) {
  Json json = request_json(request);
  json["dump"] = true;
  if (!pipeline_yaml.empty()) json["pipeline"] = std::string(pipeline_yaml);
  return run(json.dump(), stages).status();
}

}  // namespace lathe
