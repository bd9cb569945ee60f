// What an AMD compute unit makes of a kernel's code object: how many workgroups share it, and what fraction
// of a peak its inner loop allows. Predictions by a model, never measurements.
//
// Residency is exact arithmetic on what a code object asks for (LLVM's AMDGPU usage guide, "Kernel
// Descriptor", and the CDNA2 to 4 and RDNA3 and 4 instruction set guides: registers of a SIMD, waves, LDS and
// their granules).
//
// The issue model takes the inner loop of one wave and asks what a compute unit's parts need for one pass of
// all resident waves; the slowest decides, and a barrier is added:
//   matrix    cycles of each matrix instruction (kernels/matmul/matrix_instruction.h has sources), waves of a
//             SIMD one after the other
//   vector    4 cycles an instruction of a wave of 64 on CDNA's 16 lanes, 1 of a wave of 32 on RDNA's 32
//             (CDNA3 and RDNA3 instruction set guides; LDS and memory instructions are issued likewise), four
//             times that for products of 32-bit integers
//   one wave  issues an instruction in 4 cycles (CDNA) or 1 (RDNA), whatever it is for
//   LDS       128 bytes a cycle (CDNA3 instruction set guide), 256 on gfx950 (CDNA4 white paper)
//   L1        64 bytes a cycle of a compute unit (CDNA3 white paper)
//   latency   of a load, for loads of a pass over loads under way (from the loop's waits): of L2 and Infinity
//             Cache where operands are shared by workgroups, of memory where they are streamed (estimates)
// The fraction is of the matrix rate where the loop has matrix instructions, of the memory's rate where a
// plan streams its operands once, and else of the FMA rate. Not in it: bank conflicts, caches' misses, the
// way in and out, and the last wave of workgroups; the oracle's price has estimates of those.
#pragma once

#include <string>

#include "amd_listing.h"
#include "code_facts.h"
#include "core/facts.h"

namespace lathe {

// Workgroups of a compute unit at a time; halves where two units share LDS and waves (RDNA).
double resident_workgroups(const KernelFacts& kernel, int64_t threads, const Target& target);

enum class Bound { kMatrix, kMemory, kFma };
struct LoopQuestion {
  LoopCounts loop;
  int64_t threads = 0;
  double resident = 0;        // workgroups
  double matrix_cycles = 0;   // of one matrix instruction
  Bound bound = Bound::kFma;  // what the fraction is of
};
// Above 0, at most 1.
double predicted_fraction(const LoopQuestion& q, const DeviceFacts& facts);
const char* name_of(Bound bound);

}  // namespace lathe
