// Compile requests through liblathe-compiler's C boundary.
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
  std::string artifact;                         // serialized
  std::string program;                          // JSON
  std::map<std::string, std::string> dumps;     // file name -> text
  int artifacts = 0, programs = 0, errors = 0;  // how often each was sent
};

CompilerAnswer compile_bytes(const std::string& request);
// `pipeline` "": the built-in one.
CompilerAnswer compile(const ProblemClass& c, const CompileConfig& config, const Target& target,
                       bool dump = false, const std::string& pipeline = "");
// The artifact's code; fails the test if the answer has none.
std::string code_of(const CompilerAnswer& answer);

// The first dump whose file name ends so; fails the test if there is none.
const std::string& dump_of(const CompilerAnswer& answer, const std::string& ending);

// matmul f32, A row-major, B stored N by K, of the bucket that holds m.
ProblemClass matmul_class(int64_t m, int64_t n, int64_t k);
// A legal config of each CPU kernel for the target's vector length.
CompileConfig cpu_config(const std::string& kernel, const Target& target);
CompileConfig simt_config();  // of any GPU

}  // namespace lathe::testing
