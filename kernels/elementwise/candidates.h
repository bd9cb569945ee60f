// The elementwise families' tables, one function a family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates.h"

namespace lathe {

// CPU "rows": tasks of tile_m rows by tile_n columns, register_n elements of a row at a time.
void enumerate_elementwise_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// GPUs "rows": register_n neighbouring elements a thread, of register_m rows.
void enumerate_elementwise_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

}  // namespace lathe
