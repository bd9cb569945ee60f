// A model of an AMD compute unit: how many workgroups of a kernel share it, and what fraction of a peak the inner loop
// allows. These are predictions, never measurements.
//
// Residency is exact arithmetic with the resources that a code object requests and those of a SIMD (LLVM's AMDGPU usage
// guide, "Kernel Descriptor"; instruction set guides of CDNA2 to 4 and RDNA3 and 4).
//
// The issue model takes the inner loop of one wave and computes the cycles that each part of the compute unit needs for
// one pass of all resident waves. The slowest part decides; barriers are added:
//   matrix    the cycles of each matrix instruction (sources: kernels/matmul/matrix_instruction.h); the waves of a SIMD
//             run one after the other
//   vector    per instruction 4 cycles for a wave of 64 on CDNA, 1 for a wave of 32 on RDNA; LDS and memory
//             instructions too; four times that for products of 32-bit integers (instruction set guides)
//   one wave  issues one instruction of any kind per 4 cycles (CDNA) or 1 cycle (RDNA)
//   LDS       128 bytes per cycle (CDNA3 instruction set guide), 256 on gfx950 (CDNA4 white paper)
//   L1        64 bytes per cycle and compute unit (CDNA3 white paper)
//   latency   of a load (an estimate), times loads per pass, divided by the loads in flight; the latency of L2 and
//             Infinity Cache if workgroups share the operands, of memory if they are streamed
// The result is a fraction of the matrix rate if the loop has matrix instructions, of the memory rate if the plan
// streams its operands once, else of the FMA rate. Not modelled: bank conflicts, cache misses, prologue and epilogue,
// and the last wave of workgroups. The oracle's price estimates those.
#pragma once

#include <string>

#include "amd_listing.h"
#include "code_facts.h"
#include "core/facts.h"

namespace lathe {

// Workgroups that share a compute unit. A multiple of one half where two units share LDS and waves (RDNA).
double resident_workgroups(const KernelFacts& kernel, int64_t threads, const Target& target);

enum class Bound { kMatrix, kMemory, kFma };
struct LoopQuestion {
  LoopCounts loop;
  int64_t threads = 0;
  double resident = 0;        // workgroups
  double matrix_cycles = 0;   // of one matrix instruction
  Bound bound = Bound::kFma;  // the peak that the fraction refers to
};
// Greater than 0, at most 1.
double predicted_fraction(const LoopQuestion& q, const DeviceFacts& facts);
const char* name_of(Bound bound);

}  // namespace lathe
