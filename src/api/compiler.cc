#include "api/compiler.h"

#include <exception>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/assembler_search.h"
#include "core/facts.h"

namespace lathe {
namespace {

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

absl::StatusOr<Artifact> Compiler::run(absl::string_view request, StageSink stages) {
  Output out{stages, {}, {}, 0, nullptr};
  const absl::StatusOr<int> failed = ask(request, receive, &out);
  if (out.exception) std::rethrow_exception(out.exception);
  if (!failed.ok()) return failed.status();
  if (*failed != 0) {
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

absl::StatusOr<Artifact> Compiler::compile(const CompileRequest& request) {
  return run(request_json(request).dump(), [](absl::string_view, absl::string_view) {});
}

absl::Status Compiler::dump(const CompileRequest& request, absl::string_view pipeline_yaml,
                            StageSink stages) {
  Json json = request_json(request);
  json["dump"] = true;
  if (!pipeline_yaml.empty()) json["pipeline"] = std::string(pipeline_yaml);
  return run(json.dump(), stages).status();
}

}  // namespace lathe
