// What emits the CPU's forms and what prices them agree here: how B is fetched ahead, what a loop is held to,
// whether A is copied, and how many chains of sums there are.
#pragma once

#include <cstdint>

namespace lathe {

// What is fetched for every line read, beside what the hardware fetches: a line of the columns or the block
// that come next, into L2; a line 2 KiB ahead in the row that is read, into L1; both; a line 2 KiB ahead in
// that row, into L2; nothing; as the first, by all passes over the lines that are read in equal parts and
// not by one of them; or a line 5 KiB ahead in that row, into L1. It is CompileConfig::stages of "dot" and
// "dot_t", which have kSpread in blocks alone (and fetch into L1 by it), of "direct*", which have kNext,
// kNone and kSpread, of "bytes", which fetches the columns that come next by kNext into L2 and by
// kNear into L1, of "amx", "amx_t" and "amx_packed": kNone, and kNext by all passes over A's rows, as does
// kCopied, by which these are copied first; and of "outer" in blocks: kNone, the block that comes next as it
// will be read by kNext, row by row by kSpread, or the columns kTilesOn tiles on by kAhead into L2 and by
// kNear into L1.
enum class CpuFetch : int32_t {
  kNext = 1,
  kNear = 2,
  kBoth = 3,
  kAhead = 4,
  kNone = 5,
  kSpread = 6,
  kFar = 7,
  kCopied = 8
};
constexpr bool fetches_next(CpuFetch f) { return f == CpuFetch::kNext || f == CpuFetch::kBoth; }
constexpr bool fetches_near(CpuFetch f) {
  return f == CpuFetch::kNear || f == CpuFetch::kBoth || f == CpuFetch::kFar;
}
// How far ahead in the row that is read; 0: not there.
constexpr int64_t bytes_ahead(CpuFetch f) {
  return f == CpuFetch::kFar ? 5120 : fetches_near(f) || f == CpuFetch::kAhead ? 2048 : 0;
}

// Columns of a group of "dot" in blocks. With kSpread all rows meet a tile's columns one after the other, and
// fetch what comes kColumnsOn columns later; the sums of a group come from L2 (by 4096 x 4096 on Zen 5,
// groups of 48, 84 and 132: M = 8, 4x2, 1.83, 1.79, 1.78 ms; 4x4 2.12, 1.97, 1.91; M = 16,
// 8x2, 3.17, 2.93, 2.78). Else B's blocks of them lie in L2 until every row has met them.
constexpr int64_t dot_group_columns(CpuFetch f) { return f == CpuFetch::kSpread ? 132 : 48; }
constexpr int64_t kColumnsOn = 6;
constexpr int64_t kTilesOn = 4;  // of "outer"

// CompileConfig::pace of "dot", "dot_t", "outer" and "packed": a turn of the loop over k takes as many cycles
// at least. A loop that could go faster than memory keeps every buffer for lines under way full, and those
// that hit L2 wait in the same queues: held to 1.3 times the rate that memory has, it reads at 0.93 to 1.0 of
// that rate, not held at 0.6 to 0.85 (by 6144 x 4096 on Zen 4, M = 3, 4 and 5: 4.10, 4.35 and 4.67 ms, held
// to 6.5 cycles a line 3.48, 3.80 and 3.84; in C on Zen 5, where a fetch that finds them full is dropped, 2x4
// 31 to 40 GB/s and 4x4 27 to 39 held to 5.5 to 6 cycles). What holds it is a chain of dependent instructions
// from one turn's addresses to the next's, so that nothing is asked for early either. On x86-64 since Skylake
// and Zen:
constexpr int64_t kPaceLinkCycles = 4;      // a multiplication and an "or"
constexpr int64_t kPaceHalfLinkCycles = 2;  // an addition and an "or"

// How many sums "direct" and "direct_a" keep of one element of D: one, or of tiles of few, for which an FMA
// would wait for the last, one of even and one of odd places of K.
constexpr int64_t direct_chains(int64_t register_sums) { return register_sums < 8 ? 2 : 1; }

// Whether "direct", "direct_a" and "panel_t" multiply what is left of the packed lines beyond whole passes,
// each of `vectors` vectors of them, by as many vectors as that takes and not by a whole pass (M = 40 and 96
// by 4096 x 4096 on Zen 5: 8.6 and 17.6 ms, 6.3 and 13.0). Not where all passes fetch.
constexpr bool has_narrow_passes(int64_t vectors, CpuFetch f) {
  return vectors > 1 && f != CpuFetch::kSpread;
}

// Lines this far apart fall into the same set of L1.
constexpr int64_t kWayBytes = 4096;

// Whether "dot" by whole rows copies A beside the cache sets of B. `row_bytes`: of a row of B; `a_bytes`: of
// the copy. Rows of B a multiple of a quarter of a way apart leave sets that A's lines can have to themselves
// (4x6, K = 4096, M = 8 by 4096 on Zen 4: 4.15 ms where A and B begin alike modulo a way, 2.63 where not);
// tiles of fewer sums wait for memory either way.
// What is rounded (`rounds`) is, once.
constexpr bool dot_copies_a(int64_t register_sums, int64_t row_bytes, int64_t a_bytes, bool rounds) {
  constexpr int64_t kFewestSums = 20, kMostBytes = 512 << 10;
  const bool apart = register_sums >= kFewestSums && row_bytes % (kWayBytes / 4) == 0;
  return (apart || rounds) && a_bytes <= kMostBytes;
}

}  // namespace lathe
