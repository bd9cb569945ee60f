#include "compile_client/compiler.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/assembler_search.h"
#include "core/facts.h"
#include "core/json_object.h"

namespace lathe {
namespace {

Json request_json(const CompileRequest& request) {
  Json json = json_object("class", to_json(request.problem), "config", to_json(request.config), "target",
                          to_json(request.target));
  if (request.assembler != nullptr) json["assemble"] = to_json(*request.assembler);
  if (request.pipeline != nullptr) json["pipeline"] = *request.pipeline;
  if (!request.bitcode.empty()) json["bitcode"] = absl::Base64Escape(request.bitcode);
  if (!request.program.empty()) json["program"] = std::string(request.program);
  return json;
}

}  // namespace

// All that the sink received. It may be called on the compiler's thread, so the stages wait here for the caller's
// thread, and so does the first exception, which must not cross the compiler's stack frames.
struct Compiler::Output {
  std::string artifact, json, error;
  std::vector<std::pair<std::string, std::string>> stages;  // names and texts
  int artifacts = 0, jsons = 0;
  bool refused = false;  // the compiler refused the request; `error` has its message
  std::exception_ptr exception;
};

void Compiler::receive(void* user, int kind, const char* name, const uint8_t* data, size_t size) {
  Output& out = *static_cast<Output*>(user);
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (kind == LATHE_COMPILER_ARTIFACT) {
      out.artifact.assign(bytes.data(), bytes.size());
      ++out.artifacts;
    } else if (kind == LATHE_COMPILER_JSON) {
      out.json.assign(bytes.data(), bytes.size());
      ++out.jsons;
    } else if (kind == LATHE_COMPILER_ERROR) {
      out.error.assign(bytes.data(), bytes.size());
    } else if (kind == LATHE_COMPILER_DUMP) {
      out.stages.emplace_back(name == nullptr ? "" : name, std::string(bytes));
    }
  } catch (...) {
    if (!out.exception) out.exception = std::current_exception();
  }
}

absl::Status Compiler::answer(absl::string_view request, Output* out, absl::StatusCode refused) {
  const absl::StatusOr<int> failed = ask(request, receive, out);
  if (out->exception) std::rethrow_exception(out->exception);
  if (!failed.ok()) return failed.status();
  if (*failed == 0) return absl::OkStatus();
  if (*failed == LATHE_COMPILER_OUT_OF_MEMORY)
    return absl::ResourceExhaustedError("the host has too little memory for the compiler");
  out->refused = true;
  return absl::Status(refused, out->error.empty() ? "the compiler failed without a message" : out->error);
}

absl::StatusOr<Artifact> Compiler::run(absl::string_view request, StageSink stages) {
  Output out;
  const absl::Status answered = answer(request, &out);
  for (const auto& [name, text] : out.stages) stages(name, text);
  LATHE_RETURN_IF_ERROR(answered);
  if (out.artifacts != 1) {
    return absl::InternalError(absl::StrCat("the compiler gave ", out.artifacts, " artifacts, not one"));
  }
  absl::StatusOr<Artifact> artifact = parse_artifact(out.artifact);
  if (!artifact.ok()) {
    return absl::InternalError(absl::StrCat("the compiler's artifact: ", artifact.status().message()));
  }
  return artifact;
}

absl::StatusOr<Json> Compiler::answer_json(const std::string& what, absl::string_view request,
                                           absl::StatusCode refused) {
  Output out;
  const absl::Status answered = answer(request, &out, refused);
  if (out.refused) return answered;
  if (!answered.ok()) return absl::Status(answered.code(), absl::StrCat(what, ": ", answered.message()));
  if (out.jsons != 1) {
    return absl::InternalError(absl::StrCat("the compiler gave ", out.jsons, " JSON answers, not one"));
  }
  absl::StatusOr<Json> json = parse_json(out.json, "the compiler's answer");
  if (!json.ok() || !json->is_object())
    return absl::InternalError(
        absl::StrCat("the compiler's answer: ", json.ok() ? "not an object" : json.status().message()));
  return json;
}

absl::StatusOr<Json> Compiler::read_pipeline(absl::string_view path, absl::string_view parameters) {
  const Json request = json_object("read_pipeline", json_object("path", path, "parameters", parameters));
  return answer_json(absl::StrCat("pipeline ", path), canonical_text(request),
                     absl::StatusCode::kInvalidArgument);
}

absl::StatusOr<Json> Compiler::inspect(absl::string_view name, absl::string_view text) {
  const Json request = json_object("inspect", json_object("name", name, "text", text));
  absl::StatusOr<Json> steps = answer_json(absl::StrCat("payload ", name), canonical_text(request));
  if (!steps.ok()) return steps;
  if (!steps->contains("refused")) return steps;
  absl::Status refusal;
  const absl::StatusOr<bool> read = read_json("the compiler's refusal", [&] {
    const Json& refused = steps->at("refused");
    const std::string why =
        absl::StrCat(text_field(refused, "location"), ": ", text_field(refused, "reason"));
    refusal =
        refused.at("malformed").get<bool>() ? absl::InvalidArgumentError(why) : absl::UnimplementedError(why);
    return true;
  });
  return read.ok() ? refusal : absl::InternalError(read.status().message());
}

absl::StatusOr<Json> Compiler::check_ukernel(absl::string_view description, absl::string_view bitcode) {
  const Json request =
      json_object("ukernel", json_object("description", description, "bitcode", absl::Base64Escape(bitcode)));
  return answer_json("the ukernel", canonical_text(request), absl::StatusCode::kInvalidArgument);
}

absl::StatusOr<Artifact> Compiler::compile(const CompileRequest& request) {
  return run(canonical_text(request_json(request)), [](absl::string_view, absl::string_view) {});
}

absl::Status Compiler::dump(const CompileRequest& request, absl::string_view pipeline_yaml,
                            StageSink stages) {
  Json json = request_json(request);
  json["dump"] = true;
  if (!pipeline_yaml.empty()) json["pipeline"] = json_object("name", "pipeline", "text", pipeline_yaml);
  return run(canonical_text(json), stages).status();
}

}  // namespace lathe
