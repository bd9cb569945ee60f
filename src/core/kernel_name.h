// The symbol name of a kernel, as people see it in profilers, disassemblies, the trace and perf maps.
#pragma once

#include <string>

#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

// Example: "lathe_matmul_bf16_bf16_nt_m257to512_n4096_k4096_a16_wgmma_128x256x64_r64x256_t384_s4_c2x1x1".
// The parts are the op, the class, the kernel family and the plan. Two kernels for the same target have the
// same name only if their class and config are equal. The name is a valid identifier in C, PTX and ELF, and
// rarely longer than 100 characters.
//
// The class, in this order; optional parts are absent if they have their default:
//   dtypes       of A, of B if it differs ("by_q4_0"); scales and zero points ("sa" per tensor, "sac" per
//                channel, "za", "zb", "zbc"); then of D (matmul_argmax: of the logits). An elementwise op has
//                D's dtype and "p" with the upper half of the program's digest.
//   layouts      of A and B: "n" ROW_MAJOR, "t" COLUMN_MAJOR, "p" packed
//   sizes        the range of M (argmax: of the row length), N and K; "generic" for a generic kernel
//   epilogue     "cf32", "biasf32", "resf32" or "timesf32", the activation; for the argmax ops the index dtype and "val"
//                if values are written
//   determinism  "rr" run_to_run, "bi" batch_invariant
//   math         "tf32", "int8", "bf16"
//   launch       "pdl", "pdlb": dependent launch, and with a constant B
//   alignment    "a16", "byte"
// The plan: kernel family; the function of a ukernel, or an external library and its routine; the tile MxN or
// MxNxK; then everything that differs from its default:
//   "r8x4" accumulators    "u2" unrolled steps of K    "v16" vector lanes    "t256" threads    "s4" stages
//   "c2x1x1" cluster along M, N and K splits    "p132" persistent workgroups    "g8" raster    "y12" pace
//   "split1", "split2", "split3" K may be split, merged by a second step, by the last workgroup, within the cluster
// All letters are in core/kernel_configs.h.
std::string kernel_name(const ProblemClass& c, const CompileConfig& config);

}  // namespace lathe
