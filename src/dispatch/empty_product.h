// The result of a matmul with K == 0: the epilogue of a zero product. No kernel is involved; host memory
// only.
#pragma once

#include "core/args.h"
#include "core/problem.h"

namespace lathe {

// Writes D element by element, in f32 with the host's libm, rounded once at the store. m, n and batch of
// `args` may be any size >= 0; K's operands are not read.
void run_empty_product(const ProblemClass& problem, const ArgumentBlock& args);

}  // namespace lathe
