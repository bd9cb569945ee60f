// What the kernels folder offers the compiler: one row an op, one row an emitter.
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

struct OpRow {
  Op op;
  // MLIR text of the payload, the plan written on its op. One of both: an elementwise op's is made of its
  // program.
  std::string (*payload)(const ProblemClass&, const CompileConfig&);
  std::string (*payload_of)(const ProblemClass&, const CompileConfig&, const ElementwiseProgram&);
  Recipe (*recipe)(const ProblemClass&, const CompileConfig&, const Target&, int64_t scratch_bytes);
};
const std::vector<OpRow>& op_rows();

struct EmitterRow {
  const char* name;  // as the YAML pipelines call it
  llvm::LogicalResult (*emit)(mlir::ModuleOp);
};
const std::vector<EmitterRow>& emitter_rows();

}  // namespace lathe
