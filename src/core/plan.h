// A plan: the oracle's decision for one problem class. CompileConfig determines the generated code and is
// part of the cache key. LaunchPolicy only affects how a launch is computed from the true sizes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

// The micro-kernel (C code compiled to bitcode, kernels/candidates_ukernel.h) that a kernel is built around.
// Written as #lathe.ukernel on the payload op. All strings are empty if there is none.
struct UkernelRef {
  std::string function;  // defined in the bitcode
  // A file of kernels/<op>/ukernel and the target that it was compiled for: "argmax/rows@x86-64-v4".
  std::string bitcode;
  std::string attributes;  // LLVM attributes of the function, space-separated: "alwaysinline nounwind"
  bool operator==(const UkernelRef& o) const;
};

// The routine of an external library that computes the op. Written as #lathe.external on the payload op. All
// strings are empty if there is none.
struct ExternalRef {
  std::string provider;  // a name from core/external.h, such as "openblas"
  std::string routine;   // such as "cblas_sgemm"
  bool operator==(const ExternalRef& o) const { return provider == o.provider && routine == o.routine; }
};

constexpr int32_t kMostPace = 4096;

// How a kernel is built. Every field is written to #lathe.kernel_config (`ukernel` to #lathe.ukernel,
// `external` to #lathe.external) on the payload op. The compiler's passes read it from there.
struct CompileConfig {
  // The kernel family. The suffix "_t" means that the kernel computes the transposed product, so A and B
  // swap their parts. "Unpacked" operands are read in place.
  //   matmul, CPU:
  //     "dot"            streams rows of B (K-contiguous) once, against rows of A; vectors lie along K
  //     "dot_t"          streams rows of A against rows of B
  //     "outer"          streams rows of B (N-contiguous) along N
  //     "panel"          packs A and B into panels and computes outer products, A scalars times B vectors
  //     "panel_t"        packs A and B; B scalars times A vectors
  //     "direct"         as "panel_t" with B unpacked
  //     "direct_a"       as "panel" with A unpacked
  //     "packed"         B arrives packed by lathe_pack_weights (core/packed.h)
  //     "direct_packed"  converts B's packed panels to f32 panels; A unpacked
  //     "bytes"          rounds A to int8; B is stored in quantised blocks
  //     "amx", "amx_t", "amx_packed"  AMX tiles: A by panels of B, transposed, and with B packed in advance
  //   matmul, GPU:
  //     "simt"    FMAs
  //     "mma"     tensor cores, one warp per instruction
  //     "wgmma"   Hopper warpgroup instructions, fed by TMA
  //     "skinny"  few rows of A; streams the weights once
  //     "xegpu"   Intel: dpas, fed by 2-D block loads
  //   argmax: "rows". On a GPU a thread has register_n elements of a row in flight, in unroll_k loads; all
  //     threads of a row have tile_n. A row that may be split has chunks of at most tile_k elements.
  //   every op: "ukernel" (see `ukernel`), "external" (see `external`; Lathe generates no code)
  std::string kernel;
  int32_t tile_m = 0, tile_n = 0;  // tile of one workgroup or CPU task
  // K block: the depth of packed panels or of shared memory. "outer": rows of B read per pass over a task's
  // columns.
  int32_t tile_k = 0;
  // Accumulator tile of one thread ("mma": of one warp), rows by columns of D. On the CPU one side is held in
  // vectors and counts lanes * vectors elements: register_n of "outer", "panel", "direct_a", "*packed",
  // "bytes" and "rows"; register_m of "panel_t" and "direct". "amx*" use tiles of 16 by 16. "dot" and "dot_t"
  // vectorise along K, so both sides count elements of D.
  int32_t register_m = 0, register_n = 0;
  int32_t unroll_k = 1;
  int32_t lanes = 1;    // CPU: f32 lanes of a vector
  int32_t threads = 1;  // GPU: threads of a workgroup
  // Shared-memory buffers in flight. For the CPU's "dot", "dot_t", "direct*", "outer", "bytes" and "amx*": the
  // prefetch mode, a CpuFetch (kernels/matmul/cpu/shape.h).
  int32_t stages = 1;
  // A Split: whether the kernel may be launched with splits > 1, and who merges the partial results. The
  // merge is always in ascending order of K.
  int32_t split = 0;
  int32_t cluster_m = 1, cluster_n = 1, cluster_k = 1;  // workgroups of a cluster along M, N and K splits
  int32_t swap = 0;        // 1: compute the transposed product, so that N lies along the instruction's rows
  int32_t persistent = 0;  // workgroups launched, each processing several tiles; 0: one workgroup per tile
  // Tiles along M that are visited before the next tile along N, to reuse data in L2; 0: launch order.
  int32_t raster = 0;
  // CPU, "dot", "dot_t", "outer", "packed": minimum cycles per iteration of the innermost loop, at most
  // kMostPace. It throttles the loop to the speed of memory (kernels/matmul/cpu/shape.h); 0: no throttle.
  int32_t pace = 0;
  UkernelRef ukernel = {};
  ExternalRef external = {};
  bool operator==(const CompileConfig& o) const;
};
enum Split : int32_t {
  kNoSplit = 0,
  kMergeStep = 1,     // a second step of the recipe merges
  kMergeLast = 2,     // GPUs: the last workgroup to arrive merges, in the same launch
  kMergeCluster = 3,  // sm_90 and later: the workgroups of a cluster merge through distributed shared memory
};
// Rows of D that one workgroup merges in a matmul's second step: enough to give each thread four columns. On
// the CPU, where a task has one thread, the result is 1.
inline int32_t merge_rows(int32_t threads, int32_t tile_n) { return std::max(1, 4 * threads / tile_n); }
Json to_json(const CompileConfig& c);
absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j);

struct LaunchPolicy {
  // Requested number of splits (argmax: of all rows together). Each launch reduces it so that no split is
  // empty. Greater than 1 only where CompileConfig::split allows it.
  int32_t splits = 1;
};

struct Plan {
  CompileConfig config;
  LaunchPolicy launch;
  double predicted_seconds = 0;
  // GPU: workgroups per compute unit that the cost model assumes; 0: it makes no assumption.
  int32_t resident = 0;
  std::string numeric_recipe;  // "fma f32; K ascending in blocks of 256; 1 split; no merge"
};

struct RankedPlan {
  Plan plan;
  std::string rejection;  // empty if legal, otherwise the reason: "smem 262144 > 232448"
};

}  // namespace lathe
