// matmul_argmax: the matmul's candidate tables without splits, plus the cost of comparing.
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// Appends the rows of the backend's matmul families that accumulate whole tiles. The best pairs of the column
// tiles are merged by a second step or, where the target allows it (may_merge_last), by the workgroup that
// arrives last at its rows.
void enumerate_matmul_argmax(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
