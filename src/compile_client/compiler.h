// What a context compiles with: the library in this process, or programs of its own that map it. The boundary
// is core/compiler_abi.h's either way: bytes in, bytes out.
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
  // Where to look for an assembler of PTX; null: PTX stays PTX.
  const AssemblerSearch* assembler = nullptr;
  // The caller's own, as read_pipeline gave it; null: the built-in one.
  const Json* pipeline = nullptr;
  absl::string_view bitcode = {};  // of the user's ukernel that the config names, if it does
  absl::string_view program = {};  // of an elementwise op
};

// Receives a dump's text, stage by stage.
using StageSink = absl::FunctionRef<void(absl::string_view name, absl::string_view text)>;

// All of it thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Makes ready what compile needs, once. kUnavailable names the path and the cause; a failure is not
  // remembered, so that what appears later is found.
  virtual absl::Status load() = 0;
  // Compiles one kernel (load() included). kAborted with the compiler's message.
  absl::StatusOr<Artifact> compile(const CompileRequest& request);
  // As compile, and hands the IR after each stage to `stages`; `pipeline_yaml` "": the request's pipeline.
  absl::Status dump(const CompileRequest& request, absl::string_view pipeline_yaml, StageSink stages);
  // A payload as a program, JSON as compiler/inspect.h says. kInvalidArgument: it is malformed;
  // kUnimplemented: it asks for what Lathe has no op for; both name the place. Of this one and the next two:
  // kAborted and kDeadlineExceeded where reading it ended the process that did.
  absl::StatusOr<Json> inspect(absl::string_view name, absl::string_view text);

  // A pipeline of the caller's own, {"for": "matmul.cpu", "pipeline": for requests}; kInvalidArgument with
  // file and line. `parameters` "": no such file.
  absl::StatusOr<Json> read_pipeline(absl::string_view path, absl::string_view parameters);

  // A description of a user's ukernel (YAML) and its bitcode, checked: JSON as core/user_ukernel.h has it.
  // kInvalidArgument names the line, or what is wrong with the bitcode.
  absl::StatusOr<Json> check_ukernel(absl::string_view description, absl::string_view bitcode);

  // lathe_compiler_compile's result, or why there is none. What `sink` throws comes out of here.
  virtual absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user) = 0;
  // True once the library is mapped into this process, by whichever context.
  virtual bool mapped() const = 0;
  virtual double load_milliseconds() const = 0;

 private:
  struct Output;
  static void receive(void* user, int kind, const char* name, const uint8_t* data, size_t size);
  // The one JSON that the request is answered with. Errors as of `answer`; where there is none they name
  // `what` was to be read.
  absl::StatusOr<Json> answer_json(const std::string& what, absl::string_view request,
                                   absl::StatusCode refused = absl::StatusCode::kAborted);
  // What the request was answered with; `refused` with the compiler's message, or why there is no answer.
  absl::Status answer(absl::string_view request, Output* out,
                      absl::StatusCode refused = absl::StatusCode::kAborted);
  absl::StatusOr<Artifact> run(absl::string_view request, StageSink stages);
};

}  // namespace lathe
