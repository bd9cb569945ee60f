// The kernels that Lathe knows, one row each: name, ops, backends and the properties that other parts ask for.
// Three more tables are keyed by KernelKind and checked against this one at compile time: the family whose
// configuration a kernel has (core/kernel_configs.h), who enumerates its plans (kernels/<op>/families.cc) and who
// emits its code (kernels/matmul/cpu/emit.cc, emit_gpu.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/facts.h"
#include "core/ops.h"
#include "core/problem.h"

namespace lathe {

// The dimension along which vectors lie in the registers of a CPU kernel.
enum class Axis : int32_t { kNone, kM, kN, kK };

enum KernelTrait : uint32_t {
  kTransposed = 1,        // computes the transposed product: A and B swap their parts
  kReadsInPlace = 2,      // the operand that is read as scalars (A, or B if transposed) is not packed
  kTakesPackedB = 4,      // B was packed by lathe_pack_weights (core/packed.h)
  kTakesBlocks = 8,       // B may be stored in quantised blocks
  kTakesZeroPoint = 16,   // A may have a zero point
  kTakesOpenLayout = 32,  // generic: the layouts may be decided at launch
  kNeedsNoCode = 64,      // there is nothing to emit
};

template <typename... Values>
constexpr uint32_t set_of(Values... values) {
  return ((1u << static_cast<uint32_t>(values)) | ...);
}
inline constexpr uint32_t kForMatmul = set_of(Op::kMatmul), kOnCpu = set_of(Backend::kCpu);
inline constexpr uint32_t kForMatmulArgmax = set_of(Op::kMatmul, Op::kMatmulArgmax);
// The ops that do not multiply matrices.
constexpr uint32_t ops_on_rows() {
  uint32_t found = 0;
  for (const OpRow& row : ops::kRows)
    if (!multiplies(row.op)) found |= set_of(row.op);
  return found;
}

// X(enumerator, name, ops, backends, axis of vectors, traits). A kernel that serves kMatmulArgmax hands its
// tiles to a comparison instead of storing them.
#define LATHE_KERNELS(X)                                                                                   \
  /* Streams rows of B (K-contiguous) once, against rows of A. */                                          \
  X(kDot, "dot", kForMatmulArgmax, kOnCpu, Axis::kK, kTakesBlocks | kTakesZeroPoint)                       \
  /* Streams rows of A against rows of B. */                                                               \
  X(kDotT, "dot_t", kForMatmul, kOnCpu, Axis::kK, kTransposed)                                             \
  /* Streams rows of B (N-contiguous) along N. */                                                          \
  X(kOuter, "outer", kForMatmulArgmax, kOnCpu, Axis::kN, 0)                                                \
  /* Packs A and B into panels and computes outer products, A scalars times B vectors. */                  \
  X(kPanel, "panel", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesBlocks | kTakesOpenLayout)                  \
  /* Packs A and B; B scalars times A vectors. */                                                          \
  X(kPanelT, "panel_t", kForMatmulArgmax, kOnCpu, Axis::kM, kTransposed | kTakesZeroPoint)                 \
  /* As panel_t, with B read in place. */                                                                  \
  X(kDirect, "direct", kForMatmulArgmax, kOnCpu, Axis::kM, kTransposed | kReadsInPlace | kTakesZeroPoint)  \
  /* As panel, with A read in place. */                                                                    \
  X(kDirectA, "direct_a", kForMatmul, kOnCpu, Axis::kN, kReadsInPlace)                                     \
  /* As panel, with B packed in advance. */                                                                \
  X(kPacked, "packed", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesPackedB)                                  \
  /* Converts B's packed panels to f32 panels; A is read in place. */                                      \
  X(kDirectPacked, "direct_packed", kForMatmulArgmax, kOnCpu, Axis::kN, kReadsInPlace | kTakesPackedB)     \
  /* Rounds A to int8; B is stored in quantised blocks. */                                                 \
  X(kBytes, "bytes", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesBlocks)                                     \
  /* The same with B packed in advance. */                                                                 \
  X(kBytesPacked, "bytes_packed", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesBlocks | kTakesPackedB)        \
  /* As bytes and bytes_packed, by AMX tiles. */                                                           \
  X(kAmxBytes, "amx_bytes", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesBlocks)                              \
  X(kAmxBytesPacked, "amx_bytes_packed", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesBlocks | kTakesPackedB) \
  /* AMX tiles: A by panels of B; transposed; with B packed in advance. */                                 \
  X(kAmx, "amx", kForMatmulArgmax, kOnCpu, Axis::kN, 0)                                                    \
  X(kAmxT, "amx_t", kForMatmulArgmax, kOnCpu, Axis::kM, kTransposed | kTakesZeroPoint)                     \
  X(kAmxPacked, "amx_packed", kForMatmulArgmax, kOnCpu, Axis::kN, kTakesPackedB)                           \
  /* FMAs on a tile in shared memory. */                                                                   \
  X(kSimt, "simt", kForMatmulArgmax, set_of(Backend::kCuda, Backend::kRocm, Backend::kSpirv), Axis::kNone, \
    0)                                                                                                     \
  /* Tensor cores, one warp per instruction; mma32: AMD's instructions of 32 x 32. */                      \
  X(kMma, "mma", kForMatmulArgmax, set_of(Backend::kCuda, Backend::kRocm), Axis::kNone, 0)                 \
  X(kMma32, "mma32", kForMatmulArgmax, set_of(Backend::kRocm), Axis::kNone, 0)                             \
  /* Hopper's warpgroup instructions, fed by TMA. */                                                       \
  X(kWgmma, "wgmma", kForMatmulArgmax, set_of(Backend::kCuda), Axis::kNone, 0)                             \
  /* Blackwell's tensor cores multiply operands in blocks with scales, fed by TMA. */                      \
  X(kTcgen05, "tcgen05", kForMatmul, set_of(Backend::kCuda), Axis::kNone, 0)                               \
  /* Few rows of A; streams the weights once. */                                                           \
  X(kSkinny, "skinny", kForMatmulArgmax, set_of(Backend::kCuda, Backend::kRocm), Axis::kNone, 0)           \
  /* Intel's dpas, fed by 2-D block loads. */                                                              \
  X(kXegpu, "xegpu", kForMatmul, set_of(Backend::kSpirv), Axis::kNone, 0)                                  \
  /* Works on rows, as argmax and elementwise programs do. */                                              \
  X(kRows, "rows", ops_on_rows(), set_of(Backend::kCpu, Backend::kCuda, Backend::kRocm, Backend::kSpirv),  \
    Axis::kN, 0)                                                                                           \
  /* Calls a micro-kernel in C (CompileConfig::ukernel), as "panel", "mma" or "rows" call their own. */    \
  X(kUkernel, "ukernel", set_of(Op::kMatmul, Op::kArgmax),                                                 \
    set_of(Backend::kCpu, Backend::kCuda, Backend::kRocm), Axis::kN, 0)                                    \
  /* An external library computes the op (CompileConfig::external); Lathe generates no code. */            \
  X(kExternal, "external", kForMatmul, set_of(Backend::kCpu, Backend::kCuda, Backend::kRocm), Axis::kNone, \
    kNeedsNoCode)

enum class KernelKind : int32_t {
  kNone = 0,  // no kernel was chosen; its name is ""
#define LATHE_KERNEL(kind, ...) kind,
  LATHE_KERNELS(LATHE_KERNEL)
#undef LATHE_KERNEL
};

struct KernelRow {
  KernelKind kind;
  const char* name;
  uint32_t ops, backends;  // sets of Op and Backend
  Axis vectors;
  uint32_t traits;  // a set of KernelTrait

  constexpr bool has(KernelTrait t) const { return (traits & t) != 0; }
  constexpr bool serves(Op op) const { return (ops & set_of(op)) != 0; }
  constexpr bool serves(Op op, Backend b) const { return serves(op) && (backends & set_of(b)) != 0; }
};
#define LATHE_KERNEL(kind, name, ops, backends, axis, traits) \
  {KernelKind::kind, name, ops, backends, axis, traits},
// In the order of KernelKind.
inline constexpr KernelRow kKernels[] = {{KernelKind::kNone, "", 0, 0, Axis::kNone, 0},
                                         LATHE_KERNELS(LATHE_KERNEL)};
#undef LATHE_KERNEL

constexpr const KernelRow& row_of(KernelKind kind) { return kKernels[static_cast<size_t>(kind)]; }
inline absl::string_view name_of(KernelKind kind) { return row_of(kind).name; }
bool parse(absl::string_view name, KernelKind* out);

// Whether a table of emitters, keyed by Row::kind, has a row for every kernel that serves the op on a backend
// of the set.
template <typename Row, size_t kCount>
constexpr bool emits_every_kernel(const Row (&rows)[kCount], Op op, uint32_t backends) {
  for (const KernelRow& kernel : kKernels) {
    if (!kernel.serves(op) || (kernel.backends & backends) == 0 || kernel.has(kNeedsNoCode)) continue;
    bool found = false;
    for (const Row& row : rows) found |= row.kind == kernel.kind;
    if (!found) return false;
  }
  return true;
}

}  // namespace lathe
