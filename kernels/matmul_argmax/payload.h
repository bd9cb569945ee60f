// The matmul_argmax payload: a matmul, the rounding to the logits' dtype, and a reduction along N, distributed
// over tiles so that only the logits of one tile exist at a time. The text is the same for every target.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// If N is one tile wide, one step writes the indices. Otherwise each column tile writes a (value, column)
// pair for each of its rows to the workspace, and a second step merges the pairs of a row (or, in the same
// launch, the workgroup that arrives last at the rows does). The contraction carries the plan, as in a
// matmul's payload. K is not split.
std::string matmul_argmax_payload(const ProblemClass& c, const CompileConfig& config);
Recipe matmul_argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                            int64_t scratch_bytes);

}  // namespace lathe
