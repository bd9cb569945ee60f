// The compiler as a context sees it: the compiler library in this process, or compiler processes that load it.
// In both cases the boundary is that of core/compiler_abi.h: bytes in, bytes out.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/artifact.h"
#include "core/compiler_abi.h"
#include "core/json.h"
#include "core/plan.h"

namespace lathe {

struct AssemblerSearch;
struct Target;

// One kernel to compile.
struct CompileRequest {
  const ProblemClass& problem;
  const CompileConfig& config;
  const Target& target;
  // Where to look for an assembler of PTX. Null: PTX is not assembled.
  const AssemblerSearch* assembler = nullptr;
  // A user's pipeline, as read_pipeline returned it. Null: the built-in one.
  const Json* pipeline = nullptr;
  absl::string_view bitcode = {};  // of the user's ukernel, if the config names one
  absl::string_view program = {};  // the text of an elementwise op's program
};

// Receives the text of a dump, one call per stage.
using StageSink = absl::FunctionRef<void(absl::string_view name, absl::string_view text)>;

// Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Loads the library or starts a process, unless that is done. kUnavailable names the path and the cause. A failure
  // is not remembered, so a file that appears later is found.
  virtual absl::Status load() = 0;
  // Compiles one kernel; calls load() first. kAborted: the compiler failed, with its message.
  absl::StatusOr<Artifact> compile(const CompileRequest& request);
  // As compile, but passes the IR after each stage to `stages`. `pipeline_yaml` "": the request's pipeline.
  absl::Status dump(const CompileRequest& request, absl::string_view pipeline_yaml, StageSink stages);
  // These three read text from users. kAborted and kDeadlineExceeded: the compiler process ended while reading it.

  // The steps of a payload, as the JSON that compiler/inspect.h describes. kInvalidArgument: it is malformed.
  // kUnimplemented: Lathe has no op for a part of it. Both name the place.
  absl::StatusOr<Json> inspect(absl::string_view name, absl::string_view text);

  // A user's pipeline as {"for": "matmul.cpu", "pipeline": JSON for compile requests}. kInvalidArgument names file
  // and line. `parameters` "": no parameter file.
  absl::StatusOr<Json> read_pipeline(absl::string_view path, absl::string_view parameters);

  // Checks the description of a user's ukernel (YAML) and its bitcode. Returns the JSON of core/user_ukernel.h.
  // kInvalidArgument names the line, or what is wrong with the bitcode.
  absl::StatusOr<Json> check_ukernel(absl::string_view description, absl::string_view bitcode);

  // Sends a request. Returns the result of lathe_compiler_compile, or an error if there is none. Exceptions of `sink`
  // pass through.
  virtual absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user) = 0;
  // True if the library is loaded into this process, by any context.
  virtual bool mapped() const = 0;
  virtual double load_milliseconds() const = 0;

 private:
  struct Output;
  static void receive(void* user, int kind, const char* name, const uint8_t* data, size_t size);
  // Sends a request whose answer is one JSON. Errors as for answer(); if there is no answer, they name `what`, the
  // text that was to be read.
  absl::StatusOr<Json> answer_json(const std::string& what, absl::string_view request,
                                   absl::StatusCode refused = absl::StatusCode::kAborted);
  // Sends a request and collects its answer. If the compiler refuses it, the error has the code `refused` and the
  // compiler's message.
  absl::Status answer(absl::string_view request, Output* out,
                      absl::StatusCode refused = absl::StatusCode::kAborted);
  absl::StatusOr<Artifact> run(absl::string_view request, StageSink stages);
};

}  // namespace lathe
