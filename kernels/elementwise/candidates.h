// The candidate tables of elementwise, one function per family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// CPU "rows": tasks of tile_m rows by tile_n columns, register_n elements of a row at a time.
void enumerate_elementwise_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// GPU "rows": a thread takes register_n adjacent elements from each of register_m rows.
void enumerate_elementwise_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
