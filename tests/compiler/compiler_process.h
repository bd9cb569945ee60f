// Sends compile requests through the C interface of liblathe-compiler.
#pragma once

#include <map>
#include <string>

#include "core/artifact.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe::testing {

struct CompilerAnswer {
  int code = -1;
  std::string error;
  std::string artifact;                         // serialised
  std::string program;                          // JSON
  std::map<std::string, std::string> dumps;     // from file name to text
  int artifacts = 0, programs = 0, errors = 0;  // how many of each were sent
};

CompilerAnswer compile_bytes(const std::string& request);
// An empty `pipeline` means the built-in one.
CompilerAnswer compile(const ProblemClass& c, const CompileConfig& config, const Target& target,
                       bool dump = false, const std::string& pipeline = "");
// The code of the artifact. Fails the test if there is no artifact.
std::string code_of(const CompilerAnswer& answer);

// The first dump whose file name has this ending. Fails the test if there is none.
const std::string& dump_of(const CompilerAnswer& answer, const std::string& ending);

// A matmul in f32 with row-major A and B stored N by K, for the bucket that contains m.
ProblemClass matmul_class(int64_t m, int64_t n, int64_t k);
// A legal config of a CPU kernel for the target's vector length.
CompileConfig cpu_config(const std::string& kernel, const Target& target);
CompileConfig simt_config();  // legal on every GPU

}  // namespace lathe::testing
