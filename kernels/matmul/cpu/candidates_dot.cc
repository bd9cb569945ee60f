// matmul on the CPU for few rows of weights stored N by K: "dot", which streams B once, and "dot_t".
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using streamed::RegisterTile, streamed::Stream, streamed::append_streamed, streamed::fits, streamed::pace_of,
    streamed::unroll_of;

constexpr int64_t kDotMaxM = 64, kWholeDotMaxM = 32, kTurnedDotMaxN = 32;

// Every tile that keeps two FMA units busy (8 accumulators and more) on 32 registers, then those for 16.
constexpr RegisterTile kDotTiles[] = {{1, 1}, {1, 2}, {2, 1},  {2, 2},  {4, 1},  {4, 2},  {8, 2},  {8, 3},
                                      {1, 8}, {1, 6}, {2, 8},  {2, 6},  {3, 6},  {4, 6},  {5, 4},  {6, 4},
                                      {7, 3}, {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {1, 4},
                                      {2, 4}, {3, 3}, {4, 3},  {5, 2},  {6, 2},  {8, 1},  {4, 4},  {3, 8}};
constexpr int32_t kUnrolledBlocks = 2;  // of B: what is fetched ahead is a line of them
// A row that is held to a pace, by one column after the other, of an odd number of lines: in turns of two
// lines every other column is read at two thirds of memory's rate (of bytes by 5120 columns on Zen 4: 45
// lines 0.69 ms in turns of two, 0.50 in turns of one, 46 0.49 and 0.50).
int32_t dot_unroll_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  const bool odd = std::fmod(s.k * s.b_bytes, 128) == 64;
  if (s.m == 1 && t.columns == 1 && odd && rates.pace_bytes_per_second > 0) return 1;
  return unroll_of(t);
}

// Blocks end in the middle of a row of B, where what is read ahead of it is lost (M = 2 on Zen 4: 3.64 ms by
// whole rows, 4.4 in blocks). Weights on huge pages lose less, but nobody knows which they lie on (M = 4 by
// 6144 x 4096, 4x6 by whole rows and 4x1 in blocks: 4.6 and 4.3 ms on huge pages, 5.8 and 7.9 on pages of 4
// KiB). A core that fetches near reads so much faster by whole rows (Zen 5, M = 6: 6x4 1.66 and 1.95 ms), but
// with few columns next to each other, which are fetched near and next (M = 8 8x2 2.20, M = 10 10x2 2.04, M =
// 12 12x2 2.30; M = 4 4x2 2.12).
double blocked_efficiency(const RegisterTile& t, CpuFetch fetch) {
  return fetch == CpuFetch::kNext ? 0.85 : fetch == CpuFetch::kNear ? 0.78 : t.rows < 6 ? 0.8 : 0.9;
}

// Depth of a block of K, of blocks as long as each other: what a pass needs of A takes half of L1, or, where
// what comes next is fetched into L1 (`spread`), all rows of A, a tile's columns and those that are fetched
// take most of it. 0: K is no longer than that.
int32_t block_depth(const CpuRates& rates, const RegisterTile& t, const MatmulSizes& s, bool spread,
                    int32_t block) {
  constexpr double kMost = 0.9;
  const int32_t step = std::max(rates.lanes, block) * rates.k_per_lane;
  const double a_bytes = 4.0 / rates.k_per_lane;  // of an element
  const double spread_bytes = double(round_up(s.m, t.rows)) * a_bytes +
                              double(round_up(kColumnsOn, t.columns) + t.columns) * s.b_bytes;
  const double fit = spread ? kMost * rates.l1d_bytes / spread_bytes
                            : std::floor(rates.l1d_bytes / 2 / (4 * t.rows)) * rates.k_per_lane;
  const int64_t most = static_cast<int64_t>(fit) / step * step;
  if (most >= s.k || most == 0) return 0;
  const int64_t depth = round_up(ceil_div(s.k, ceil_div(s.k, most)), int64_t{step});
  // Rows of A a multiple of a quarter of a way apart share sets of L1 with each other and B's (M = 8 by 4096
  // x 4096 on Zen 5, depth 512 and 688: 4x2 2.12 and 1.78 ms).
  const bool share_sets = spread && depth / rates.k_per_lane * 4 % (kWayBytes / 4) == 0;
  return static_cast<int32_t>(depth + (share_sets ? step : 0));
}

// What all passes read at, of memory's rate, where they meet B's columns one after the other and share out
// fetching those that come next: lines are fetched twice where they do not divide them (f32 by 4096 x 4096 on
// Zen 5: M = 7 7x3 1.79 ms; M = 8 8x3 1.76, 8x1 2.02, 4x2 1.94, 4x4 1.94, 4x6 2.11; M = 4 4x3 2.06, 2x2 2.6,
// 2x4 2.5; M = 3 3x3 2.07; not held to a pace, M = 12: 12x2 2.46, 6x2 2.80, 4x6 2.88).
double spread_efficiency(const MatmulSizes& s, const RegisterTile& t, bool paced) {
  // Parts of a byte's time, of rows for each short of eight or four.
  constexpr double kOnePass = 0.03, kNarrow = 0.16, kOneRow = 0.08, kFree = 0.25;
  constexpr double kPasses = 0.1, kColumn = 0.03, kRow = 0.2;
  const int64_t passes = ceil_div(s.m, t.rows);
  double lost = passes == 1 ? kOnePass + (t.columns < 3 ? kNarrow : 0) + kOneRow * std::max(0, 8 - t.rows)
                            : kPasses + kColumn * std::max(0, t.columns - 2) + kRow * std::max(0, 4 - t.rows);
  if (!paced) lost += kFree;
  return t.columns / double(passes * ceil_div(t.columns, passes)) / (1 + lost);
}

// Conversions that decoding a vector of each column costs as much as. FMAs of several rows hide half of it
// where there are 32 registers, until beyond six rows B's words and the sums take them from each other (by
// 4096 x 4096 on Zen 4, cycles of a vector step beyond the FMAs: 5x2 3, 6x2 4, 4x3 4, 7x3 7, 8x2 6, 10x2 10,
// 11x2 16, 12x2 18; M = 24 8x2 9.5 ms, 11x2 17.0).
double decoded(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kBesideCycles = 1.5, kRowCycles = 2.3;
  constexpr int32_t kFreeRows = 6;
  if (!s.blocks) return 0;
  // Zen 5 has twice the units for integers.
  const double part = (rates.reads_fast() ? 0.5 : 1) / kConvertCycles;
  if (rates.registers < 32 || t.rows == 1) return t.columns * kDecodeCycles * part;
  return (t.columns * kBesideCycles + std::max(0, t.rows - kFreeRows) * kRowCycles) * part;
}

// Bytes a cycle at which `bytes` are read again after `between` others have come by: 0, free, where L1 holds
// both, since what was used last stays (8192 x 1024 on Zen 4, columns by which A's rows are read again: M = 5
// 2 columns 1.23 ms, 4 1.48; M = 4 2 columns 1.40 ms, 6 1.67).
double reread_rate(const CpuRates& rates, double bytes, double between) {
  if (bytes + between <= rates.l1d_bytes) return 0;
  const double rate = rates.reread_bytes_per_cycle(bytes);
  return rate > 0 ? rate : kL2BytesPerCycle;
}

// Cycles of a step of "dot" but for what it waits for.
double dot_arithmetic(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  const double converted = (rates.converts_a ? t.rows : 0) + (rates.converts_b ? t.columns : 0);
  return rates.step_cycles(t.rows * t.columns, t.rows + t.columns, converted + decoded(rates, s, t));
}

// What a pass waits for its first lines: of rows of B that memory has hardly time for (f32, M = 8, 4x6: 630
// cycles by 8192 x 1024, 860 by 4096 x 4096) and of a small weight. Rows that are converted leave it time,
// but where pages end (f16, M = 16, 8x3: 92 cycles by 8192 x 1024, 334 by 4096 x 4096).
constexpr double kFirstLineCycles = 500, kConvertedBytesPerCycle = 28;

// Whether the lines that L1 takes in a step of A and of B fit beside the step's arithmetic, all but a pass's
// first (M = 8 by 4096 x 4096 on Zen 4: 4x6 26 cycles a step, 10 lines beside 24 FMAs; by 8192 x 1024 34): L2
// must hold A, the columns and those that come next (by 2048 x 14336: 61).
bool lines_fit(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double k) {
  constexpr double kRoom = 0.85, kHeld = 0.6;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double lines = width * (t.rows * s.input_bytes + t.columns * s.b_bytes);
  return lines / kL2BytesPerCycle <= kRoom * dot_arithmetic(rates, s, t) &&
         k * (s.m * s.input_bytes + 2 * t.columns * s.b_bytes) <= kHeld * rates.l2_bytes;
}

// By 4096 x 4096 on Zen 5 (40 GB/s), kNext, kNear and kBoth, near being 1 KiB then and none held, in ms: of
// whole rows 2x4 2.24, 2.12, 2.37; 4x6 2.64, 2.31, 2.62; 6x4 3.02, 2.48, 2.84; of f16 4x6 1.42, 1.12, 1.24;
// in two passes 1.58, 1.92, 1.86. In blocks 5x4 2.70, 2.31, 2.82; 7x3 3.39, 2.79, 2.54; 8x3 2.65, 2.90, 2.59;
// 10x2 2.96, 3.82, 2.61. Zen 4 (25 GB/s), kNext and kNear: of whole rows 2x4 2.80, 3.19; 2x8 2.68, 3.43;
// 3x6 2.61, 3.75; 4x6 2.85, 3.93. One row there, kNext and kAhead: by 4096 x 14336 8.52 and 8.33, by 4097 x
// 4095 2.52 and 2.39, 1x1 by 24576 x 1536 6.98 and 5.67; of bf16 1x1 by 6144 x 4096 2.01 and 1.82. One pass
// of more rows, held to memory's rate: 3x8 by 8192 x 1024 1.23 and 1.08, by 6144 x 4096 3.13 and 3.05, 5x4 by
// 6144 x 4096 3.08 and 3.33, by 7168 x 8192 8.18 and 7.80; by 4096 x 14336, where L2 loses the next columns
// before they are read, 2x8 11.2 and 7.4, 3x8 15.9 and 7.5, 4x6 8.2 and 7.4, 5x4 8.3 and 7.6. In two passes
// 2x8 by 6144 x 4096 4.2 and 7.0. On Zen 3, whose buffers fetching holds (ahead_bytes_per_second), kNone and
// kAhead, one row: 1x8 by 4096 x 4096 3.74 and 4.5 ms, by 5760 x 2880 3.72 and 4.3, by 8192 x 1024 2.0
// and 2.42; kNone and kNext: 2x6 4.41 and 4.73, 4.27 and 4.15, 2.37 and 2.38; 4x3 4.63 and 4.60, 5.06
// and 4.62, 3.13 and 2.92.
CpuFetch fetch_of(const CpuRates& rates, const RegisterTile& t, const MatmulSizes& s, bool is_small,
                  bool in_blocks) {
  if (!rates.reads_fast()) {
    constexpr double kLost = 0.2;  // of L2, from where lines are fetched to where they are read
    const bool nothing_next = s.n <= 2 * t.columns;
    const bool lost = s.k * (t.columns * s.b_bytes + s.m * s.input_bytes) > kLost * rates.l2_bytes;
    const bool is_paced = rates.pace_bytes_per_second > 0 && !s.blocks;
    const bool one_pass = is_paced && t.rows >= s.m && (s.m <= 3 || lost);
    const CpuFetch own = rates.loses_by_fetching() ? CpuFetch::kNone : CpuFetch::kAhead;
    return (s.m == 1 || nothing_next || one_pass) && !in_blocks ? own : CpuFetch::kNext;
  }
  // Rows that are converted as they come by leave the core's prefetchers behind (M = 1 over own f32 on Zen 5,
  // fetched near and not at all: f16 1.67x and 1.18x, q4_0 3.5x and 1.8x).
  if (s.m == 1 && !in_blocks && !rates.converts_b && !s.blocks) return CpuFetch::kNone;
  if (t.rows >= s.m && t.columns >= (is_small ? 2 : 4)) return CpuFetch::kNear;
  if (!in_blocks) return CpuFetch::kNext;
  return t.rows >= s.m && t.columns < 3 ? CpuFetch::kBoth : CpuFetch::kSpread;
}

// A single row by one column after the other reads B in the order it lies in. Side by side each column's
// bytes are a run of their own, at whose end what was fetched ahead is lost (M = 1 on Zen 4, 1 column and 8:
// 32768 x 512 2.35 and 3.29 ms, 7168 x 2048 2.43 and 1.84, where the one column waits for its sum; of bytes
// 0.60 and 1.26, 2880 x 4096 0.43 and 0.51). The fewer columns, the nearer is what is fetched ahead (8 and 4:
// 24576 x 1536 5.75 and 6.7 ms, f16 4.07 and 5.74, 7168 x 2048 2.04 and 2.35, 5760 x 2880 2.39 and 2.60). A
// core that reads_fast() waits where pages end, too (by 4096 x 4096, 8, 6 and 4 columns: Zen 5, 40
// GB/s, with one row 1.85, 1.76, 1.75 ms, with two 2.37, 2.17, 2.03; Zen 4, 25 GB/s, with
// one 2.05, 2.01, 2.21). Where L1 does not hold A's rows they come from L2 again, in the way of what is
// fetched of B (5x4 by whole rows and in blocks: Zen 5 2.9 and 2.3 ms, Zen 4 3.0 and 2.8), less where B is
// fetched near (5x4 by whole rows 2.5). Such a core without it loses more (1x2 2.08 ms, 1x4 and 1x6
// near 1.98).
double stream_efficiency(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, CpuFetch fetch,
                         bool paced, bool is_small) {
  constexpr double kLostBytes = 600;
  constexpr double kRunSeconds = 3e-12;  // of a byte, for each run beyond four
  constexpr double kWaiting = 0.06;      // of a byte's time
  constexpr double kNarrow = 0.025;      // of it, for each column short of eight
  // Held to memory's rate (Zen 4): M = 2 to 5 by 6144 x 4096 takes 1.0 to 1.1 of M = 1's time; by 24576 x
  // 1536, M = 2, 2x8 5.09 and 2x2 5.67 ms, M = 3, 3x8 5.22 and 2x2 6.31; by 8192 x 1024, M = 3, 3x8 1.24, 3x3
  // 1.51, M = 4, 4x6 1.11 and in two passes 2x8 1.28.
  constexpr double kPacedRows = 0.05, kPacedNarrow = 0.012, kPacedPass = 0.1;
  // A small weight's first columns nobody fetched (by 17 x 8191, M = 5, 5x4 24 us, 3x6 29, 5x2 34; by 8 x
  // 4096, M = 8, 4x4, which fetches its own, 9.0, 4x3 9.9, 8x2 12.1).
  constexpr double kSmallPacedPass = 0.25, kSmallPacedRows = 0.09, kSmallRows = 0.2;
  const bool near = fetches_near(fetch);
  const double row_seconds = near ? 2.5e-12 : 4.1e-12;  // of a byte of B, for each of A's from L2
  const double a_row = s.k * s.input_bytes, b_row = s.k * s.b_bytes, rate = rates.core_bytes_per_second;
  // A core that reads fast reads one row by its own prefetchers, four columns side by side (Zen 5, 1, 2, 4, 6
  // and 8 columns: by 4096 x 4096 1.68, 1.44, 1.39, 1.57, 1.69 ms, by 8192 x 1024 0.84, -, 0.75, 0.74, 0.81,
  // by 1280 x 8192 1.05, -, 0.95, 1.10, 1.20; 4 fetched near 1.74, 0.90, 1.05).
  if (s.m == 1 && fetch == CpuFetch::kNone && rates.reads_fast()) {
    constexpr double kFewer = 0.04, kMore = 0.03, kAlone = 0.1;
    return 1 / (1 + kLostBytes / 8 / b_row + (t.columns == 1 ? kAlone : 0) +
                (t.columns < 4 ? (4 - t.columns) / 2.0 * kFewer : (t.columns - 4) * kMore));
  }
  // Several rows, held to its rate and fetched near (by 4096 x 4096 on Zen 5: M = 2 2x4 1.61, 2x8 1.48 ms, 3
  // 3x6 and 3x8 1.45, 4 4x4 1.61, 4x6 1.55, 5 5x4 1.65, 6 6x4 1.66).
  if (paced && near) {
    constexpr double kHeld = 0.02, kFewer = 0.012;
    return 1 / (1 + kHeld + std::max(0, 8 - t.columns) * kFewer);
  }
  double lost = std::max(0, t.columns - 4) * kRunSeconds * std::max(0.0, rate - kHiddenRate);
  if (s.m == 1 && t.columns > 1) lost += kLostBytes / b_row;
  // A column alone whose rows begin anywhere in a line, so that every vector lies in two (by 17 x 8191 on Zen
  // 4 1x1 33 us, 1x6 24).
  constexpr double kSplitLines = 0.4;
  if (s.m == 1 && t.columns == 1 && std::fmod(b_row, 64) != 0) lost += kSplitLines;
  if (paced)
    lost += std::max(0, 8 - t.columns) * kPacedNarrow +
            double(ceil_div(s.m, t.rows) - 1) * (is_small ? kSmallPacedPass : kPacedPass);
  if (s.m == 1 && t.columns > 1 && !near) lost += std::max(0, 8 - t.columns) * kNarrow;
  if (!near && rates.reads_fast()) lost += kWaiting;
  const double small_rows = paced ? kSmallPacedRows : fetches_next(fetch) || near ? kSmallRows : 0;
  const double row_lost = is_small ? small_rows : paced ? kPacedRows : row_seconds * rate;
  if (s.m * a_row + t.columns * b_row > rates.l1d_bytes && !lines_fit(rates, s, t, s.k))
    lost += row_lost * t.rows * a_row / (t.columns * b_row);
  return 1 / (1 + lost);
}

// Whether every task of whole rows copies A.
bool copies_a(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  return !s.blocks &&
         dot_copies_a(t.rows * t.columns, static_cast<int64_t>(s.k * s.b_bytes),
                      round_up(s.m, t.rows) * s.k * 4 / rates.k_per_lane, rates.rounds_a && !s.narrow_a);
}
constexpr double kPackCycles = 3;  // of a vector of A that a task copies

// Cycles of `n` columns of D against `k` of K, all rows. Every pass over the rows reads A again, and every
// pass but the first its group of B, from whatever cache holds them: these fetches compete with those from
// memory and add to the arithmetic unless that leaves room (M = 8, 8x3, K = 4096 on Zen 4: 48 cycles a step,
// where the FMAs take 24, A out of L2 16 and memory 21). Where caches hold what is streamed too (`cached`)
// they compete with nothing (8 columns, K = 4096, M = 32: 4x4 24 cycles a step, 4x6 by 17 columns 29), but a
// pass over a small weight waits for its first lines as one whose lines fit does.
double dot_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, bool cached,
                  bool is_small, bool copies, double n, double k) {
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double passes = ceil_div(s.m, t.rows), vectors = std::ceil(k / width);
  const double accumulators = t.rows * t.columns;
  const double vector_bytes = width * s.input_bytes, b_vector_bytes = width * s.b_bytes;
  const double a_bytes = s.m * k * s.input_bytes, b_bytes = t.columns * k * s.b_bytes;
  const double a_rate = reread_rate(rates, a_bytes, b_bytes);
  const double b_rate = reread_rate(rates, b_bytes, t.rows * k * s.input_bytes);
  const double a_cycles = a_rate > 0 ? t.rows * vector_bytes / a_rate : 0;
  const double b_cycles = b_rate > 0 ? (passes - 1) / passes * t.columns * b_vector_bytes / b_rate : 0;
  const double arithmetic = dot_arithmetic(rates, s, t);
  const bool fits = a_rate > 0 && lines_fit(rates, s, t, k);
  constexpr double kHeld = 0.9;  // of L2: one side and the other's group, this one and the next
  // Rows that begin anywhere in a line take more lines than are counted.
  const bool aligned = std::fmod(s.k * s.b_bytes, 64) == 0;
  const bool held = cached && !(fits && aligned) && a_bytes + 2 * b_bytes <= kHeld * rates.l2_bytes;
  const double lines = (t.rows * vector_bytes + t.columns * b_vector_bytes) / kL2BytesPerCycle;
  const double step = held && a_rate > 0 ? CpuRates::overlap(arithmetic, lines)
                      : fits             ? arithmetic
                                         : arithmetic + a_cycles + b_cycles;
  // At the end the lanes of every sum are added: log2(lanes) shuffles and adds on one port.
  const double first_lines = !fits && !(held && is_small) ? 0
                             : (rates.converts_b || s.blocks) && !is_small
                                 ? k * s.b_bytes / kConvertedBytesPerCycle
                                 : kFirstLineCycles;
  const double reduce = accumulators * (std::log2(rates.lanes) + 1) + first_lines;
  const double copy = copies ? s.m * vectors * kPackCycles : 0;
  return std::ceil(n / t.columns) * passes * (vectors * step + reduce) + copy;
}

// The same in blocks of K: A comes packed from L1. A register tile's sums are loaded and stored with every
// block, in two cycles each (M = 64, 8x2 and 8x3 in blocks of 512 on Zen 4: 86 and 82 % of the FMA rate).
double blocked_dot_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, CpuFetch fetch,
                          double depth, double n, double k) {
  constexpr double kCarryCycles = 2;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double passes = ceil_div(s.m, t.rows), vectors = std::ceil(k / width);
  const double accumulators = t.rows * t.columns, loads = t.rows + t.columns;
  // All passes but the first find B in L2, half of which shows (M = 12 by 3584 x 3584 on Zen 4: 12x2 3.60 ms,
  // 6x4 4.14), or in L1.
  const double again = fetch == CpuFetch::kSpread
                           ? 0
                           : (passes - 1) / passes * t.columns * width * s.b_bytes / kL2BytesPerCycle;
  const double converted = s.blocks ? decoded(rates, s, t) : rates.converts_b ? t.columns : 0;
  const double step = rates.step_cycles(accumulators, loads, converted) + 0.5 * again;
  const double a_cycles = t.rows * rates.lanes * 4 / kL2BytesPerCycle * t.columns / dot_group_columns(fetch);
  const double carry = std::ceil(k / depth) * accumulators * kCarryCycles;
  // Lanes are added after a transposition: log2(lanes) shuffles and one add a sum.
  const double reduce = accumulators * (std::log2(rates.lanes) + 1);
  const double pack = s.m * k / width * kPackCycles;
  return std::ceil(n / t.columns) * passes * (vectors * (step + a_cycles) + carry + reduce) + pack;
}

// A row by itself against rows that are converted, one after the other in vectors of kWideVectors, so that as
// many chains of sums hide an FMA's latency: read in the order they lie in, lines fetched 5 KiB ahead, a core
// that reads fast has them at 0.85 to 0.97 of f32's rate, four columns side by side, fetched near, at 0.58 to
// 0.75 (Zen 5 in C, f32, side by side, and one after the other: by 4096 x 4096 44.6, 33.2 and 39.9 GB/s, by
// 8192 x 1024 47.7, 27.7 and 46.0, by 5760 x 2880 46.4, 34.7 and 42.3). A row of A that L1 does not hold
// comes from L2 with each of them (by 4096 x 14336 41.3, 33.7 and 28.5).
constexpr int32_t kWideVectors = 4;
void append_wide(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                 CompileConfig config, const std::string& recipe, std::vector<RankedPlan>* out) {
  constexpr double kRate = 0.9, kRateFromL2 = 0.65, kMost = 0.75;
  config.register_m = config.register_n = config.unroll_k = 1;
  config.lanes = kWideVectors * rates.lanes;
  config.prefetch = static_cast<int32_t>(CpuFetch::kFar);
  config.copy_rows = copies_a(rates, s, {1, 1});
  Stream stream{s.k * 4 <= kMost * rates.l1d_bytes ? kRate : kRateFromL2, /*paced=*/true};
  stream.short_tasks = stream.rows_cached = true;
  append_streamed(
      context, rates, s, config, stream, recipe,
      [&](double n, double k) {
        return n * (std::ceil(k / config.lanes) *
                        rates.step_cycles(kWideVectors, 2 * kWideVectors, kWideVectors) +
                    std::log2(config.lanes) + 1);
      },
      out);
}

// Every tile of "dot", or of "dot_t", of which `s` and `rates` are turned. `cached`: how many times as fast
// as from memory what is streamed comes.
void enumerate_dot(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                   double cached, CompileConfig config, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const auto recipe_of = [&](int32_t lanes) -> std::string {
    if (!is_float(c.a)) return kExactRecipe;
    return absl::StrCat(rates.product_recipe(), " in ", lanes,
                        " lanes; K ascending, lanes summed at the end");
  };
  const std::string recipe = recipe_of(rates.lanes);
  const bool is_small = cached == 1 && double(s.n) * double(s.k) * s.b_bytes <= rates.l2_bytes;
  const bool in_cache = cached > 1 || is_small;
  if (s.m == 1 && rates.converts_b && rates.reads_fast() && !in_cache)
    append_wide(context, rates, s, config, recipe_of(kWideVectors * rates.lanes), out);
  for (const RegisterTile& t : kDotTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns;
    // Of the shorter side, unless more than its products is made of B's.
    const int32_t held = s.blocks ? 3 * t.columns : c.zero_a ? 2 * t.columns : std::min(t.rows, t.columns);
    if (!fits(context, rates, s, t, config, out, held)) continue;
    config.unroll_k = s.blocks ? kUnrolledBlocks : dot_unroll_of(rates, s, t);
    if (s.m <= kWholeDotMaxM) {
      const CpuFetch fetch = fetch_of(rates, t, s, is_small, /*in_blocks=*/false);
      config.prefetch = static_cast<int32_t>(fetch);
      config.copy_rows = copies_a(rates, s, t);
      // A small weight that many rows or several passes meet is not held where a core reads fast (M = 8 by 32
      // x 2880 on Zen 5: 8x3, fetched near, 18.5 and free 17.5 us; M = 4 4x6 11.6, free 15.2).
      const bool free = is_small && rates.reads_fast() && (t.rows < s.m || t.rows >= 8);
      config.pace = cached > 1 || free ? 0 : pace_of(rates, s, t, config.unroll_k);
      Stream stream{cached, config.pace > 0 && s.m > 1};  // a single row gains nothing by a pace
      stream.efficiency *= stream_efficiency(rates, s, t, fetch, stream.paced, is_small);
      // A group's first pass alone reads from memory; the others fetch for the next group, if anything does,
      // and of a small weight's few groups the last has none.
      stream.after = 1 - 1.0 / ceil_div(s.m, t.rows);
      if (fetches_next(fetch) || fetches_near(fetch))
        stream.after *= is_small ? 1.0 / ceil_div(s.n, t.columns) : 0;
      stream.rows_cached = is_small;
      // Whole rows in tasks of 256 KiB and of a quarter of B (Zen 5; the cause was not found): M = 1 by 4096
      // x 4096 1.39 and 1.60 ms, by 5760 x 2880 1.46 and 1.52; M = 2 1.55 and 1.64, by 8192 x 1024 0.74 and
      // 0.85; M = 4 by 5760 x 2880 1.54 and 1.66. Where each copies A, M = 5 by 4096 x 4096, 1.90 and 1.73.
      const bool few_copied = rates.rounds_a && s.m <= 2;
      stream.short_tasks =
          rates.reads_fast() && !is_small && cached == 1 && (few_copied || config.copy_rows == 0);
      if (stream.short_tasks) stream.rows_cached = true;  // all but the first find A in L2
      append_streamed(
          context, rates, s, config, stream, recipe,
          [&](double n, double k) {
            return dot_cycles(rates, s, t, in_cache, is_small, config.copy_rows, n, k);
          },
          out);
      config.pace = config.copy_rows = 0;
    }
    // Blocks gain nothing with few columns' weights (17 columns by 8191, M = 512 on Zen 4: 3x9 in blocks 2.37
    // ms, 4x6 by whole rows 1.84; M = 8 by 256 x 1024 68 and 61 us; bytes, M = 16 by 32 x 2880 16.4 and 10.5,
    // by 64 x 4096 39 and 29), nor with a single row that is held to a pace (M = 1: 27.4 us, 23.9).
    const CpuFetch block_fetch = fetch_of(rates, t, s, is_small, /*in_blocks=*/true);
    const bool spread = block_fetch == CpuFetch::kSpread;
    if (const int32_t depth = block_depth(rates, t, s, spread, static_cast<int32_t>(block_elements(c.b)));
        depth > 0 && c.zero_a == 0 && config.kernel == KernelKind::kDot &&
        !(is_small && s.m <= kWholeDotMaxM) && (s.m > 1 || rates.pace_bytes_per_second == 0)) {
      config.tile_k = depth;
      config.prefetch = static_cast<int32_t>(block_fetch);
      if (spread) config.pace = pace_of(rates, s, t, config.unroll_k);
      // A row in two parts gains little (M = 8 by 8192 x 1024 on Zen 5, in blocks and by whole rows: 0.98 and
      // 0.84 ms, on huge pages 1.10 and 1.20).
      constexpr double kTwoParts = 0.9;
      const double parts = rates.reads_fast() && s.k <= 2.0 * depth ? kTwoParts : 1;
      const double efficiency =
          parts * (spread ? spread_efficiency(s, t, config.pace > 0) : blocked_efficiency(t, block_fetch));
      append_streamed(
          context, rates, s, config, {efficiency, config.pace > 0 || block_fetch == CpuFetch::kBoth}, recipe,
          [&](double n, double k) { return blocked_dot_cycles(rates, s, t, block_fetch, depth, n, k); }, out);
      config.tile_k = config.pace = 0;
    }
  }
}

}  // namespace

int32_t streamed::pace_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t,
                          int32_t unroll) {
  if (rates.pace_bytes_per_second == 0 || s.blocks || (s.m == 1 && rates.reads_fast())) return 0;
  const double bytes = double(unroll) * t.columns * rates.lanes * rates.k_per_lane * s.b_bytes;
  const double cycles = std::min<double>(
      kMostPace, bytes * rates.clock_hz / rates.pace_bytes_per_second / ceil_div(s.m, t.rows));
  if (cycles <= unroll * dot_arithmetic(rates, s, t)) return 0;
  const int64_t grain = bytes > 64 && !rates.reads_fast() ? kPaceLinkCycles : kPaceHalfLinkCycles;
  return static_cast<int32_t>(std::lround(cycles / grain) * grain);
}

void enumerate_matmul_dot(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  CpuRates rates(context);
  MatmulSizes s(c);
  CompileConfig config;
  config.kernel = KernelKind::kDot;
  config.lanes = rates.lanes;
  const auto both = [&](auto... reason) {
    for (KernelKind kernel : {KernelKind::kDot, KernelKind::kDotT}) {
      config.kernel = kernel;
      reject(context, config, out, reason...);
    }
  };
  if (!operands_refusal(c).empty()) return both(operands_refusal(c));
  if (c.trans_b == 0) return both("B is not K-contiguous");
  if (c.trans_a != 0) return both("A is not K-contiguous");
  if (s.batch_invariant && is_float(c.a)) return both("batch_invariant: rows of larger M come from panels");
  if (c.m_hi > kDotMaxM) {
    reject(context, config, out, "M ", c.m_hi, " > ", kDotMaxM);
  } else {
    MatmulSizes copied = s;
    if (rates.rounds_a) copied.input_bytes = copied.b_bytes;
    enumerate_dot(context, rates, copied, 1, config, out);
  }

  config.kernel = KernelKind::kDotT;
  if (s.blocks || c.zero_a != 0) return reject(context, config, out, "B in blocks, or a zero point of A");
  if (c.n > kTurnedDotMaxN) return reject(context, config, out, "N ", c.n, " > ", kTurnedDotMaxN);
  if (s.m <= c.n) return reject(context, config, out, "M ", s.m, " <= N ", c.n, ": B is what is streamed");
  std::swap(s.m, s.n);
  std::swap(s.input_bytes, s.b_bytes);
  std::swap(s.narrow_a, s.narrow_b);
  std::swap(rates.converts_a, rates.converts_b);
  rates.converts_b |= rates.rounds_a;
  // Activations were just written: where L3 holds them they come from there.
  const double l3_rate = kL3BytesPerCycle * rates.clock_hz / rates.core_bytes_per_second;
  const bool in_l3 = double(s.n) * double(s.k) * s.b_bytes <= rates.l3_bytes / 2;
  enumerate_dot(context, rates, s, in_l3 ? std::max(1.0, l3_rate) : 1, config, out);
}

}  // namespace lathe
