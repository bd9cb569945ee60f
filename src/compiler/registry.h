// What the kernels folder provides to the compiler: one row per op and one row per emitter.
#pragma once

#include <string>
#include <vector>

#include "core/elementwise.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace mlir {
class ModuleOp;
}
namespace llvm {
struct LogicalResult;
}

namespace lathe {

struct PayloadRow {
  Op op;
  // The payload as MLIR text, with the plan on its op. Exactly one of the two functions is set: `payload_of` for
  // elementwise ops, which need the program, `payload` for all others.
  std::string (*payload)(const ProblemClass&, const CompileConfig&);
  std::string (*payload_of)(const ProblemClass&, const CompileConfig&, const ElementwiseProgram&);
  Recipe (*recipe)(const ProblemClass&, const CompileConfig&, const Target&, int64_t scratch_bytes);
};
const std::vector<PayloadRow>& payload_rows();

struct EmitterRow {
  const char* name;  // the name in YAML pipelines
  llvm::LogicalResult (*emit)(mlir::ModuleOp);
};
const std::vector<EmitterRow>& emitter_rows();

}  // namespace lathe
