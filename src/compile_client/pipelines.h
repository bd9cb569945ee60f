// A context's own pipelines: what the compiler read of their files, and what that makes of a key.
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
  // Before any device is opened, once. kInvalidArgument names file and line; `parameters` "": no such file.
  absl::Status read(Compiler& compiler, const std::vector<std::string>& paths, const std::string& parameters);

  // What goes into a compile request; null: the built-in one.
  const Json* find(Op op, Backend backend) const;
  // The codegen id of what they make, in every key: Lathe's own where the built-in pipeline is run.
  std::string codegen_of(Op op, Backend backend) const;
  // Of all of them, for a device's fingerprint; null: there are none.
  Json digests() const;

 private:
  struct Own {
    Json request;
    std::string digest;
  };
  std::map<std::string, Own> by_name_;  // "matmul.cpu"
};

}  // namespace lathe
