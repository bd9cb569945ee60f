// What the kernels folder provides to the compiler for each op: its payload, its recipe and its emitters.
#pragma once

#include <string>
#include <vector>

#include "core/elementwise.h"
#include "core/facts.h"
#include "core/ops.h"
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

struct EmitterRow {
  const char* name;  // the name in YAML pipelines
  llvm::LogicalResult (*emit)(mlir::ModuleOp);
};

struct OpEmitters {
  // The payload as MLIR text, with the plan on its op. Exactly one of the two functions is set: `payload_of` for
  // elementwise ops, which need the program, `payload` for all others.
  std::string (*payload)(const ProblemClass&, const CompileConfig&);
  std::string (*payload_of)(const ProblemClass&, const CompileConfig&, const ElementwiseProgram&);
  Recipe (*recipe)(const ProblemClass&, const CompileConfig&, const Target&, int64_t scratch_bytes);
  std::vector<EmitterRow> emitters;  // those that a pipeline can name
};
// For each op, its row in kernels/<op>/emitters.cc: matmul_emitters() and so on.
#define LATHE_EMITTERS(op, value, name, rows, traits) const OpEmitters& name##_emitters();
LATHE_OPS(LATHE_EMITTERS)
#undef LATHE_EMITTERS
// Null if the op is unknown.
const OpEmitters* emitters_of(Op op);

}  // namespace lathe
