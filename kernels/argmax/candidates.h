// The argmax families' tables, one function a family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// CPU "rows": register_n vectors of values and of indices in flight along a row, or along a split of it.
void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// CUDA and ROCm "rows": tile_m rows a workgroup, or a chunk of one: register_n elements of a thread in flight
// in unroll_k loads, chunks of at most tile_k.
void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
