// liblathe-compiler.so, mapped at the first miss and never unmapped.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/artifact.h"
#include "core/compiler_abi.h"
#include "core/plan.h"

namespace lathe {

struct AssemblerSearch;
struct Target;

// One kernel to compile.
struct CompileRequest {
  const ProblemClass& problem;
  const CompileConfig& config;
  const Target& target;
  // Where to look for an assembler of PTX; null: PTX stays PTX.
  const AssemblerSearch* assembler = nullptr;
};

// Receives a dump's text, stage by stage.
using StageSink = absl::FunctionRef<void(absl::string_view name, absl::string_view text)>;

class CompilerLibrary {
 public:
  // `path` "": liblathe-compiler.so beside this library. Nothing is opened here.
  explicit CompilerLibrary(std::string path);

  // Maps the library (RTLD_NOW | RTLD_LOCAL) and checks its ABI version and codegen id, once. kUnavailable
  // names the path and the cause; a failure is not remembered, so a library that appears later is found.
  // Thread-safe.
  absl::Status load();
  // Compiles one kernel (load() included). kAborted with the compiler's message. Thread-safe.
  absl::StatusOr<Artifact> compile(const CompileRequest& request);
  // As compile, and hands the IR after each stage to `stages`; `pipeline_yaml` "": the built-in pipeline.
  absl::Status dump(const CompileRequest& request, absl::string_view pipeline_yaml, StageSink stages);

  const std::string& path() const { return path_; }
  // True once the library is mapped into this process, by whichever context.
  bool mapped() const;
  double load_milliseconds() const { return load_milliseconds_.load(std::memory_order_relaxed); }

 private:
  absl::StatusOr<Artifact> run(const std::string& request, StageSink stages);

  const std::string path_;
  std::mutex mutex_;
  std::atomic<lathe_compiler_compile_fn> compile_{nullptr};
  std::atomic<double> load_milliseconds_{0};
};

}  // namespace lathe
