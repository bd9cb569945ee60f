// The matmul_argmax payload: a matmul, its rounding to the logits' dtype and a reduction along N, distributed
// over tiles, so that the logits of one tile are all there ever is of them; the same text for every target.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// Where N is one tile wide, one step to the indices. Else one (value, column) pair of every row of every
// column tile to the workspace, then a step (or, in the same launch, the workgroup that arrives last at its
// rows) that merges a row's pairs. The contraction carries the plan, as in a matmul's payload; its splits are
// none.
std::string matmul_argmax_payload(const ProblemClass& c, const CompileConfig& config);
Recipe matmul_argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                            int64_t scratch_bytes);

}  // namespace lathe
