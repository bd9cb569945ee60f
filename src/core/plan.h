// A plan: the oracle's decision for one problem class. CompileConfig determines the generated code and is
// part of the cache key. LaunchPolicy only affects how a launch is computed from the true sizes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/kernels.h"
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

constexpr int32_t kMostTile = 1 << 24;  // far above any tile; the product of two still fits in 64 bits
constexpr int32_t kMostPace = 4096;

enum Split : int32_t {
  kNoSplit = 0,
  kMergeStep = 1,     // a second step of the recipe merges
  kMergeLast = 2,     // GPUs: the last workgroup to arrive merges, in the same launch
  kMergeCluster = 3,  // sm_90 and later: the workgroups of a cluster merge through distributed shared memory
};

// X(name, letter, initial, least, most): the numbers that a kernel's code depends on. The list generates the
// members of KernelConfig, its equality, its JSON (and so the cache key), #lathe.kernel_config, the kernel's
// name (`letter` and the number, unless it is the initial one; "" if kernel_name.cc writes it otherwise) and
// `plan.FIELD` of the pipelines. core/kernel_fields.cc lists the fields of each kernel and what they mean for it.
// A field that a kernel does not use has its initial value.
#define LATHE_CONFIG_FIELDS(X)                                                                                 \
  /* Tile of one workgroup or CPU task. */                                                                     \
  X(tile_m, "", 0, 0, kMostTile)                                                                               \
  X(tile_n, "", 0, 0, kMostTile)                                                                               \
  /* K block: the depth of packed panels or of shared memory. */                                               \
  X(tile_k, "", 0, 0, kMostTile)                                                                               \
  /* Accumulator tile of one thread (of one warp or warpgroup), rows by columns of D. In a CPU kernel the */   \
  /* side along KernelRow::vectors is held in vectors and counts lanes * vectors elements. */                  \
  X(register_m, "", 0, 0, kMostTile)                                                                           \
  X(register_n, "", 0, 0, kMostTile)                                                                           \
  /* Steps along K per iteration, or loads in flight. */                                                       \
  X(unroll_k, "u", 1, 1, 1024)                                                                                 \
  /* argmax on a GPU: most elements of a chunk of a row; 0: rows are whole. */                                 \
  X(chunk, "chunk", 0, 0, kMostTile)                                                                           \
  /* CPU: f32 lanes of a vector. */                                                                            \
  X(lanes, "v", 1, 1, 1024)                                                                                    \
  /* GPU: threads of a workgroup. */                                                                           \
  X(threads, "t", 1, 1, 1024)                                                                                  \
  /* GPU: shared-memory buffers in flight. */                                                                  \
  X(stages, "s", 1, 1, 64)                                                                                     \
  /* CPU: what is prefetched, a CpuFetch (kernels/matmul/cpu/shape.h). */                                      \
  X(prefetch, "f", 0, 0, 7)                                                                                    \
  /* CPU: how many cache lines ahead in the packed panels to prefetch; 0: none. */                             \
  X(prefetch_lines, "lines", 0, 0, 1024)                                                                       \
  /* CPU, "dot" and "amx*", 1: the rows operand (A, or B if transposed) is copied first; 0: read in place. */  \
  X(copy_rows, "copy", 0, 0, 1)                                                                                \
  /* CPU, "panel*" and "packed", 1: the next panel of rows is copied while the current one is multiplied. */   \
  X(copy_ahead, "ahead", 0, 0, 1)                                                                              \
  /* CPU, "panel_t" and "direct*": fewest vectors of the last pass over the packed lines, which takes only */  \
  /* those that are left; 0: every pass is as wide as the register tile. */                                    \
  X(narrow_passes, "narrow", 0, 0, 1024)                                                                       \
  /* CPU, "dot" with tile_k: columns of B that share a K block, a multiple of register_n. */                   \
  X(group_n, "group", 0, 0, kMostTile)                                                                         \
  /* CPU, "direct*": partial sums per element of D, so that few accumulators do not wait for each other. */    \
  X(chains, "chains", 1, 1, 2)                                                                                 \
  /* CPU, "direct" and "amx_t": rows of the transposed tile that are transposed and written to D at a time, */ \
  /* while the next ones are computed; 0: the whole tile at the end. */                                        \
  X(piece, "piece", 0, 0, kMostTile)                                                                           \
  /* CPU, "outer", "panel", "direct_a", 1: sums go from registers through the epilogue to D; 0: by scratch. */ \
  X(store_directly, "store", 0, 0, 1)                                                                          \
  /* A Split: whether the kernel may be launched with splits > 1, and who merges the partial results. */       \
  /* The merge is always in ascending order of K. */                                                           \
  X(split, "", kNoSplit, kNoSplit, kMergeCluster)                                                              \
  /* GPU: workgroups of a cluster along M, N and the splits of K. */                                           \
  X(cluster_m, "", 1, 1, 16)                                                                                   \
  X(cluster_n, "", 1, 1, 16)                                                                                   \
  X(cluster_k, "", 1, 1, 16)                                                                                   \
  /* GPU, 1: computes the transposed product, so that N lies along the instruction's rows. */                  \
  X(swap, "", 0, 0, 1)                                                                                         \
  /* "wgmma", 1: the epilogue is cheap and reads no operand of D's size, so it gets fewer registers, and */    \
  /* TMA stores D if the tile consists of whole boxes; 0: any epilogue, and threads store D. */                \
  X(plain_store, "plain", 0, 0, 1)                                                                             \
  /* GPU: workgroups launched, each processing several tiles; 0: one workgroup per tile. */                    \
  X(persistent, "p", 0, 0, 1 << 20)                                                                            \
  /* GPU: tiles along M visited before the next tile along N, to reuse data in L2; 0: launch order. */         \
  X(raster, "g", 0, 0, 1024)                                                                                   \
  /* CPU, "dot", "dot_t", "outer", "packed": minimum cycles per iteration of the innermost loop. It */         \
  /* throttles the loop to the speed of memory (kernels/matmul/cpu/shape.h); 0: no throttle. */                \
  X(pace, "y", 0, 0, kMostPace)

// The kernel and its numbers. #lathe.kernel_config on the payload op holds one.
struct KernelConfig {
  KernelKind kernel = KernelKind::kNone;
#define LATHE_FIELD(name, letter, initial, least, most) int32_t name = initial;
  LATHE_CONFIG_FIELDS(LATHE_FIELD)
#undef LATHE_FIELD
  bool operator==(const KernelConfig& o) const;
};

struct ConfigField {
  const char* name;
  const char* letter;
  int32_t KernelConfig::*member;
  int32_t initial, least, most;
};
#define LATHE_FIELD(name, letter, initial, least, most) \
  {#name, letter, &KernelConfig::name, initial, least, most},
inline constexpr ConfigField kConfigFields[] = {LATHE_CONFIG_FIELDS(LATHE_FIELD)};
#undef LATHE_FIELD

// How a kernel is built. The compiler's passes read it from #lathe.kernel_config, #lathe.ukernel and
// #lathe.external on the payload op.
struct CompileConfig : KernelConfig {
  UkernelRef ukernel = {};    // of KernelKind::kUkernel
  ExternalRef external = {};  // of KernelKind::kExternal
  bool operator==(const CompileConfig& o) const;
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
