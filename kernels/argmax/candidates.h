// The argmax families' tables, one function a family (rows of kernels/families.cc).
#pragma once

#include "kernels/candidates_ukernel.h"

namespace lathe {

// CPU "rows": register_n vectors of values and of indices in flight along a row, or along a split of it.
void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out);
// CUDA and ROCm "rows": tile_m rows a workgroup, or a chunk of one: register_n elements of a thread in flight
// in unroll_k loads, chunks of at most tile_k.
void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out);

// CPU: a whole row, or a chunk of it. GPUs: the same by a wave or a workgroup.
const std::vector<UkernelRow>& argmax_ukernels();

// The rows, and the length of each, that a class is priced at.
int64_t representative_rows(const ProblemClass& c);
double representative_length(const ProblemClass& c);
// Whether long rows of the class may be split.
bool splits_rows(const ProblemClass& c);
// What a CPU kernel's scan of a row costs in cycles: of a vector of f32's lanes, and at a task's end; and
// whether it reads parts of the row side by side.
struct ScanCycles {
  double vector, end;
  bool in_parts = false;
  double reading = 1;  // of one stream's rate
};
// Appends the config once for every wanted number of splits.
void append_cpu_rows(const CandidateContext& context, const CompileConfig& config, const ScanCycles& cycles,
                     std::vector<RankedPlan>* out);
// A GPU kernel of `threads` a workgroup, `waves` of them a row (0: all), `unroll` loads of a thread in
// flight.
struct GpuRow {
  int32_t threads, waves, unroll;
};
// Its tiling; `kernel` is left empty.
CompileConfig gpu_rows(const CandidateContext& context, const GpuRow& row);
// Appends the config once for every wanted number of splits and each way to merge them, or why it is none.
// `end_seconds`: what a workgroup takes beside what a generated kernel's does.
void append_gpu_rows(const CandidateContext& context, CompileConfig config, double end_seconds,
                     std::vector<RankedPlan>* out);

}  // namespace lathe
