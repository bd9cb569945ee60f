// The matmul payload (linalg on tensors, the same text for every target) and the recipe that launches its
// steps.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// MLIR text of a module with one function, D = epilogue(A B). The plan is an attribute of the
// linalg.batch_matmul.
std::string matmul_payload(const ProblemClass& c, const CompileConfig& config);
// `scratch_bytes`: scratch memory of one CPU worker, as reported by the emitter.
Recipe matmul_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes);

}  // namespace lathe
