// The name a kernel has wherever a person meets it: a profiler, a disassembly, the trace, perf's map.
#pragma once

#include <string>

#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

// "lathe_matmul_bf16_bf16_nt_m257to512_n4096_k4096_a16_wgmma_128x256x64_r64x256_t384_s4_c2x1x1": op, class,
// kernel family, then the plan. Two kernels of one target have the same name only if class and config are the
// same. A valid identifier of C, of PTX and of ELF; a function of its arguments alone; rarely over 100
// characters.
//
// The class: dtypes of A, B where it is another ("by_q4_0"), D (matmul_argmax: of a product); scales and zero
// point
// ("sa" of the tensor, "sac" of channels, "za"); layouts of A and B ("n" ROW_MAJOR, "t" COLUMN_MAJOR, "p"
// packed); the range of M (argmax: of a row); N and K; then what is there: "cf32", "biasf32", "resf32", the
// activation (elementwise: D's dtype and "p" with the upper half of the program's digest), "i64" and "val"
// (results of argmax), "rr" and "bi" (determinism run_to_run and batch_invariant), "tf32", "int8" or "bf16"
// math, "pdl" and "pdlb" (dependent launch), "a16" and "byte" (alignment). The plan: the function of a
// ukernel, an external library and its routine; tile MxNxK (no K: not blocked), then what differs from one:
// "r8x4" accumulators of a thread, "u2" steps of K unrolled, "v16" lanes, "t256" threads, "s4" stages,
// "c2x1x1" cluster along M, N and splits, "splits", "splitl" or "splitc" (K may be split; merged by a second
// step, by the last workgroup, within the cluster), "swap", "p132" persistent workgroups, "g8" tiles of M
// before the next of N.
std::string kernel_name(const ProblemClass& c, const CompileConfig& config);

}  // namespace lathe
