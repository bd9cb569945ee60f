#include "compile_client/pipelines.h"

#include <iterator>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "compile_client/compiler.h"
#include "core/json_object.h"
#include "core/key.h"

namespace lathe {
namespace {

std::string name_for(Op op, Backend backend) { return absl::StrCat(name_of(op), ".", name_of(backend)); }

// Covers all that shapes code. The paths of the files have no effect.
std::string digest_of(const Json& request) {
  Json shaping = json_object("text", request.at("text"), "schedules", request.at("schedules"));
  if (request.contains("parameters")) shaping["parameters"] = request["parameters"].at("text");
  return key_from_text(canonical_text(shaping)).fingerprint;
}

}  // namespace

absl::Status Pipelines::read(Compiler& compiler, const std::vector<std::string>& paths,
                             const std::string& parameters) {
  using Unused = std::map<std::string, std::string>;
  std::optional<Unused> unused;  // parameters that none of the pipelines uses
  for (const std::string& path : paths) {
    LATHE_ASSIGN_OR_RETURN(const Json answer, compiler.read_pipeline(path, parameters));
    LATHE_ASSIGN_OR_RETURN(const Unused by_this, read_json("the compiler's pipeline", [&] {
                             return answer.at("unused").get<Unused>();
                           }));
    if (!unused) unused = by_this;
    for (auto at = unused->begin(); at != unused->end();)
      at = by_this.count(at->first) ? std::next(at) : unused->erase(at);
    LATHE_ASSIGN_OR_RETURN(
        auto own, read_json("the compiler's pipeline", [&] {
          const Json& request = answer.at("pipeline");
          return std::make_pair(text_field(answer, "for"), Own{request, digest_of(request)});
        }));
    if (!by_name_.insert(own).second)
      return absl::InvalidArgumentError(absl::StrCat(path, ":1: a second pipeline for ", own.first));
  }
  if (unused && !unused->empty())
    return absl::InvalidArgumentError(
        absl::StrCat(unused->begin()->second, " of ", absl::StrJoin(paths, " or ")));
  return absl::OkStatus();
}

const Json* Pipelines::find(Op op, Backend backend) const {
  const auto at = by_name_.find(name_for(op, backend));
  return at == by_name_.end() ? nullptr : &at->second.request;
}

std::string Pipelines::codegen_of(Op op, Backend backend) const {
  const auto at = by_name_.find(name_for(op, backend));
  return at == by_name_.end() ? std::string(codegen_id())
                              : absl::StrCat(codegen_id(), "+pipeline:", at->second.digest);
}

Json Pipelines::digests() const {
  Json json;
  for (const auto& [name, own] : by_name_) json[name] = own.digest;
  return json;
}

}  // namespace lathe
