// The argmax payload: linalg on tensors, distributed over rows and over splits of a row. The text is the same
// for every target.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// Without a split: one step, tile_m rows per workgroup. With one: every split of every row writes a (value,
// column) pair to the workspace, and a second step merges the pairs of a row (or, in the same launch, the
// workgroup that arrives last at the row does). The reduction's body defines which pair wins; the emitters
// implement the same rule (emit_best.h), so change both together.
std::string argmax_payload(const ProblemClass& c, const CompileConfig& config);
Recipe argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes);

}  // namespace lathe
