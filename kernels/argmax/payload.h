// The argmax payload: linalg on tensors, distributed over rows and splits of a row, the same text for every
// target.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// Without a split: one step, tile_m rows a workgroup. With one: partial (value, column) pairs of every split
// of every row to the workspace, then a step (or, in the same launch, the workgroup that arrives last at its
// row) that merges a row's pairs. The reduction's body states the rule for a reader and a verifier; the
// emitters carry the same rule out vector by vector (emit_best.h) and must be changed with it.
std::string argmax_payload(const ProblemClass& c, const CompileConfig& config);
Recipe argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes);

}  // namespace lathe
