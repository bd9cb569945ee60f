// The matmul families' tables, one function a family (rows of kernels/families.cc).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/candidates_model.h"
#include "kernels/candidates_ukernel.h"
#include "kernels/matmul/mma/shape.h"

namespace lathe {

// CPU, B K-contiguous and A K-contiguous, M <= 64: rows of B are read once, each vector of B against
// register_m rows of A, sums kept as vectors along K. register_n counts columns of D, which are rows of B as
// it lies in memory, not vectors' lanes. tile_k 0 (M <= 32): nothing is packed; else A is, in blocks of
// tile_k.
void enumerate_matmul_dot(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, B N-contiguous, M <= 256: rows of B along N under register_m scalars of A. Nothing is packed.
void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, B stored in blocks, A K-contiguous and allowed to be rounded to bytes, M <= 64: AVX512-VNNI on sixteen
// columns at a time.
void enumerate_matmul_bytes(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, any layout and M: A and B packed into panels tile_k deep, then an outer-product micro-kernel (Goto and
// van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008). Two forms:
//   "panel"    A's rows as scalars, B's columns as vectors: register_m = scalars, register_n = lanes *
//   vectors; "panel_t"  the transposed product, B's columns as scalars, A's rows as vectors: register_m =
//   lanes * vectors,
//              register_n = scalars.
void enumerate_matmul_panel(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, f32, and pairs of bf16 or four bytes where an instruction multiplies them: "direct", as "panel_t" but
// for B, K-contiguous, which is read where it lies; "direct_a", not of bytes, as "panel" but for A,
// K-contiguous, by few columns; "direct_packed", the same of f32 by any columns that come packed.
void enumerate_matmul_direct(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, B packed by lathe_pack_weights (core/packed.h), any layout of A and any M: A's rows are packed along K
// and read as scalars, B's panels as vectors as they come. register_n: lanes * vectors, whole panels.
void enumerate_matmul_packed(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU, AMX, i8 and bf16 multiplied in pairs: its tiles, any layout. "amx", A's rows as tiles' lines, B's
// columns in panels; "amx_t", the transposed product; "amx_packed", A's rows by the panels that B comes in.
void enumerate_matmul_amx(const CandidateContext& context, std::vector<RankedPlan>* out);
// CPU ukernels: the inner kernel of "panel" over all of K (kernels/matmul/ukernel).
const std::vector<UkernelRow>& matmul_ukernels();
// GPU ukernels: the inner kernel of "mma" over all of K (kernels/matmul/ukernel/multi_mma.h).
const std::vector<UkernelRow>& matmul_gpu_ukernels();
// Appends the config, a register tile of that form, for every task tile, its panels as deep as K.
void append_whole_panels(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out);
// CUDA, ROCm and SPIR-V, every type, layout and alignment: FMAs from a shared-memory tile, in f32 (i8: in
// i32).
void enumerate_matmul_simt(const CandidateContext& context, std::vector<RankedPlan>* out);
// sm_90a, f16 and bf16 with 16-byte aligned rows: warpgroup products fed by tensor copies.
void enumerate_matmul_wgmma(const CandidateContext& context, std::vector<RankedPlan>* out);
// Intel's Xe-HPC and Xe2: dpas fed by two-dimensional block loads.
void enumerate_matmul_xegpu(const CandidateContext& context, std::vector<RankedPlan>* out);

// CUDA and ROCm: at most 16 rows of A against weights streamed once.
void enumerate_matmul_skinny(const CandidateContext& context, std::vector<RankedPlan>* out);
// sm_80 and later: warp-level tensor cores, of every type but f32 that must not be rounded to tf32.
void enumerate_matmul_mma(const CandidateContext& context, std::vector<RankedPlan>* out);

// ROCm: matrix instructions, of every type and layout that the target has one for (matrix_instruction.h).
void enumerate_matmul_mma_rocm(const CandidateContext& context, std::vector<RankedPlan>* out);

// A plan's working size of one matmul class, and what the CPU families share.
struct MatmulSizes {
  explicit MatmulSizes(const ProblemClass& c);
  int64_t m, n, k;                            // m: the representative of the bucket
  double input_bytes, b_bytes, output_bytes;  // of one element; input: of A, on GPUs of B as well
  bool blocks;                                // B is decoded from blocks along K
  bool narrow_a, narrow_b;                    // elements are no f32
  bool batch_invariant;
};

// GPUs: merging the partial results of `splits`, which lie in L2 when they fit it. A second step costs a
// launch and is spread over all units; the last-arriving workgroup of each of `tiles` costs a round trip of
// its fence and ticket, and reads its tile's parts alone; a cluster's workgroups each read their share of the
// tile from the others.
double gpu_merge_seconds(const GpuRates& rates, const MatmulSizes& s, double splits, int32_t split,
                         double tiles);
// Bytes of A and B that come from memory: each operand once where L2 holds both, else what each wave of
// `slots` workgroups needs, which are neighbours: `high` tiles along M, then along N, then the next split of
// K.
struct GpuTile {
  double m, n, splits;
};
double gpu_read_bytes(const GpuRates& rates, const MatmulSizes& s, const GpuTile& tile, double slots,
                      double high);
// "mma" on CUDA and ROCm: appends the plan for every split of K worth pricing, and whoever may merge it,
// where plan.resident workgroups share a unit. `predict(splits, split)` gives seconds, `recipe(splits)` the
// numeric recipe.
void append_mma_splits(const CandidateContext& context, const MatmulSizes& s, const MmaShape& shape,
                       Plan plan, const std::function<double(int32_t, int32_t)>& predict,
                       const std::function<std::string(int32_t)>& recipe, std::vector<RankedPlan>* out);
// A ukernel's config, a tile of that form: as the generated kernel of that tile is priced, and
// kUkernelSeconds of it.
void append_mma_ukernel(const CandidateContext& context, const CompileConfig& config,
                        std::vector<RankedPlan>* out);
void append_mfma_ukernel(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out);
// Nothing was measured: what hardware has not shown to be faster is not chosen before what is generated.
inline constexpr double kUkernelSeconds = 1.05;
// Why the family may not serve a batch_invariant request, "" if it may or the request is another. One family
// serves every M, layout and alignment of a weight: "mma" f16 and bf16 where there is one, "simt" everything
// else. Sums of i8 are exact: any family's, split or not, are the same.
std::string invariance_refusal(const CandidateContext& context, absl::string_view family);
inline constexpr char kExactRecipe[] = "products of i8 summed in i32, exact";
// CPU: cycles that a vector of B's elements out of blocks costs on its way to f32: bytes widened, a shift, a
// permutation, and a block's scale, widened and multiplied with the table, on its share of the vectors.
constexpr double kDecodeCycles = 3;
// CPU: why operands of such a type are not multiplied, "" if they are.
std::string operands_refusal(const ProblemClass& c);
// CPU: why a forced split of K cannot be, "" if it can.
std::string forced_split_refusal(const CandidateContext& context);
// Writing the partial results of `splits` and merging them in a second step.
double merge_seconds(const MatmulSizes& s, double splits, double bytes_per_second);
// Of lines so far apart, those that fall into the same set of L1: all where that is a multiple of a way's 4
// KiB.
double lines_a_set(int64_t lines, int64_t line_bytes);
// CPU: whether half of L1 holds A, B and D. What such a product takes is arithmetic alone.
bool is_tiny(const CpuRates& rates, const MatmulSizes& s);
// CPU: rows that a mean M of the bucket is padded to in tiles of `width`, over those in tiles of `narrow`. Of
// the open bucket next to none.
double row_padding(const ProblemClass& c, int64_t width, int64_t narrow);
// CPU: rows of a tiny product in tiles of `width` over those of its largest M, which counts as much as the
// bucket's mean (20 cubed: 16 rows 474 ns, 7 rows 345; 32 cubed: 8 rows 672, 6 rows, one of which is left
// over, 764).
double tiny_padding(const ProblemClass& c, const MatmulSizes& s, int64_t width);

}  // namespace lathe
