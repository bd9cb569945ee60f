// matmul_argmax: the matmul's tables, without splits, and what comparing costs.
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// Every row of the backend's matmul families that sums a tile whole. The recipe's second step, or the
// workgroup that arrives last at its rows (CUDA), merges the candidates of column tiles.
void enumerate_matmul_argmax(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
