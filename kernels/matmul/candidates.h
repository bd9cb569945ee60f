// The tables of the matmul families, one function per family (kernels/families.cc).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/candidates_model.h"
#include "kernels/candidates_ukernel.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe {

// "dot", "dot_t": CPU, A and B K-contiguous, M <= 64. Rows of B are read once and multiplied with
// register_m rows of A; accumulators are vectors along K. tile_k 0 (M <= 32): A is read in place or copied;
// else it is packed in K blocks.
void enumerate_matmul_dot(const CandidateContext& context, std::vector<RankedPlan>* out);
// "outer": CPU, B N-contiguous, M <= 256. Rows of B along N by register_m scalars of A. Nothing is packed.
void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out);
// "bytes", "bytes_packed", "amx_bytes", "amx_bytes_packed": CPU from AVX2 on, B in quantised blocks, A K-contiguous
// and allowed to be rounded to bytes.
void enumerate_matmul_bytes(const CandidateContext& context, std::vector<RankedPlan>* out);
// "panel", "panel_t", "packed", "direct", "direct_a", "direct_packed": CPU, the blocked loop nest (Goto and van de
// Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008). The panel kernels serve any
// layout and M and pack both operands tile_k deep; "packed" and "direct_packed" read B as lathe_pack_weights stored
// it (core/packed.h); the direct kernels read one K-contiguous operand in place, of f32, pairs of bf16, or bytes
// ("direct" only).
void enumerate_matmul_blocked(const CandidateContext& context, std::vector<RankedPlan>* out);
// "amx", "amx_t", "amx_packed": CPU with AMX, i8 and pairs of bf16, any layout.
void enumerate_matmul_amx(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU micro-kernels in C: that of "panel" over all of K (kernels/matmul/ukernel).
const std::vector<UkernelRow>& matmul_ukernels();
// GPU micro-kernels in C: that of "mma" over all of K (kernels/matmul/ukernel/multi_mma.h).
const std::vector<UkernelRow>& matmul_gpu_ukernels();
// Appends the config, a register tile of "panel", with panels as deep as K, for every task tile.
void append_whole_panels(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out);
// "simt": CUDA, ROCm and SPIR-V, every type, layout and alignment. FMAs on a tile in shared memory, in f32
// (i8: in i32).
void enumerate_matmul_simt(const CandidateContext& context, std::vector<RankedPlan>* out);
// "wgmma": sm_90a, elements of 8 and 16 bits, with scales apart or without, in rows aligned to 16 bytes. Warpgroup
// instructions, fed by TMA.
void enumerate_matmul_wgmma(const CandidateContext& context, std::vector<RankedPlan>* out);
// "tcgen05": sm_100a, MXFP8, MXFP4 and NVFP4 by the same, MXFP8 by MXFP4, aligned rows, M from 64 (groups: any).
void enumerate_matmul_tcgen05(const CandidateContext& context, std::vector<RankedPlan>* out);
// "xegpu": Intel's Xe-HPC and Xe2. dpas, fed by 2-D block loads.
void enumerate_matmul_xegpu(const CandidateContext& context, std::vector<RankedPlan>* out);

// "skinny": CUDA and ROCm, at most 16 rows of A. Streams the weights once.
void enumerate_matmul_skinny(const CandidateContext& context, std::vector<RankedPlan>* out);
// "mma": sm_80 and later, every type but f32 that must not be rounded to tf32. Warp-level tensor cores.
void enumerate_matmul_mma(const CandidateContext& context, std::vector<RankedPlan>* out);

// "mma", "mma32": ROCm, every type and layout that the target has a matrix instruction for
// (matrix_instruction.h).
void enumerate_matmul_mma_rocm(const CandidateContext& context, std::vector<RankedPlan>* out);

// The sizes of one matmul class that prices are computed from.
struct MatmulSizes {
  explicit MatmulSizes(const ProblemClass& c);
  int64_t m, n, k;                            // m: the representative of the bucket
  double input_bytes, b_bytes, output_bytes;  // per element; input: of A, on GPUs of B too
  bool blocks, a_blocks;                      // B, A is in quantised blocks along K
  double decode_cycles;                       // CPU: of a vector of B in blocks (DTypeRow); 0: not in blocks
  bool narrow_a, narrow_b;                    // elements are not f32
  bool batch_invariant;
};

// GPUs: seconds to merge the partial results of `splits`, which stay in L2 if they fit. A second step costs
// a launch and uses all units. With kMergeLast the last workgroup of each of `tiles` pays for a fence and a
// ticket, and reads the parts of its tile alone. The workgroups of a cluster each read a share of the tile
// from the others.
double gpu_merge_seconds(const GpuRates& rates, const MatmulSizes& s, double splits, int32_t split,
                         double tiles);
// GPUs: bytes of A and B that come from memory: each operand once if L2 holds both, otherwise what each
// wave of `slots` workgroups needs. A wave consists of neighbours: `high` tiles along M, then along N, then
// the next split of K.
struct GpuTile {
  double m, n, splits;
};
double gpu_read_bytes(const GpuRates& rates, const MatmulSizes& s, const GpuTile& tile, double slots,
                      double high);
// "mma" on CUDA and ROCm: appends the plan for every split of K worth pricing, and for every way to merge
// it. `predict(splits, split)` gives seconds, `recipe(splits)` the numeric recipe; plan.resident workgroups
// share a unit.
void append_mma_splits(const CandidateContext& context, const MatmulSizes& s, const MmaShape& shape,
                       Plan plan, const std::function<double(int32_t, int32_t)>& predict,
                       const std::function<std::string(int32_t)>& recipe, std::vector<RankedPlan>* out);
// Appends a micro-kernel in C, with the price of the generated kernel of the same tile times
// kUkernelSeconds.
void append_mma_ukernel(const CandidateContext& context, const CompileConfig& config,
                        std::vector<RankedPlan>* out);
void append_mfma_ukernel(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out);
// Above 1, since nothing was measured: a generated kernel is preferred.
inline constexpr double kUkernelSeconds = 1.05;
// Why the family may not serve a batch_invariant request, "" if it may or the request is not
// batch_invariant. One family serves every M, layout and alignment of a weight: "mma" f16 and bf16 if the
// target has it, "simt" everything else. Sums of i8 are exact, so any family may serve them, split or not.
std::string invariance_refusal(const CandidateContext& context, KernelKind family);
inline constexpr char kExactRecipe[] = "products of i8 summed in i32, exact";
// CPU: whether the epilogue of the class is a few multiplications, additions and maxima. Its code may then
// follow every register tile, and sums need no scratch memory (`store_directly` of the config).
bool has_short_epilogue(const ProblemClass& c);
// CPU: why operands of these types are not supported, "" if they are.
std::string operands_refusal(const ProblemClass& c);
// CPU: why a forced split of K is not possible, "" if it is.
std::string forced_split_refusal(const CandidateContext& context);
// CPU: seconds to write the partial results of `splits` and merge them in a second step.
double merge_seconds(const MatmulSizes& s, double splits, double bytes_per_second);
// How many of `lines` lines, `line_bytes` apart, share a set of L1: all if that is a multiple of a way's 4
// KiB.
double lines_a_set(int64_t lines, int64_t line_bytes);
}  // namespace lathe
