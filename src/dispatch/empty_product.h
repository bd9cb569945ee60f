// The result of a product with K = 0: the epilogue of a zero product, computed on the host without a kernel. The
// operands must be in host memory.
#pragma once

#include "core/args.h"
#include "core/problem.h"

namespace lathe {

// Writes D element by element. Computes in f32 with the host's libm and rounds once at the store. m, n and batch
// in `args` may be 0. A and B are not read. For matmul_argmax it writes indices and values.
void run_empty_product(const ProblemClass& problem, const ArgumentBlock& args);

}  // namespace lathe
