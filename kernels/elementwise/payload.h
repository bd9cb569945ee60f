// The elementwise payload: one linalg.generic whose body is the program, distributed over tiles of M and N
// and over the batch. The text is the same for every target.
#pragma once

#include <string>

#include "core/elementwise.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/recipe.h"

namespace lathe {

// Inputs are tensors (batch, m, n), or (batch, n, m) if they lie along M; dimensions that they lack have
// extent 1. The bias is a tensor of n.
std::string elementwise_payload(const ProblemClass& c, const CompileConfig& config,
                                const ElementwiseProgram& program);
Recipe elementwise_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                          int64_t scratch_bytes);

}  // namespace lathe
