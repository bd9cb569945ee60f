// The candidate tables of argmax, one function per family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates_ukernel.h"

namespace lathe {

// CPU "rows": register_n values along a row, or along a split of it, in flight as vectors of values and of columns.
void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// GPU "rows": tile_m rows per workgroup, or a chunk of one row. A thread has register_n elements in flight,
// in `loads` loads. A chunk has at most `chunk` elements.
void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

// CPU: scans a whole row or a chunk of it. GPUs: the same, by a wave or by a workgroup.
const std::vector<UkernelRow>& argmax_ukernels();

// The number of rows and their length at which a class is priced.
int64_t representative_rows(const ProblemClass& c);
double representative_length(const ProblemClass& c);
// Whether long rows of the class may be split.
bool splits_rows(const ProblemClass& c);
// Cost of a CPU kernel's scan of a row: cycles for as many elements as a vector has f32 lanes, cycles at the
// end of a task, and whether it reads parts of the row side by side.
struct ScanCycles {
  double vector, end;
  bool in_parts = false;
  double reading = 1;  // share of one stream's rate
};
// Appends the config once for every number of splits worth pricing.
void append_cpu_rows(const CandidateContext& context, const CompileConfig& config, const ScanCycles& cycles,
                     std::vector<RankedPlan>* out);
// A GPU kernel with `threads` per workgroup, `waves` of them per row (0: all), and `unroll` loads of a thread
// in flight.
struct GpuRow {
  int32_t threads, waves, unroll;
};
// The tiling of such a kernel.
GpuRowsConfig gpu_rows(const CandidateContext& context, const GpuRow& row);
// Appends the config for every number of splits worth pricing and each way to merge them, or a rejected plan
// with the reason. `ukernel`: empty for a generated kernel. `end_seconds`: what a workgroup takes in addition to
// one of a generated kernel.
void append_gpu_rows(const CandidateContext& context, GpuRowsConfig config, const UkernelRef& ukernel,
                     double end_seconds, std::vector<RankedPlan>* out);

}  // namespace lathe
