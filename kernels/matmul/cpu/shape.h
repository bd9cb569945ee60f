// Facts about the CPU's matmul kernels that their emitters and their cost models share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/kernel_configs.h"
#include "core/problem.h"

namespace lathe {

// X(name, initial): the fields of all families of CPU kernels.
// clang-format off
#define LATHE_CPU_FIELDS(X)                                                                           \
  X(tile_m, 0) X(tile_n, 0) X(tile_k, 0) X(register_m, 0) X(register_n, 0) X(group_n, 0) X(lanes, 1)  \
  X(unroll_k, 1) X(chains, 1) X(pace, 0) X(prefetch, 0) X(prefetch_lines, 0) X(narrow_passes, 0)      \
  X(narrowest_rows, 0) X(copy_rows, 0) X(copy_ahead, 0) X(store_directly, 0) X(piece, 0) X(split, 0)
// clang-format on

// The description of a CPU kernel: its config, whatever the family. A field that the family lacks has its initial value
// and is ignored.
struct CpuFields {
#define LATHE_CPU_MEMBER(name, initial) int64_t name = initial;
  LATHE_CPU_FIELDS(LATHE_CPU_MEMBER)
#undef LATHE_CPU_MEMBER

  CpuFields() = default;
  explicit CpuFields(const KernelConfig& config) {
#define LATHE_CPU_READ(name, initial) name = LATHE_READ_FIELD(config, name, initial);
    LATHE_CPU_FIELDS(LATHE_CPU_READ)
#undef LATHE_CPU_READ
  }
  // The product's transpose: rows and columns change places.
  void transpose() { std::swap(tile_m, tile_n), std::swap(register_m, register_n); }
  template <typename Config>
  Config as(KernelKind kernel) const {
    Config config{kernel};
#define LATHE_CPU_WRITE(name, initial) \
  set_field(&config, name, [](auto* c) -> decltype(&c->name) { return &c->name; });
    LATHE_CPU_FIELDS(LATHE_CPU_WRITE)
#undef LATHE_CPU_WRITE
    return config;
  }

 private:
  template <typename Config, typename Member>
  static void set_field(Config* config, int64_t value, const Member& member) {
    if constexpr (std::is_invocable_v<Member, Config*>) *member(config) = value;
  }
};

// `prefetch` of the CPU's configs: what software prefetches for every cache line read, beside the hardware. It is the
// choice of "dot", "dot_t", "outer" in blocks, "panel", "direct*", "bytes" and "amx*".
enum class CpuFetch : int32_t {
  kNoChoice = 0,  // the kernel prefetches nothing, or in one way only
  kNext = 1,      // a line of the columns, rows or K block that come next, into L2
  kNear = 2,  // a line 2 KiB ahead in the row being read, into L1; "outer", "bytes": what comes next, into L1
  kBoth = 3,  // kNext and kNear; "direct_a": kSpread for rows in place, and the next K block of B
  kAhead = 4,  // a line 2 KiB ahead in the row being read, into L2; "outer": kTilesOn tiles ahead, into L2
  kNone = 5,   // nothing
  // As kNext, divided evenly among all passes over the lines being read. "dot": into L1; "panel": the columns that
  // are packed next; "outer" without K blocks: the next columns of B and rows of A, of the next product too.
  kSpread = 6,
  kFar = 7,  // a line 5 KiB ahead in the row being read, into L1
};
constexpr bool fetches_next(CpuFetch f) { return f == CpuFetch::kNext || f == CpuFetch::kBoth; }
constexpr bool fetches_near(CpuFetch f) {
  return f == CpuFetch::kNear || f == CpuFetch::kBoth || f == CpuFetch::kFar;
}
// The prefetch distance within the row being read; 0 if nothing is prefetched there.
constexpr int64_t bytes_ahead(CpuFetch f) {
  return f == CpuFetch::kFar ? 5120 : fetches_near(f) || f == CpuFetch::kAhead ? 2048 : 0;
}

// DotConfig::group_n in K blocks, before it is rounded up to whole register tiles. With kSpread every
// pass reads a tile's columns before the next tile, so the group can be larger than L1 or L2 allow otherwise, and
// its sums come from L2. Without it B's block of the group stays in L2 until all rows have used it.
constexpr int64_t dot_group_columns(CpuFetch f) { return f == CpuFetch::kSpread ? 132 : 48; }
constexpr int64_t kColumnsOn = 6;  // the prefetch distance of "dot" with kSpread, in columns
constexpr int64_t kTilesOn = 4;    // the prefetch distance of "outer", in register tiles
// "outer": K blocks of this depth and more are for many rows of A, and prefetch A. Few rows stay in a cache.
constexpr int64_t kOuterDeepBlock = 128;

// "outer": the lanes of the last vector of `columns` columns. Half as many as the others if that is enough: a core that
// splits wide vectors computes it in half the time.
constexpr int64_t outer_last_lanes(int64_t columns, int64_t lanes) {
  const int64_t rest = columns % lanes;
  return rest > 0 && rest <= lanes / 2 ? lanes / 2 : lanes;
}

// `pace` of the CPU's configs is a minimum number of cycles per iteration of the loop over K. A loop that could run
// faster than memory keeps all line fill buffers busy, and loads that hit L2 queue behind them; at 1.3 times
// the memory rate it reads faster than without a limit. A chain of dependent instructions, from one
// iteration's addresses to the next, enforces it. Latencies on x86-64 since Skylake and Zen:
constexpr int64_t kPaceLinkCycles = 4;      // a multiplication and an "or"
constexpr int64_t kPaceHalfLinkCycles = 2;  // an addition and an "or"

// PackedConfig::prefetch_lines. A single pass of few rows waits for memory anyway and loses by
// prefetching, unless its loop is paced.
constexpr int64_t kPackedLines = 64, kPacedLines = 16;
constexpr int64_t packed_prefetch_lines(int64_t register_rows, int64_t pace) {
  return pace > 0 ? kPacedLines : register_rows > 5 ? kPackedLines : 0;
}

// PanelConfig::prefetch_lines, PanelTConfig's too: how far ahead a pass prefetches its packed columns, from
// L2 into L1.
constexpr int32_t kPanelLines = 16;

// `chains` of "direct*": with fewer than eight accumulators an FMA would wait for the one before
// it, so even and odd K are summed apart.
constexpr int64_t direct_chains(int64_t register_sums) { return register_sums < 8 ? 2 : 1; }
// `unroll_k` of "direct*": few accumulators leave room for two steps.
constexpr int64_t direct_unroll(int64_t register_sums) { return register_sums <= 12 ? 2 : 1; }

// Whether the last pass may be narrow. Not if all passes share the prefetching, which assumes equal passes.
constexpr bool has_narrow_passes(int64_t vectors, CpuFetch f) {
  return vectors > 1 && f != CpuFetch::kSpread && f != CpuFetch::kBoth;
}
// The fewest vectors that a narrow pass can have: `narrow_passes` of such a kernel. `tile` and
// `register_width`: packed lines of a task and of a pass; `least`: packed lines of a task, at least.
constexpr int64_t least_narrow_pass(int64_t tile, int64_t register_width, int64_t least, int64_t lanes) {
  return tile > register_width ? 1 : (least + lanes - 1) / lanes;
}
// The fewest rows of a tile of tile_m rows, as matmul's payload states it: M's lower bound, if the tile has all rows
// of every M. matmul_argmax's payload states none.
constexpr int64_t least_rows(const ProblemClass& c, int64_t tile_m) {
  return c.op == Op::kMatmul && c.m_lo < c.m_hi && tile_m >= c.m_hi ? c.m_lo : 1;
}

// "amx_bytes": columns whose sums stay in L2 while all K blocks are added to them.
constexpr int64_t kAmxBytesColumns = 256;

// `piece` of "direct" and "amx_t": whole register tiles and whole blocks of the transposition, few enough that L1 holds
// them on their way to D.
constexpr int64_t finished_piece(int64_t tile_rows, int64_t register_rows, int64_t lanes) {
  constexpr int64_t kRows = 48, kMost = int64_t{1} << 24;
  const int64_t step = std::lcm(register_rows, lanes), piece = (kRows + step - 1) / step * step;
  return piece < std::min(tile_rows, kMost) ? piece : 0;
}

// Addresses this far apart share a set of L1.
constexpr int64_t kWayBytes = 4096;

// DotConfig::copy_rows without K blocks. Rows of B that lie a multiple of a quarter of a way apart
// leave sets of L1 free, into which A is copied, so that A and B do not evict each other; tiles with few sums
// wait for memory either way. A that is rounded (`rounds`) is copied so that it is rounded once.
// `row_bytes`: of a row of B; `a_bytes`: of the copy.
constexpr bool dot_copies_a(int64_t register_sums, int64_t row_bytes, int64_t a_bytes, bool rounds) {
  constexpr int64_t kFewestSums = 20, kMostBytes = 512 << 10;
  const bool apart = register_sums >= kFewestSums && row_bytes % (kWayBytes / 4) == 0;
  return (apart || rounds) && a_bytes <= kMostBytes;
}

// The rows of a "panel*" or "packed" kernel, whose operand is K-contiguous.
struct PanelRows {
  int64_t tile_rows, register_rows;
  int64_t element_bits, k_per_lane, lanes;
  // Elements of a cache line, or of a vector if that is longer, and their words.
  constexpr int64_t line_elements() const { return std::max(512 / element_bits, lanes * k_per_lane); }
  constexpr int64_t line_words() const { return line_elements() / k_per_lane; }
  // Whether the loop over a K block of this depth has a step for every line of the next panel.
  constexpr bool can_copy(int64_t depth) const {
    const auto up = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
    return register_rows <= line_words() &&
           register_rows * up(depth, line_elements()) <= up(depth, k_per_lane);
  }
  // `copy_ahead`: worthwhile if there is a next panel, possible if every K block can copy.
  constexpr bool copy_ahead(int64_t tile_k, int64_t k) const {
    return tile_rows > register_rows && can_copy(std::min(tile_k, k)) && can_copy((k - 1) % tile_k + 1);
  }
};

}  // namespace lathe
