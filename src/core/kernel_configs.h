// The configuration of every family of kernels: the numbers that a kernel's code depends on. Kernels that share these
// numbers are one family.
//
// Each family declares its fields in one list, and LATHE_CONFIG_FAMILIES has a row for it. From these lists come the
// struct (DotConfig, MmaConfig, ...), its equality, its JSON (and so the cache key), the text of #lathe.kernel_config
// and its parser, the kernel's name, `plan.FIELD` of the pipelines, the fields that `lathe explain` shows, and the
// check of the values.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/json.h"
#include "core/kernels.h"

namespace lathe {

constexpr int64_t kMostTile = 1 << 24;  // far above any tile; the product of two still fits in 64 bits
constexpr int64_t kMostPace = 4096;

enum Split : int32_t {
  kNoSplit = 0,
  kMergeStep = 1,     // a second step of the recipe merges
  kMergeLast = 2,     // GPUs: the last workgroup to arrive merges, in the same launch
  kMergeCluster = 3,  // sm_90 and later: the workgroups of a cluster merge through distributed shared memory
};

// X(name, letter, initial, least, most, meaning). `letter` and the number are in the kernel's name unless the number
// is the initial one; "x" joins a number to the one before it: 64x128.
//
// Fields that several families have. D is the output.
#define LATHE_TASK_TILE(X)                              \
  X(tile_m, "", 0, 0, kMostTile, "rows of D of a task") \
  X(tile_n, "x", 0, 0, kMostTile, "columns of D of a task")
#define LATHE_GROUP_TILE(X)                                  \
  X(tile_m, "", 0, 0, kMostTile, "rows of D of a workgroup") \
  X(tile_n, "x", 0, 0, kMostTile, "columns of D of a workgroup")
#define LATHE_PANEL_DEPTH(X) X(tile_k, "x", 0, 0, kMostTile, "depth of a K block of packed panels")
#define LATHE_SHARED_DEPTH(X) X(tile_k, "x", 0, 0, kMostTile, "depth of a K block in shared memory")
#define LATHE_VECTOR_COLUMNS(X)                                 \
  X(register_m, "r", 0, 0, kMostTile, "rows of D in registers") \
  X(register_n, "x", 0, 0, kMostTile, "columns of D in registers, whole vectors")
#define LATHE_VECTOR_ROWS(X)                                                   \
  X(register_m, "r", 0, 0, kMostTile, "rows of D in registers, whole vectors") \
  X(register_n, "x", 0, 0, kMostTile, "columns of D in registers")
#define LATHE_DOT_REGISTERS(X)                                                  \
  X(register_m, "r", 0, 0, kMostTile, "rows of A that are multiplied together") \
  X(register_n, "x", 0, 0, kMostTile, "rows of B that are multiplied together")
#define LATHE_AMX_REGISTERS(X)                                              \
  X(register_m, "r", 0, 0, kMostTile, "rows of D in AMX tiles of 16 by 16") \
  X(register_n, "x", 0, 0, kMostTile, "columns of D in AMX tiles of 16 by 16")
#define LATHE_WARP_REGISTERS(X)                              \
  X(register_m, "r", 0, 0, kMostTile, "rows of D of a warp") \
  X(register_n, "x", 0, 0, kMostTile, "columns of D of a warp")
#define LATHE_UNROLL(X) X(unroll_k, "u", 1, 1, 1024, "steps along K per iteration")
#define LATHE_LANES(X) X(lanes, "v", 1, 1, 1024, "f32 lanes of a vector")
#define LATHE_THREADS(X) X(threads, "t", 1, 1, 1024, "threads of a workgroup")
#define LATHE_STAGES(X) X(stages, "s", 1, 1, 64, "buffers of shared memory in flight")
#define LATHE_PANEL_LINES(X) \
  X(prefetch_lines, "lines", 0, 0, 1024, "cache lines ahead in the packed panels to prefetch; 0: none")
// A CpuFetch (kernels/matmul/cpu/shape.h).
#define LATHE_FETCH(X, meaning) X(prefetch, "f", 0, 0, 7, "a CpuFetch: " meaning)
#define LATHE_COPY_ROWS(X, meaning) X(copy_rows, "copy", 0, 0, 1, meaning)
#define LATHE_COPY_AHEAD(X) \
  X(copy_ahead, "ahead", 0, 0, 1, "1: the next panel of rows is copied during the FMAs")
#define LATHE_NARROW_PASSES(X) \
  X(narrow_passes, "narrow", 0, 0, 1024, "fewest vectors of the last pass; 0: all passes are equal")
// So that few accumulators do not wait for each other.
#define LATHE_CHAINS(X) X(chains, "chains", 1, 1, 2, "partial sums of an element of D")
#define LATHE_PIECE(X) \
  X(piece, "piece", 0, 0, kMostTile, "rows of the transposed tile that go to D at a time; 0: all at the end")
#define LATHE_STORE_DIRECTLY(X) \
  X(store_directly, "store", 0, 0, 1, "1: sums go from registers through the epilogue to D")
// It throttles the loop to the speed of memory.
#define LATHE_PACE(X) \
  X(pace, "y", 0, 0, kMostPace, "least cycles of an iteration of the innermost loop; 0: no limit")
#define LATHE_RASTER(X) \
  X(raster, "g", 0, 0, 1024, "tiles along M before the next one along N; 0: launch order")
// The merge is always in ascending order of K.
#define LATHE_SPLIT(X) \
  X(split, "split", kNoSplit, kNoSplit, kMergeCluster, "who merges splits of K, a Split; 0: K is not split")
#define LATHE_ROW_SPLIT(X)                             \
  X(split, "split", kNoSplit, kNoSplit, kMergeCluster, \
    "who merges the chunks of a row, a Split; 0: rows are whole")

// CPU.
#define LATHE_DOT_FIELDS(X)                                                                     \
  LATHE_TASK_TILE(X)                                                                            \
  X(tile_k, "x", 0, 0, kMostTile, "depth of a K block, for which A is packed; 0: all of K")     \
  LATHE_DOT_REGISTERS(X)                                                                        \
  LATHE_UNROLL(X)                                                                               \
  LATHE_LANES(X)                                                                                \
  LATHE_FETCH(X, "for each line of B that is read")                                             \
  LATHE_COPY_ROWS(X, "1: A is copied first")                                                    \
  X(group_n, "group", 0, 0, kMostTile, "columns of D that share a K block; 0 without K blocks") \
  LATHE_SPLIT(X)                                                                                \
  LATHE_PACE(X)
#define LATHE_DOT_T_FIELDS(X)                       \
  LATHE_TASK_TILE(X)                                \
  LATHE_DOT_REGISTERS(X)                            \
  LATHE_UNROLL(X)                                   \
  LATHE_LANES(X)                                    \
  LATHE_FETCH(X, "for each line of A that is read") \
  LATHE_COPY_ROWS(X, "1: B is copied first")        \
  LATHE_SPLIT(X)                                    \
  LATHE_PACE(X)
#define LATHE_OUTER_FIELDS(X)                                                                 \
  LATHE_TASK_TILE(X)                                                                          \
  X(tile_k, "x", 0, 0, kMostTile, "rows of B in a pass over the task's columns; 0: all of K") \
  LATHE_VECTOR_COLUMNS(X)                                                                     \
  LATHE_UNROLL(X)                                                                             \
  LATHE_LANES(X)                                                                              \
  LATHE_FETCH(X, "the rows of B that come next")                                              \
  LATHE_STORE_DIRECTLY(X)                                                                     \
  LATHE_SPLIT(X)                                                                              \
  LATHE_PACE(X)
#define LATHE_PANEL_FIELDS(X)                     \
  LATHE_TASK_TILE(X)                              \
  LATHE_PANEL_DEPTH(X)                            \
  LATHE_VECTOR_COLUMNS(X)                         \
  LATHE_LANES(X)                                  \
  LATHE_FETCH(X, "the next K block of B; 0: not") \
  LATHE_PANEL_LINES(X)                            \
  LATHE_COPY_AHEAD(X)                             \
  LATHE_STORE_DIRECTLY(X)                         \
  LATHE_SPLIT(X)
#define LATHE_PANEL_T_FIELDS(X)                   \
  LATHE_TASK_TILE(X)                              \
  LATHE_PANEL_DEPTH(X)                            \
  LATHE_VECTOR_ROWS(X)                            \
  LATHE_LANES(X)                                  \
  LATHE_FETCH(X, "the next K block of A; 0: not") \
  LATHE_PANEL_LINES(X)                            \
  LATHE_COPY_AHEAD(X)                             \
  LATHE_NARROW_PASSES(X)                          \
  LATHE_SPLIT(X)
#define LATHE_DIRECT_FIELDS(X)                           \
  LATHE_TASK_TILE(X)                                     \
  LATHE_PANEL_DEPTH(X)                                   \
  LATHE_VECTOR_ROWS(X)                                   \
  LATHE_UNROLL(X)                                        \
  LATHE_LANES(X)                                         \
  LATHE_FETCH(X, "the next rows that are read in place") \
  LATHE_NARROW_PASSES(X)                                 \
  LATHE_CHAINS(X)                                        \
  LATHE_PIECE(X)                                         \
  LATHE_SPLIT(X)
#define LATHE_DIRECT_A_FIELDS(X)                         \
  LATHE_TASK_TILE(X)                                     \
  LATHE_PANEL_DEPTH(X)                                   \
  LATHE_VECTOR_COLUMNS(X)                                \
  LATHE_UNROLL(X)                                        \
  LATHE_LANES(X)                                         \
  LATHE_FETCH(X, "the next rows that are read in place") \
  LATHE_NARROW_PASSES(X)                                 \
  LATHE_CHAINS(X)                                        \
  LATHE_STORE_DIRECTLY(X)                                \
  LATHE_SPLIT(X)
#define LATHE_DIRECT_PACKED_FIELDS(X)                    \
  LATHE_TASK_TILE(X)                                     \
  LATHE_PANEL_DEPTH(X)                                   \
  LATHE_VECTOR_COLUMNS(X)                                \
  LATHE_UNROLL(X)                                        \
  LATHE_LANES(X)                                         \
  LATHE_FETCH(X, "the next rows that are read in place") \
  LATHE_NARROW_PASSES(X)                                 \
  LATHE_CHAINS(X)                                        \
  LATHE_SPLIT(X)
#define LATHE_PACKED_FIELDS(X) \
  LATHE_TASK_TILE(X)           \
  LATHE_PANEL_DEPTH(X)         \
  LATHE_VECTOR_COLUMNS(X)      \
  LATHE_LANES(X)               \
  LATHE_PANEL_LINES(X)         \
  LATHE_COPY_AHEAD(X)          \
  LATHE_SPLIT(X)               \
  LATHE_PACE(X)
#define LATHE_PANEL_UKERNEL_FIELDS(X)                      \
  LATHE_TASK_TILE(X)                                       \
  X(tile_k, "x", 0, 0, kMostTile, "K, which is one block") \
  LATHE_VECTOR_COLUMNS(X)                                  \
  LATHE_LANES(X)
#define LATHE_BYTES_FIELDS(X)                                                     \
  LATHE_TASK_TILE(X)                                                              \
  LATHE_VECTOR_COLUMNS(X)                                                         \
  LATHE_LANES(X)                                                                  \
  LATHE_FETCH(X, "the columns that come next; 5: not")                            \
  X(narrowest_rows, "narrow", 0, 0, 1024,                                         \
    "rows of the narrowest pass; passes halve towards the end; 0: all are equal") \
  LATHE_SPLIT(X)
#define LATHE_AMX_BYTES_FIELDS(X)              \
  LATHE_TASK_TILE(X)                           \
  LATHE_PANEL_DEPTH(X)                         \
  LATHE_VECTOR_COLUMNS(X)                      \
  LATHE_LANES(X)                               \
  LATHE_FETCH(X, "the columns that come next") \
  LATHE_SPLIT(X)
#define LATHE_AMX_FIELDS(X)                          \
  LATHE_TASK_TILE(X)                                 \
  LATHE_PANEL_DEPTH(X)                               \
  LATHE_AMX_REGISTERS(X)                             \
  LATHE_LANES(X)                                     \
  LATHE_FETCH(X, "the next panel of rows; 5: not")   \
  LATHE_COPY_ROWS(X, "1: the rows are copied first") \
  LATHE_SPLIT(X)
#define LATHE_AMX_T_FIELDS(X)                        \
  LATHE_TASK_TILE(X)                                 \
  LATHE_PANEL_DEPTH(X)                               \
  LATHE_AMX_REGISTERS(X)                             \
  LATHE_LANES(X)                                     \
  LATHE_FETCH(X, "the next panel of rows; 5: not")   \
  LATHE_COPY_ROWS(X, "1: the rows are copied first") \
  LATHE_PIECE(X)                                     \
  LATHE_SPLIT(X)

// GPUs.
#define LATHE_SIMT_FIELDS(X)                                      \
  LATHE_GROUP_TILE(X)                                             \
  LATHE_SHARED_DEPTH(X)                                           \
  X(register_m, "r", 0, 0, kMostTile, "rows of D of a thread")    \
  X(register_n, "x", 0, 0, kMostTile, "columns of D of a thread") \
  LATHE_THREADS(X)                                                \
  LATHE_STAGES(X)                                                 \
  LATHE_SPLIT(X)
#define LATHE_MMA_FIELDS(X) \
  LATHE_GROUP_TILE(X)       \
  LATHE_SHARED_DEPTH(X)     \
  LATHE_WARP_REGISTERS(X)   \
  LATHE_THREADS(X)          \
  LATHE_STAGES(X)           \
  LATHE_SPLIT(X)            \
  LATHE_RASTER(X)
#define LATHE_MMA_UKERNEL_FIELDS(X)                                  \
  LATHE_GROUP_TILE(X)                                                \
  X(padded_k, "x", 0, 0, kMostTile, "K, rounded up to whole stages") \
  LATHE_WARP_REGISTERS(X)                                            \
  X(stage_k, "u", 1, 1, 1024, "depth of a stage in shared memory")   \
  LATHE_THREADS(X)                                                   \
  LATHE_STAGES(X)                                                    \
  LATHE_SPLIT(X)                                                     \
  LATHE_RASTER(X)
// `plain_store`: the epilogue gets fewer registers, and TMA stores D if the tile consists of whole boxes.
#define LATHE_WGMMA_FIELDS(X)                                                                              \
  LATHE_GROUP_TILE(X)                                                                                      \
  LATHE_SHARED_DEPTH(X)                                                                                    \
  X(register_m, "r", 0, 0, kMostTile, "rows of D of a warpgroup")                                          \
  X(register_n, "x", 0, 0, kMostTile, "columns of D of a warpgroup")                                       \
  LATHE_THREADS(X)                                                                                         \
  LATHE_STAGES(X)                                                                                          \
  X(cluster_m, "c", 1, 1, 16, "workgroups of a cluster along M, which share copies of B")                  \
  X(cluster_n, "x", 1, 1, 16, "workgroups of a cluster along N, which share copies of A")                  \
  X(cluster_k, "x", 1, 1, 16, "workgroups of a cluster along the splits of K")                             \
  LATHE_SPLIT(X)                                                                                           \
  X(transposed, "transposed", 0, 0, 1, "1: computes D transposed, with N along the instruction's 64 rows") \
  X(plain_store, "plain", 0, 0, 1, "1: the epilogue is cheap and reads no operand of D's size")            \
  X(persistent, "p", 0, 0, 1 << 20, "workgroups launched, each for several tiles; 0: one per tile")        \
  LATHE_RASTER(X)
#define LATHE_TCGEN05_FIELDS(X) \
  LATHE_GROUP_TILE(X)           \
  LATHE_SHARED_DEPTH(X)         \
  LATHE_THREADS(X)              \
  LATHE_STAGES(X)
#define LATHE_SKINNY_FIELDS(X)                                                                       \
  X(tile_m, "", 0, 0, kMostTile, "M")                                                                \
  X(tile_n, "x", 0, 0, kMostTile, "columns of D of a workgroup")                                     \
  X(chunk_k, "x", 0, 0, kMostTile, "most of K in a split; its part of A is in shared memory (CUDA)") \
  X(columns, "r", 0, 0, kMostTile, "columns of D that a workgroup computes at a time")               \
  X(loads, "u", 1, 1, 1024, "loads of 16 registers in flight per thread")                            \
  LATHE_THREADS(X)                                                                                   \
  X(cluster_k, "c", 1, 1, 16, "workgroups of a cluster along the splits of K")                       \
  LATHE_SPLIT(X)                                                                                     \
  X(matrix, "matrix", 0, 0, 1, "1: matrix instructions, with N along their rows; 0: FMAs")
#define LATHE_XEGPU_FIELDS(X)                                       \
  LATHE_GROUP_TILE(X)                                               \
  X(tile_k, "x", 0, 0, kMostTile, "depth of a step along K")        \
  X(register_m, "r", 0, 0, kMostTile, "rows of D of a subgroup")    \
  X(register_n, "x", 0, 0, kMostTile, "columns of D of a subgroup") \
  LATHE_THREADS(X)                                                  \
  LATHE_SPLIT(X)

// Ops on rows.
#define LATHE_CPU_ROWS_FIELDS(X)                                                    \
  X(tile_m, "", 0, 0, kMostTile, "rows of a task")                                  \
  X(tile_n, "x", 0, 0, kMostTile, "columns of a task")                              \
  X(register_m, "r", 0, 0, kMostTile, "rows at a time")                             \
  X(register_n, "x", 0, 0, kMostTile, "elements of a row at a time, whole vectors") \
  LATHE_LANES(X)                                                                    \
  LATHE_ROW_SPLIT(X)
#define LATHE_GPU_ROWS_FIELDS(X)                                                             \
  X(tile_m, "", 0, 0, kMostTile, "rows of a workgroup")                                      \
  X(tile_n, "x", 0, 0, kMostTile, "elements of a row that its threads take at a time")       \
  X(register_m, "r", 0, 0, kMostTile, "rows of a thread")                                    \
  X(register_n, "x", 0, 0, kMostTile, "elements of a row of a thread at a time")             \
  X(loads, "u", 1, 1, 1024, "loads that register_n is divided into")                         \
  X(chunk, "chunk", 0, 0, kMostTile, "most elements of a chunk of a row; 0: rows are whole") \
  LATHE_THREADS(X)                                                                           \
  LATHE_ROW_SPLIT(X)

#define LATHE_NO_FIELDS(X)

inline constexpr uint32_t kForProducts = kForMatmulArgmax, kOnRows = ops_on_rows();
inline constexpr uint32_t kOnGpus = set_of(Backend::kCuda, Backend::kRocm, Backend::kSpirv);

// X(family, name, fields, kernels, ops, backends): one family serves a kernel on the given ops and backends. The
// struct's name is the family's with "Config".
#define LATHE_CONFIG_FAMILIES(X)                                                                            \
  X(None, "none", LATHE_NO_FIELDS, set_of(KernelKind::kNone), 0, 0)                                         \
  X(Dot, "dot", LATHE_DOT_FIELDS, set_of(KernelKind::kDot), kForProducts, kOnCpu)                           \
  X(DotT, "dot_t", LATHE_DOT_T_FIELDS, set_of(KernelKind::kDotT), kForProducts, kOnCpu)                     \
  X(Outer, "outer", LATHE_OUTER_FIELDS, set_of(KernelKind::kOuter), kForProducts, kOnCpu)                   \
  X(Panel, "panel", LATHE_PANEL_FIELDS, set_of(KernelKind::kPanel), kForProducts, kOnCpu)                   \
  X(PanelT, "panel_t", LATHE_PANEL_T_FIELDS, set_of(KernelKind::kPanelT), kForProducts, kOnCpu)             \
  X(Direct, "direct", LATHE_DIRECT_FIELDS, set_of(KernelKind::kDirect), kForProducts, kOnCpu)               \
  X(DirectA, "direct_a", LATHE_DIRECT_A_FIELDS, set_of(KernelKind::kDirectA), kForProducts, kOnCpu)         \
  X(DirectPacked, "direct_packed", LATHE_DIRECT_PACKED_FIELDS, set_of(KernelKind::kDirectPacked),           \
    kForProducts, kOnCpu)                                                                                   \
  X(Packed, "packed", LATHE_PACKED_FIELDS, set_of(KernelKind::kPacked), kForProducts, kOnCpu)               \
  X(PanelUkernel, "panel_ukernel", LATHE_PANEL_UKERNEL_FIELDS, set_of(KernelKind::kUkernel), kForProducts,  \
    kOnCpu)                                                                                                 \
  X(Bytes, "bytes", LATHE_BYTES_FIELDS, set_of(KernelKind::kBytes, KernelKind::kBytesPacked), kForProducts, \
    kOnCpu)                                                                                                 \
  X(AmxBytes, "amx_bytes", LATHE_AMX_BYTES_FIELDS,                                                          \
    set_of(KernelKind::kAmxBytes, KernelKind::kAmxBytesPacked), kForProducts, kOnCpu)                       \
  X(Amx, "amx", LATHE_AMX_FIELDS, set_of(KernelKind::kAmx, KernelKind::kAmxPacked), kForProducts, kOnCpu)   \
  X(AmxT, "amx_t", LATHE_AMX_T_FIELDS, set_of(KernelKind::kAmxT), kForProducts, kOnCpu)                     \
  X(Simt, "simt", LATHE_SIMT_FIELDS, set_of(KernelKind::kSimt), kForProducts, kOnGpus)                      \
  X(Mma, "mma", LATHE_MMA_FIELDS, set_of(KernelKind::kMma, KernelKind::kMma32), kForProducts, kOnGpus)      \
  X(MmaUkernel, "mma_ukernel", LATHE_MMA_UKERNEL_FIELDS, set_of(KernelKind::kUkernel), kForProducts,        \
    kOnGpus)                                                                                                \
  X(Wgmma, "wgmma", LATHE_WGMMA_FIELDS, set_of(KernelKind::kWgmma), kForProducts, kOnGpus)                  \
  X(Tcgen05, "tcgen05", LATHE_TCGEN05_FIELDS, set_of(KernelKind::kTcgen05), kForProducts, kOnGpus)          \
  X(Skinny, "skinny", LATHE_SKINNY_FIELDS, set_of(KernelKind::kSkinny), kForProducts, kOnGpus)              \
  X(Xegpu, "xegpu", LATHE_XEGPU_FIELDS, set_of(KernelKind::kXegpu), kForProducts, kOnGpus)                  \
  X(CpuRows, "cpu_rows", LATHE_CPU_ROWS_FIELDS, set_of(KernelKind::kRows, KernelKind::kUkernel), kOnRows,   \
    kOnCpu)                                                                                                 \
  X(GpuRows, "gpu_rows", LATHE_GPU_ROWS_FIELDS, set_of(KernelKind::kRows, KernelKind::kUkernel), kOnRows,   \
    kOnGpus)                                                                                                \
  X(External, "external", LATHE_NO_FIELDS, set_of(KernelKind::kExternal), kForProducts, kOnCpu | kOnGpus)

enum class ConfigFamily : int32_t {
#define LATHE_FAMILY(family, ...) k##family,
  LATHE_CONFIG_FAMILIES(LATHE_FAMILY)
#undef LATHE_FAMILY
};

constexpr KernelKind first_of(uint32_t kernels) {
  int32_t kind = 0;
  while ((kernels >> kind & 1) == 0) ++kind;
  return static_cast<KernelKind>(kind);
}

// struct DotConfig { KernelKind kernel = KernelKind::kDot; int64_t tile_m = 0; ... };
#define LATHE_MEMBER(name, letter, initial, ...) int64_t name = initial;
#define LATHE_EQUAL(name, ...) &&name == o.name
#define LATHE_FAMILY(family, name, fields, kernels, ...)                                              \
  struct family##Config {                                                                             \
    KernelKind kernel = first_of(kernels);                                                            \
    fields(LATHE_MEMBER);                                                                             \
    bool operator==(const family##Config& o) const { return kernel == o.kernel fields(LATHE_EQUAL); } \
  };
LATHE_CONFIG_FAMILIES(LATHE_FAMILY)
#undef LATHE_FAMILY
#undef LATHE_EQUAL
#undef LATHE_MEMBER

struct FamilyRow {
  const char* name;
  uint32_t kernels, ops, backends;
  constexpr bool covers(KernelKind kernel) const { return (kernels & set_of(kernel)) != 0; }
  constexpr bool covers(KernelKind kernel, Op op, Backend backend) const {
    return covers(kernel) && (ops & set_of(op)) != 0 && (backends & set_of(backend)) != 0;
  }
};
#define LATHE_FAMILY(family, name, fields, kernels, ops, backends) {name, kernels, ops, backends},
inline constexpr FamilyRow kConfigFamilies[] = {
    LATHE_CONFIG_FAMILIES(LATHE_FAMILY)};  // in the order of ConfigFamily
#undef LATHE_FAMILY
constexpr const FamilyRow& row_of(ConfigFamily family) {
  return kConfigFamilies[static_cast<size_t>(family)];
}
inline absl::string_view name_of(ConfigFamily family) { return row_of(family).name; }
bool parse(absl::string_view name, ConfigFamily* out);

struct ConfigField {
  const char* name;
  const char* letter;
  int64_t initial, least, most;
  const char* meaning;  // "columns of D of a task"
};
struct FieldValue {
  const ConfigField* field;
  int64_t value;
};

// X(name, otherwise): fields that code for all families reads; `otherwise` is their value in a family without them.
#define LATHE_SHARED_FIELDS(X) \
  X(tile_m, 0)                 \
  X(tile_n, 0)                 \
  X(threads, 1)                \
  X(lanes, 1)                  \
  X(persistent, 0)             \
  X(split, kNoSplit)

// A variant of all families, in the order of ConfigFamily.
template <typename, typename... Configs>
struct ConfigsAfter {
  using Variant = std::variant<Configs...>;
};
#define LATHE_FAMILY(family, ...) , family##Config
using AnyConfig = ConfigsAfter<void LATHE_CONFIG_FAMILIES(LATHE_FAMILY)>::Variant;
#undef LATHE_FAMILY

// The configuration of a kernel of any family. #lathe.kernel_config on the payload op holds one.
class KernelConfig {
 public:
  KernelConfig() = default;  // KernelKind::kNone
  template <typename Config, typename = std::enable_if_t<std::is_constructible_v<AnyConfig, const Config&>>>
  KernelConfig(const Config& config) : config_(config) {}  // NOLINT: a DotConfig is a KernelConfig
  // All fields have their initial value. `kernel` must be one of the family.
  KernelConfig(ConfigFamily family, KernelKind kernel);

  KernelKind kernel() const;
  ConfigFamily family() const { return static_cast<ConfigFamily>(config_.index()); }
  // The family's own struct; null if the config is one of another family.
  template <typename Config>
  const Config* find() const {
    return std::get_if<Config>(&config_);
  }
  // The same if the caller knows the family.
  template <typename Config>
  const Config& as() const {
    return std::get<Config>(config_);
  }
  // Calls `read` with the family's struct if that is possible: see LATHE_READ_FIELD.
  template <typename Read>
  int64_t read(const Read& read, int64_t otherwise) const {
    return std::visit(
        [&](const auto& config) -> int64_t {
          if constexpr (std::is_invocable_v<Read, decltype(config)>) return read(config);
          return otherwise;
        },
        config_);
  }
#define LATHE_SHARED(name, otherwise) int64_t name() const;
  LATHE_SHARED_FIELDS(LATHE_SHARED)
#undef LATHE_SHARED

  std::vector<FieldValue> fields() const;  // in the order of the family's list
  // Sets a field by name; false if the family has no such field.
  bool set(absl::string_view name, int64_t value);
  void set_split(int64_t split) { set("split", split); }
  bool operator==(const KernelConfig& o) const { return config_ == o.config_; }

 private:
  AnyConfig config_;
};

// The field `name` of a KernelConfig, or `otherwise` if its family has no such field.
#define LATHE_READ_FIELD(config, name, otherwise) \
  (config).read([](const auto& c) -> decltype((c.name)) { return c.name; }, otherwise)

// The family of a kernel's config for this op and backend; kNone if there is none.
ConfigFamily family_of(KernelKind kernel, Op op, Backend backend);
// Why the config cannot be one for this op and backend, "" if it can.
std::string refusal_of(const KernelConfig& config, Op op, Backend backend);
// The field whose value is out of its range: "tile_m is -1, not 0 to 16777216"; "" if there is none.
std::string defect_of(const KernelConfig& config);
// The letters and numbers of the config in the kernel's name: "_64x128x32_r4x2_t128".
std::string name_of_numbers(const KernelConfig& config);
// What the config's numbers mean: [{"name": "tile_m", "value": 16, "meaning": "rows of D of a task"}, ...].
Json describe_fields(const KernelConfig& config);

}  // namespace lathe
