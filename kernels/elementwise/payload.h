// The elementwise payload: one linalg.generic whose body is the program, distributed over tiles of M and N
// and the batch, the same text for every target.
#pragma once

#include <string>

#include "core/elementwise.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/recipe.h"

namespace lathe {

// Inputs are tensors of three dimensions, those that they lack of extent 1: (batch, m, n), or (batch, n, m)
// along M; the bias is one of n.
std::string elementwise_payload(const ProblemClass& c, const CompileConfig& config,
                                const ElementwiseProgram& program);
Recipe elementwise_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                          int64_t scratch_bytes);

}  // namespace lathe
