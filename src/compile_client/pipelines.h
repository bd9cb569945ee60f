// The user's pipelines of a context, as the compiler read them from files, and their part in keys.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/json.h"
#include "core/problem.h"

namespace lathe {

class Compiler;

class Pipelines {
 public:
  // Call this once, before a device is opened. kInvalidArgument names file and line. `parameters` "": no parameter
  // file.
  absl::Status read(Compiler& compiler, const std::vector<std::string>& paths, const std::string& parameters);

  // The pipeline for compile requests. Null: the built-in one.
  const Json* find(Op op, Backend backend) const;
  // The codegen id for keys: Lathe's own for the built-in pipeline; otherwise it includes a digest of the user's.
  std::string codegen_of(Op op, Backend backend) const;
  // The digests of all pipelines, for a device's fingerprint. Null if there are none.
  Json digests() const;

 private:
  struct Own {
    Json request;
    std::string digest;
  };
  std::map<std::string, Own> by_name_;  // "matmul.cpu"
};

}  // namespace lathe
