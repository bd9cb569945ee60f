// The argmax families' tables, one function a family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// CPU "rows": register_n vectors of values and of indices in flight along a row, or along a split of it.
void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// CUDA and ROCm "rows": one workgroup a row, or a split of it.
void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
