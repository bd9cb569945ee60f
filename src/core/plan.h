// The oracle's answer. CompileConfig shapes the bytes and is in the key; LaunchPolicy is what the launch
// needs to know to make a LaunchConfig from the true sizes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// Code from outside of the emitters that a kernel is built around (kernels/candidates_ukernel.h), as
// #lathe.ukernel names it on the payload op. All "": none.
struct UkernelRef {
  std::string function;  // defined by the bitcode
  std::string
      bitcode;  // "argmax/rows@x86-64-v4": a file of kernels/<op>/ukernel and the target it was compiled for
  std::string attributes;  // of the function, as LLVM spells them, space-separated: "alwaysinline nounwind"
  bool operator==(const UkernelRef& o) const;
};

// An external library's routine that does the op, as #lathe.external names it on the payload op. All "":
// none.
struct ExternalRef {
  std::string provider;  // core/external.h: "openblas"
  std::string routine;   // "cblas_sgemm"
  bool operator==(const ExternalRef& o) const { return provider == o.provider && routine == o.routine; }
};

constexpr int32_t kMostPace = 4096;

// How a kernel is built. Every field is written into #lathe.kernel_config (`ukernel` into #lathe.ukernel,
// `external` into #lathe.external) on the payload op; the passes read it there.
struct CompileConfig {
  // matmul on CPU: "dot" (rows of B streamed once against the rows of A; B K-contiguous), "dot_t" (the same
  //   of the transposed product: rows of A streamed against those of B), "outer" (rows of B streamed along N;
  //   B N-contiguous), "panel" (packed panels, outer product), "panel_t" (the same of the transposed product:
  //   B's columns read as scalars, A's rows as vectors), "direct" (the same, B read where it lies),
  //   "direct_a" (as "panel", A read where it lies), "packed" (panels that B comes in; core/packed.h),
  //   "direct_packed" (these made into f32 ones, A read where it lies),
  //   "bytes" (A rounded to bytes against B in blocks), "amx", "amx_t", "amx_packed" (AMX's tiles, of rows of
  //   A by panels of B, of the transposed product, and by panels that B comes in). matmul on GPU: "simt"
  //   (FMAs), "mma" (warp-level tensor cores), "wgmma" (Hopper's warpgroups and tensor copies), "skinny" (few
  //   rows of A against weights streamed once).
  // Every op: "ukernel" (as `ukernel` says), "external" (as `external` does: no code of Lathe's own).
  // argmax: "rows" (GPU: register_n elements of a row in flight in unroll_k loads of a thread, tile_n of a
  //   row in all its threads; tile_k is the longest chunk of a row where it may be split).
  std::string kernel;
  int32_t tile_m = 0, tile_n = 0;  // of one workgroup or CPU task
  int32_t tile_k = 0;              // K blocking: packed panels' depth, shared memory's depth, rows of B that
                                   // "outer" reads along a task's columns
  // Accumulators of one thread: rows by columns of D. On the CPU the side kept in vectors is lanes * vectors
  // elements: register_n of "outer", "panel", "direct_a", "*packed", "bytes" and "rows", register_m of
  // "panel_t" and "direct"; "amx*" keep tiles of 16 by 16. "dot" and "dot_t" keep their vectors along K:
  // register_n counts columns of D (rows of B as it lies in memory). "mma": of one warp.
  int32_t register_m = 0, register_n = 0;
  int32_t unroll_k = 1;
  int32_t lanes = 1;    // CPU: f32 lanes of a vector
  int32_t threads = 1;  // GPU: threads of a workgroup
  // Shared-memory buffers in flight; "dot", "dot_t", "direct*", "outer", "bytes", "amx*": CpuFetch
  // (kernels/matmul/cpu_shape.h).
  int32_t stages = 1;
  // Whether the kernel may be launched with splits > 1, and who then merges the partial results, always in
  // ascending order: kNoSplit, kMergeStep (a second step of the recipe), kMergeLast (the workgroup that
  // arrives last, in the same launch: GPUs), kMergeCluster (the workgroups of a cluster through each other's
  // shared memory: sm_90 and later).
  int32_t split = 0;
  int32_t cluster_m = 1, cluster_n = 1,
          cluster_k = 1;   // workgroups of a cluster along M, N and the splits of K
  int32_t swap = 0;        // 1: the transposed product, so that N lies along the matrix instruction's rows
  int32_t persistent = 0;  // workgroups launched, each taking several tiles; 0: one a tile
  int32_t raster =
      0;  // tiles along M that are visited before the next along N, for L2's sake; 0: in launch order
  // CPU, "dot", "dot_t", "outer", "packed": cycles that a turn of the innermost loop takes at least, so that
  // it is no faster than memory (kernels/matmul/cpu_shape.h), kMostPace at most; 0: as few as it takes
  int32_t pace = 0;
  UkernelRef ukernel = {};
  ExternalRef external = {};
  bool operator==(const CompileConfig& o) const;
};
enum Split : int32_t { kNoSplit = 0, kMergeStep = 1, kMergeLast = 2, kMergeCluster = 3 };
// Rows of D that one workgroup merges in a matmul's second step: enough to give each thread four columns. On
// the CPU, where a task has one thread, the result is 1.
inline int32_t merge_rows(int32_t threads, int32_t tile_n) { return std::max(1, 4 * threads / tile_n); }
Json to_json(const CompileConfig& c);
absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j);

struct LaunchPolicy {
  int32_t splits =
      1;  // wanted; normalised per launch (argmax: of all rows together). > 1 only with CompileConfig::split
};

struct Plan {
  CompileConfig config;
  LaunchPolicy launch;
  double predicted_seconds = 0;
  // GPU: workgroups that the prediction has on a compute unit at a time; 0: it does not ask.
  int32_t resident = 0;
  std::string numeric_recipe;  // "fma f32; K ascending in blocks of 256; 1 split; no merge"
};

struct RankedPlan {
  Plan plan;
  std::string rejection;  // "" if legal, else the reason: "smem 262144 > 232448"
};

}  // namespace lathe
