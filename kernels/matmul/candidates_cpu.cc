// matmul on the CPU for few rows: "dot", "outer" and "bytes", which stream B once.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/dot.h"

namespace lathe {
namespace {

constexpr int64_t kDotMaxM = 64, kWholeDotMaxM = 32, kTurnedDotMaxN = 32, kOuterMaxM = 16,
                  kBlockedOuterMaxM = 64, kSmallOuterMaxM = 128;

struct RegisterTile {
  int32_t rows, columns;  // dot: rows of B; outer: vectors along N
};
// Every tile that keeps two FMA units busy (8 accumulators and more) on 32 registers, then those for 16.
constexpr RegisterTile kDotTiles[] = {{1, 1}, {1, 2}, {2, 1},  {2, 2},  {4, 1},  {4, 2},  {8, 2},  {8, 3},
                                      {1, 8}, {1, 6}, {2, 8},  {2, 6},  {3, 6},  {4, 6},  {5, 4},  {6, 4},
                                      {7, 3}, {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {1, 4},
                                      {2, 4}, {3, 3}, {4, 3},  {5, 2},  {6, 2},  {8, 1},  {4, 4},  {3, 8}};
constexpr RegisterTile kOuterTiles[] = {{1, 15}, {2, 10}, {3, 7},  {4, 6},  {5, 5},  {6, 4},
                                        {7, 3},  {8, 3},  {10, 2}, {12, 2}, {14, 2}, {1, 7},
                                        {2, 4},  {3, 3},  {4, 3},  {6, 2},  {8, 2},  {16, 1}};
constexpr double kStreamBytes = 256 << 10;  // a task streams about this much of B at least
constexpr int64_t kMaxTileN = 4096;
// Rows of B in a block of "outer" for more rows of A than kOuterMaxM, and a task's columns then: sums come
// and go half as often as with blocks of 64, and L2 holds them beside this block and the next (M = 64 on
// Zen 4, by 4096 x 4096, 5760 x 2880 and 1280 x 8192, GFLOP/s: 64 deep and a thousand columns 103, 103, 102;
// 128 deep and 240 columns 107, 109, 108, 336 columns 100 at worst, 1056 103, 105; 256 and 144 107, 110,
// 108).
constexpr int32_t kDeepBlock = 128;
constexpr int64_t kDeepColumns = 240;

// Whether the tile's sums have registers and rows; appends why not. `held`: vectors beside its sums that stay
// in registers for a step.
bool fits(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t,
          CompileConfig config, std::vector<RankedPlan>* out, int32_t held) {
  if (config.kernel == "dot_t") std::swap(config.register_m, config.register_n);
  const int32_t need = t.rows * t.columns + held + 1;
  if (need > rates.registers)
    reject(context, config, out, "registers ", need, " > ", rates.registers);
  else if (t.rows > s.m)
    reject(context, config, out, "register rows ", t.rows, " > M ", s.m);
  else
    return true;
  return false;
}

// Tiles of few sums leave the loop over k short: two steps of it a turn.
constexpr int32_t kUnrolledBlocks = 2;  // of B: what is fetched ahead is a line of them
int32_t unroll_of(const RegisterTile& t) { return t.rows * t.columns <= 8 ? 2 : 1; }
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
// KiB). A core that fetches near reads so much faster by whole rows (Zen 5: 4x6 2.31 and 2.50 ms, 6x4 2.48
// and 2.66; in blocks 8x3 2.59, 10x2 2.61).
double blocked_efficiency(DotFetch fetch) {
  return fetch == DotFetch::kNext ? 0.85 : fetch == DotFetch::kNear ? 0.78 : 0.75;
}

// Depth of a block of K, of blocks as long as each other: what it needs of A takes half of L1. 0: K is no
// longer than that.
int32_t block_depth(const CpuRates& rates, const RegisterTile& t, int32_t block, int64_t k) {
  const int32_t step = std::max(rates.lanes, block) * rates.k_per_lane;
  const int64_t most =
      static_cast<int64_t>(rates.l1d_bytes / 2 / (4 * t.rows)) * rates.k_per_lane / step * step;
  if (most >= k || most == 0) return 0;
  return static_cast<int32_t>(round_up(ceil_div(k, ceil_div(k, most)), int64_t{step}));
}

// Conversions that decoding a vector of each column costs as much as. FMAs of several rows hide half of it
// where there are 32 registers, until beyond six rows B's words and the sums take them from each other (by
// 4096 x 4096 on Zen 4, cycles of a vector step beyond the FMAs: 5x2 3, 6x2 4, 4x3 4, 7x3 7, 8x2 6, 10x2 10,
// 11x2 16, 12x2 18; M = 24 8x2 9.5 ms, 11x2 17.0).
double decoded(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kBesideCycles = 1.5, kRowCycles = 2.3;
  constexpr int32_t kFreeRows = 6;
  if (!s.blocks) return 0;
  if (rates.registers < 32 || t.rows == 1) return t.columns * kDecodeCycles / kConvertCycles;
  return (t.columns * kBesideCycles + std::max(0, t.rows - kFreeRows) * kRowCycles) / kConvertCycles;
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

// Whether the lines that L1 takes in a step of A and of B fit beside the step's arithmetic, all but a pass's
// first (M = 8 by 4096 x 4096 on Zen 4: 4x6 26 cycles a step, 10 lines beside 24 FMAs; by 8192 x 1024 34): L2
// must hold A, the columns and those that come next (by 2048 x 14336: 61).
// What a pass waits for its first lines: of rows of B that memory has hardly time for (f32, M = 8, 4x6: 630
// cycles by 8192 x 1024, 860 by 4096 x 4096) and of a small weight. Rows that are converted leave it time,
// but where pages end (f16, M = 16, 8x3: 92 cycles by 8192 x 1024, 334 by 4096 x 4096).
constexpr double kFirstLineCycles = 500, kConvertedBytesPerCycle = 28;
bool lines_fit(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double k) {
  constexpr double kRoom = 0.85, kHeld = 0.6;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double lines = width * (t.rows * s.input_bytes + t.columns * s.b_bytes);
  return lines / kL2BytesPerCycle <= kRoom * dot_arithmetic(rates, s, t) &&
         k * (s.m * s.input_bytes + 2 * t.columns * s.b_bytes) <= kHeld * rates.l2_bytes;
}

// A core that reads faster than this waits where pages and rows end.
constexpr double kHiddenRate = 30e9;

// By 4096 x 4096 on Zen 5 (40 GB/s), kNext, kNear and kBoth, in ms: of whole rows 2x4 2.24, 2.12, 2.37;
// 4x6 2.64, 2.31, 2.62; 6x4 3.02, 2.48, 2.84; of f16 4x6 1.42, 1.12, 1.24; in two passes 1.58, 1.92, 1.86. In
// blocks 5x4 2.70, 2.31, 2.82; 7x3 3.39, 2.79, 2.54; 8x3 2.65, 2.90, 2.59; 10x2 2.96, 3.82, 2.61. Zen 4 (25
// GB/s), kNext and kNear: of whole rows 2x4 2.80, 3.19; 2x8 2.68, 3.43; 3x6 2.61, 3.75; 4x6 2.85, 3.93. One
// row there, kNext and kAhead: by 4096 x 14336 8.52 and 8.33, by 4097 x 4095 2.52 and 2.39, 1x1 by 24576 x
// 1536 6.98 and 5.67; of bf16 1x1 by 6144 x 4096 2.01 and 1.82. One pass of more rows, held to memory's rate:
// 3x8 by 8192 x 1024 1.23 and 1.08, by 6144 x 4096 3.13 and 3.05, 5x4 by 6144 x 4096 3.08 and 3.33, by 7168 x
// 8192 8.18 and 7.80; by 4096 x 14336, where L2 loses the next columns before they are read, 2x8 11.2
// and 7.4, 3x8 15.9 and 7.5, 4x6 8.2 and 7.4, 5x4 8.3 and 7.6. In two passes 2x8 by 6144 x 4096 4.2 and 7.0.
DotFetch fetch_of(const CpuRates& rates, const RegisterTile& t, const MatmulSizes& s, bool in_blocks) {
  if (rates.core_bytes_per_second <= kHiddenRate) {
    constexpr double kLost = 0.2;  // of L2, from where lines are fetched to where they are read
    const bool nothing_next = s.n <= 2 * t.columns;
    const bool lost = s.k * (t.columns * s.b_bytes + s.m * s.input_bytes) > kLost * rates.l2_bytes;
    const bool is_paced = rates.pace_bytes_per_second > 0 && !s.blocks;
    const bool one_pass = is_paced && t.rows >= s.m && (s.m <= 3 || lost);
    return (s.m == 1 || nothing_next || one_pass) && !in_blocks ? DotFetch::kAhead : DotFetch::kNext;
  }
  if (t.rows >= s.m && t.columns >= 4) return DotFetch::kNear;
  return in_blocks ? DotFetch::kBoth : DotFetch::kNext;
}

// A single row by one column after the other reads B in the order it lies in. Side by side each column's
// bytes are a run of their own, at whose end what was fetched ahead is lost (M = 1 on Zen 4, 1 column and 8:
// 32768 x 512 2.35 and 3.29 ms, 7168 x 2048 2.43 and 1.84, where the one column waits for its sum; of bytes
// 0.60 and 1.26, 2880 x 4096 0.43 and 0.51). The fewer columns, the nearer is what is fetched ahead (8 and 4:
// 24576 x 1536 5.75 and 6.7 ms, f16 4.07 and 5.74, 7168 x 2048 2.04 and 2.35, 5760 x 2880 2.39 and 2.60). A
// faster core than kHiddenRate waits where pages end, too (by 4096 x 4096, 8, 6 and 4 columns: Zen 5, 40
// GB/s, with one row 1.85, 1.76, 1.75 ms, with two 2.37, 2.17, 2.03; Zen 4, 25 GB/s, with
// one 2.05, 2.01, 2.21). Where L1 does not hold A's rows they come from L2 again, in the way of what is
// fetched of B (5x4 by whole rows and in blocks: Zen 5 2.9 and 2.3 ms, Zen 4 3.0 and 2.8), less where B is
// fetched near (5x4 by whole rows 2.5). Such a core without it loses more (1x2 2.08 ms, 1x4 and 1x6
// near 1.98).
double stream_efficiency(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, DotFetch fetch,
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
  if (!near && rate > kHiddenRate) lost += kWaiting;
  const double small_rows = paced ? kSmallPacedRows : fetch == DotFetch::kAhead ? 0 : kSmallRows;
  const double row_lost = is_small ? small_rows : paced ? kPacedRows : row_seconds * rate;
  if (s.m * a_row + t.columns * b_row > rates.l1d_bytes && !lines_fit(rates, s, t, s.k))
    lost += row_lost * t.rows * a_row / (t.columns * b_row);
  return 1 / (1 + lost);
}

// Cycles that a turn is held to, in whole links of its chain, or half ones where it is a line: its share of
// what a line of each column takes at the pace, where its arithmetic is done sooner.
int32_t pace_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, int32_t unroll) {
  if (rates.pace_bytes_per_second == 0 || s.blocks) return 0;
  const double bytes = double(unroll) * t.columns * rates.lanes * rates.k_per_lane * s.b_bytes;
  const double cycles = std::min<double>(
      kMostPace, bytes * rates.clock_hz / rates.pace_bytes_per_second / ceil_div(s.m, t.rows));
  if (cycles <= unroll * dot_arithmetic(rates, s, t)) return 0;
  const int64_t grain = bytes > 64 ? kPaceLinkCycles : kPaceHalfLinkCycles;
  return static_cast<int32_t>(std::lround(cycles / grain) * grain);
}

constexpr double kPackCycles = 3;  // of a vector of A that a task copies

// Cycles of `n` columns of D against `k` of K, all rows. Every pass over the rows reads A again, and every
// pass but the first its group of B, from whatever cache holds them: these fetches compete with those from
// memory and add to the arithmetic unless that leaves room (M = 8, 8x3, K = 4096 on Zen 4: 48 cycles a step,
// where the FMAs take 24, A out of L2 16 and memory 21). Where caches hold what is streamed too (`cached`)
// they compete with nothing (8 columns, K = 4096, M = 32: 4x4 24 cycles a step, 4x6 by 17 columns 29), but a
// pass over a small weight waits for its first lines as one whose lines fit does.
double dot_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, bool cached,
                  bool is_small, double n, double k) {
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
  const bool copies =
      !s.blocks && dot_copies_a(t.rows * t.columns, static_cast<int64_t>(s.k * s.b_bytes),
                                static_cast<int64_t>(passes * t.rows * s.k * 4) / rates.k_per_lane);
  const double copy = copies ? s.m * vectors * kPackCycles : 0;
  return std::ceil(n / t.columns) * passes * (vectors * step + reduce) + copy;
}

// The same in blocks of K: A comes packed from L1. A register tile's sums are loaded and stored with every
// block, in two cycles each (M = 64, 8x2 and 8x3 in blocks of 512 on Zen 4: 86 and 82 % of the FMA rate).
double blocked_dot_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth,
                          double n, double k) {
  constexpr double kGroupColumns = 48;  // of the emitter
  constexpr double kCarryCycles = 2;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double passes = ceil_div(s.m, t.rows), vectors = std::ceil(k / width);
  const double accumulators = t.rows * t.columns, loads = t.rows + t.columns;
  // All passes but the first find B in L2, half of which shows (M = 12 by 3584 x 3584 on Zen 4: 12x2 3.60 ms,
  // 6x4 4.14).
  const double again = (passes - 1) / passes * t.columns * width * s.b_bytes / kL2BytesPerCycle;
  const double converted = s.blocks ? decoded(rates, s, t) : rates.converts_b ? t.columns : 0;
  const double step = rates.step_cycles(accumulators, loads, converted) + 0.5 * again;
  const double a_cycles = t.rows * rates.lanes * 4 / kL2BytesPerCycle * t.columns / kGroupColumns;
  const double carry = std::ceil(k / depth) * accumulators * kCarryCycles;
  // Lanes are added after a transposition: log2(lanes) shuffles and one add a sum.
  const double reduce = accumulators * (std::log2(rates.lanes) + 1);
  const double pack = s.m * k / width * kPackCycles;
  return std::ceil(n / t.columns) * passes * (vectors * (step + a_cycles) + carry + reduce) + pack;
}

// Cycles a step of "outer" loses to rows of A in the same set of L1, beyond its eight ways: elements of a row
// a multiple of 4 KiB from the next are fetched from L2 for every step (K = 4096 on Zen 4, M = 12, 14 and 16:
// 12x2 4.6 ms, 6x4 4.25; 14x2 6.2, 7x3 4.8; 16x1 12.0, 8x3 5.5).
double crowded_cycles(const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kWays = 8, kRowCycles = 2;
  const double in_a_set = lines_a_set(t.rows, static_cast<int64_t>(double(s.k) * s.input_bytes));
  return kRowCycles * std::max(0.0, in_a_set - kWays);
}

double outer_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double crowded,
                    double n, double k) {
  const double passes = ceil_div(s.m, t.rows);
  const auto group = [&](double vectors) {
    const double bytes = vectors * rates.lanes * s.b_bytes, loads = t.rows + vectors;
    const double b_rate = rates.reread_bytes_per_cycle(bytes * k);
    const double b_cycles = b_rate > 0 ? (passes - 1) / passes * bytes / b_rate : 0;
    const double converted = (s.narrow_a ? t.rows : 0) + (s.narrow_b ? vectors : 0);
    const double step = rates.step_cycles(t.rows * vectors, loads, converted) + crowded;
    constexpr double kGroupCycles = 20;  // entering and leaving the loop over k
    return passes * (k * std::max(step, b_cycles) + kGroupCycles);
  };
  // What is left of N beyond whole groups goes vector by vector.
  const double whole = std::floor(n / (t.columns * rates.lanes));
  const double rest = std::ceil((n - whole * t.columns * rates.lanes) / rates.lanes);
  return whole * group(t.columns) + (rest > 0 ? rest * group(1) : 0);
}

// What a jump to another row of B costs where it comes from memory, in bytes (by 4096 x 4096 on Zen 4, M = 1
// in runs of 960 bytes and M = 4 in runs of 640: 36 and 22 % of what reading allows).
constexpr double kJumpBytes = 1700;
// In blocks of K every tile's sums are loaded and stored again.
double carry_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth,
                    double n, double k) {
  constexpr double kCarryCycles = 2;
  const double tiles = std::ceil(n / (t.columns * rates.lanes)) * ceil_div(s.m, t.rows);
  return tiles * std::ceil(k / depth) * t.rows * t.columns * kCarryCycles;
}

// Columns a task may take, at most `most`: enough tasks that workers even out, or enough bytes that a task is
// worth starting.
absl::InlinedVector<int32_t, 3> task_columns(const CpuRates& rates, const MatmulSizes& s, int64_t step,
                                             int64_t tasks_a_worker, int64_t most) {
  const auto fit = [&](int64_t columns) {
    return static_cast<int32_t>(std::min({round_up(std::max<int64_t>(columns, 1), step), round_up(s.n, step),
                                          std::max(most / step, int64_t{1}) * step}));
  };
  const auto stream = static_cast<int64_t>(kStreamBytes / (s.k * s.b_bytes));
  absl::InlinedVector<int32_t, 3> columns = {fit(ceil_div(s.n, tasks_a_worker * rates.workers))};
  if (fit(stream) != columns[0]) columns.push_back(fit(stream));
  // Of a small weight all of a worker's at once: a task more reads A again, and B's last tile is no fuller.
  if (double(s.n) * double(s.k) * s.b_bytes <= rates.l2_bytes) {
    const int32_t share = fit(ceil_div(s.n, int64_t{rates.workers}));
    if (std::find(columns.begin(), columns.end(), share) == columns.end()) columns.push_back(share);
  }
  return columns;
}

// Rows for columns.
void turn(CompileConfig& c) {
  std::swap(c.tile_m, c.tile_n);
  std::swap(c.register_m, c.register_n);
}

// What a loop that is held to memory's rate leaves exposed of the lesser of computing and reading, where
// CpuRates::overlap() has a quarter.
constexpr double kPacedWaits = 0.05;

// How B comes by.
struct Stream {
  double efficiency = 1;  // of memory's rate
  bool paced = false;     // held to it
  double after = 0;       // of computing, what comes when B was read and nothing is fetched for later
  bool rows_cached = false;
  int64_t most_columns = kMaxTileN;  // of a task
};

// Prices one row for every task width and split and appends it. `cycles(n, k)` computes n columns over k.
template <typename Cycles>
void append_streamed(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                     const CompileConfig& config, const Stream& stream, const std::string& recipe,
                     Cycles cycles, std::vector<RankedPlan>* out) {
  // Blocks of "outer" are read in runs of a task's columns.
  const int64_t tasks_a_worker =
      config.kernel == "outer" && config.tile_k > 0 && s.m <= 4 && rates.workers == 1 ? 1 : 4;
  for (int32_t columns : task_columns(rates, s, config.register_n, tasks_a_worker, stream.most_columns)) {
    const double tiles = ceil_div(s.n, columns);
    const auto least_chunk = std::max<int64_t>(256, kStreamBytes / 4 / (columns * s.b_bytes));
    for (int32_t splits : split_options(context, s.k, tiles, rates.workers, least_chunk)) {
      const double tasks = tiles * splits, k = std::ceil(double(s.k) / splits);
      const double bandwidth = rates.bandwidth(tasks) * stream.efficiency;
      const auto seconds = [&](double n) {
        // A pace counts a tile's columns whether they exist or not.
        const double read = config.pace > 0 ? std::ceil(n / config.register_n) * config.register_n : n;
        const double a_bytes = stream.rows_cached ? 0 : s.m * s.input_bytes;
        const double bytes = (read * s.b_bytes + a_bytes) * k + s.m * n * (splits > 1 ? 4 : s.output_bytes);
        const double compute = cycles(n, k) / rates.clock_hz, memory = bytes / bandwidth;
        if (stream.paced) return std::max(compute, memory) + kPacedWaits * std::min(compute, memory);
        const double after = compute * stream.after;
        return CpuRates::overlap(compute - after, memory) + after;
      };
      const double largest = seconds(std::min<double>(columns, s.n));
      const double last = seconds(s.n - (tiles - 1) * columns);
      const double predicted =
          rates.schedule_seconds(tasks, ((tiles - 1) * largest + last) / tiles, largest) +
          (splits > 1 ? merge_seconds(s, splits, rates.bandwidth(rates.workers)) : 0);
      if (!context.wants(predicted)) continue;
      RankedPlan r;
      r.plan.config = config;
      r.plan.config.tile_m = static_cast<int32_t>(round_up(s.m, config.register_m));
      r.plan.config.tile_n = columns;
      if (config.kernel == "dot_t") turn(r.plan.config);
      r.plan.config.split = splits > 1;
      r.plan.launch.splits = splits;
      r.plan.predicted_seconds = predicted;
      r.plan.numeric_recipe =
          recipe == kExactRecipe ? recipe : absl::StrCat(recipe, "; ", merge_recipe(splits));
      out->push_back(std::move(r));
    }
  }
}

// "bytes".
constexpr int64_t kBytesMaxM = 64;
// Rows whose sums stay in registers beside a block's eight words of B.
constexpr int32_t kBytesRows = 16;
constexpr int32_t kBytesLanes = 16;

// Cycles of a block of sixteen columns: put together and transposed (about 75 instructions on two shuffle
// units), then for each row eight products of bytes, a conversion, a multiplication and an FMA.
constexpr double kDecodeBlockCycles = 30;
constexpr double kRowInstructions = 10.5;
// An element of A on its way to a byte.
constexpr double kRoundCycles = 1;

std::string bytes_refusal(const ProblemClass& c, const Target& target) {
  if (!is_blocks(c.b)) return "B is not stored in blocks";
  if (c.math != Math::kInt8) return "math strict: A is not to be rounded to bytes";
  if (c.trans_a != 0) return "A is not K-contiguous";
  if (!target.has("avx512vnni")) return "no AVX512-VNNI";
  if (c.m_hi > kBytesMaxM) return absl::StrCat("M ", c.m_hi, " > ", kBytesMaxM);
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: rows of larger M come from panels";
  return "";
}

}  // namespace

MatmulSizes::MatmulSizes(const ProblemClass& c)
    : m(representative_m(c)),
      n(c.n),
      k(c.k),
      input_bytes(size_of(c.a)),
      b_bytes(bytes_per_element(c.b)),
      output_bytes(size_of(c.d)),
      blocks(is_blocks(c.b)),
      narrow_a(c.a != DType::kF32),
      narrow_b(c.b != DType::kF32),
      batch_invariant(c.determinism == Determinism::kBatchInvariant) {}

std::string operands_refusal(const ProblemClass& c) {
  if (c.packed_b != 0) return "B is packed";
  return is_f8(c.a) ? absl::StrCat("operands ", name_of(c.a), ": on the CPU f32, f16, bf16 and i8 alone")
                    : "";
}

std::string forced_split_refusal(const CandidateContext& context) {
  if (context.problem.determinism != Determinism::kBatchInvariant || context.split_k <= 1) return "";
  return absl::StrCat("batch_invariant: split_k ", context.split_k, " forced, the recipe has 1 split");
}

double lines_a_set(int64_t lines, int64_t line_bytes) {
  return std::ceil(double(lines) * double(std::gcd(kWayBytes, line_bytes)) / kWayBytes);
}

double merge_seconds(const MatmulSizes& s, double splits, double bytes_per_second) {
  return double(s.m) * s.n * (splits * 4 + s.output_bytes) / bytes_per_second + kForkSeconds;
}

// Every tile of "dot", or of "dot_t", of which `s` and `rates` are turned. `cached`: how many times as fast
// as from memory what is streamed comes.
static void enumerate_dot(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                          double cached, CompileConfig config, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const std::string recipe = is_float(c.a) ? absl::StrCat(rates.product_recipe(), " in ", rates.lanes,
                                                          " lanes; K ascending, lanes summed at the end")
                                           : kExactRecipe;
  const bool is_small = cached == 1 && double(s.n) * double(s.k) * s.b_bytes <= rates.l2_bytes;
  const bool in_cache = cached > 1 || is_small;
  for (const RegisterTile& t : kDotTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns;
    // Of the shorter side, unless more than its products is made of B's.
    const int32_t held = s.blocks ? 3 * t.columns : c.zero_a ? 2 * t.columns : std::min(t.rows, t.columns);
    if (!fits(context, rates, s, t, config, out, held)) continue;
    config.unroll_k = s.blocks ? kUnrolledBlocks : dot_unroll_of(rates, s, t);
    if (s.m <= kWholeDotMaxM) {
      const DotFetch fetch = fetch_of(rates, t, s, /*in_blocks=*/false);
      config.stages = static_cast<int32_t>(fetch);
      config.pace = cached > 1 ? 0 : pace_of(rates, s, t, config.unroll_k);
      Stream stream{cached, config.pace > 0 && s.m > 1};  // a single row gains nothing by a pace
      stream.efficiency *= stream_efficiency(rates, s, t, fetch, stream.paced, is_small);
      // A group's first pass alone reads from memory; the others fetch for the next group, if anything does,
      // and of a small weight's few groups the last has none.
      stream.after = 1 - 1.0 / ceil_div(s.m, t.rows);
      if (fetch != DotFetch::kAhead) stream.after *= is_small ? 1.0 / ceil_div(s.n, t.columns) : 0;
      stream.rows_cached = is_small;
      append_streamed(
          context, rates, s, config, stream, recipe,
          [&](double n, double k) { return dot_cycles(rates, s, t, in_cache, is_small, n, k); }, out);
      config.pace = 0;
    }
    // Blocks gain nothing with few columns' weights (17 columns by 8191, M = 512 on Zen 4: 3x9 in blocks 2.37
    // ms, 4x6 by whole rows 1.84), nor with a single row that is held to a pace (M = 1: 27.4 us, 23.9).
    if (const int32_t depth = block_depth(rates, t, static_cast<int32_t>(block_elements(c.b)), s.k);
        depth > 0 && c.zero_a == 0 && config.kernel == "dot" &&
        (s.m > 1 || rates.pace_bytes_per_second == 0)) {
      config.tile_k = depth;
      const DotFetch fetch = fetch_of(rates, t, s, /*in_blocks=*/true);
      config.stages = static_cast<int32_t>(fetch);
      append_streamed(
          context, rates, s, config, {blocked_efficiency(fetch)}, recipe,
          [&](double n, double k) { return blocked_dot_cycles(rates, s, t, depth, n, k); }, out);
      config.tile_k = 0;
    }
  }
}

void enumerate_matmul_dot(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  CpuRates rates(context);
  MatmulSizes s(c);
  CompileConfig config;
  config.kernel = "dot";
  config.lanes = rates.lanes;
  const auto both = [&](auto... reason) {
    for (const char* kernel : {"dot", "dot_t"}) {
      config.kernel = kernel;
      reject(context, config, out, reason...);
    }
  };
  if (!operands_refusal(c).empty()) return both(operands_refusal(c));
  if (c.trans_b == 0) return both("B is not K-contiguous");
  if (c.trans_a != 0) return both("A is not K-contiguous");
  if (s.batch_invariant && is_float(c.a)) return both("batch_invariant: rows of larger M come from panels");
  if (c.m_hi > kDotMaxM)
    reject(context, config, out, "M ", c.m_hi, " > ", kDotMaxM);
  else
    enumerate_dot(context, rates, s, 1, config, out);

  config.kernel = "dot_t";
  if (s.blocks || c.zero_a != 0) return reject(context, config, out, "B in blocks, or a zero point of A");
  if (c.n > kTurnedDotMaxN) return reject(context, config, out, "N ", c.n, " > ", kTurnedDotMaxN);
  if (s.m <= c.n) return reject(context, config, out, "M ", s.m, " <= N ", c.n, ": B is what is streamed");
  std::swap(s.m, s.n);
  std::swap(s.input_bytes, s.b_bytes);
  std::swap(s.narrow_a, s.narrow_b);
  std::swap(rates.converts_a, rates.converts_b);
  // Activations were just written: where L3 holds them they come from there.
  const double l3_rate = kL3BytesPerCycle * rates.clock_hz / rates.core_bytes_per_second;
  const bool in_l3 = double(s.n) * double(s.k) * s.b_bytes <= rates.l3_bytes / 2;
  enumerate_dot(context, rates, s, in_l3 ? std::max(1.0, l3_rate) : 1, config, out);
}

void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const MatmulSizes s(c);
  CompileConfig config;
  config.kernel = "outer";
  config.lanes = rates.lanes;
  if (!operands_refusal(c).empty()) return reject(context, config, out, operands_refusal(c));
  if (!is_float(c.a))
    return reject(context, config, out, "i8: words along K would be put together from 4 rows");
  if (c.trans_b != 0) return reject(context, config, out, "B is not N-contiguous");
  // Every pass over the rows reads B again.
  const double b_bytes = double(c.n) * double(c.k) * s.b_bytes;
  const bool is_small = b_bytes <= rates.l2_bytes / 4;
  if (c.m_hi > (is_small ? kSmallOuterMaxM : kBlockedOuterMaxM))
    return reject(context, config, out, "M ", c.m_hi, " > ", kBlockedOuterMaxM, " and B of ",
                  int64_t(b_bytes), " bytes > a quarter of L2, or M > ", kSmallOuterMaxM);
  if (s.batch_invariant)
    return reject(context, config, out, "batch_invariant: rows of larger M come from panels");
  for (const RegisterTile& t : kOuterTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns * rates.lanes;
    if (!fits(context, rates, s, t, config, out, t.columns)) continue;
    config.unroll_k = unroll_of(t);
    const double crowded = c.trans_a != 0 ? 0 : crowded_cycles(s, t);
    const auto cycles = [&](double n, double k) { return outer_cycles(rates, s, t, crowded, n, k); };
    if (s.m <= (is_small ? kSmallOuterMaxM : kOuterMaxM)) {
      // Each k jumps to another row of B.
      const double run = std::min<double>(config.register_n, s.n) * s.b_bytes;
      const double efficiency = is_small ? CpuRates::run_efficiency(run) : run / (run + kJumpBytes);
      append_streamed(context, rates, s, config, {efficiency}, "fma f32; K ascending", cycles, out);
    }
    if (is_small || s.m > kBlockedOuterMaxM) continue;
    config.tile_k = s.m <= 4 ? 8 : s.m <= kOuterMaxM ? 32 : kDeepBlock;
    Stream stream;
    if (s.m > kOuterMaxM) stream.most_columns = kDeepColumns;
    // By 4096 x 4096, 2880 x 4096 and 5120 x 2880 on Zen 4, not held and held: M = 2 2.54 and 2.48, 2.03
    // and 1.73, 2.31 and 2.41 ms, M = 4 3.11 and 2.77, 2.21 and 1.56, 2.52 and 2.58; a single row loses (2.22
    // and 2.34).
    if (s.m > 1 && s.m <= 4 && s.n >= config.register_n && b_bytes > rates.l2_bytes)
      config.pace = pace_of(rates, s, t, config.unroll_k);
    append_streamed(
        context, rates, s, config, stream, "fma f32; K ascending",
        [&](double n, double k) { return cycles(n, k) + carry_cycles(rates, s, t, config.tile_k, n, k); },
        out);
    config.tile_k = config.pace = 0;
  }
}

void enumerate_matmul_bytes(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const MatmulSizes s(c);
  CompileConfig config;
  config.kernel = "bytes";
  config.lanes = kBytesLanes;
  if (std::string why = bytes_refusal(c, context.facts.target); !why.empty())
    return reject(context, config, out, why);
  const auto passes = static_cast<int32_t>(ceil_div(s.m, kBytesRows));
  config.register_m = static_cast<int32_t>(ceil_div(s.m, passes));
  config.register_n = kBytesLanes;
  const double rows = double(config.register_m) * passes;
  append_streamed(
      context, rates, s, config, {},
      absl::StrCat("A rounded to bytes by 32; exact sums of 32, scaled; fma f32, K ascending"),
      [&](double n, double k) {
        const double block = passes * kDecodeBlockCycles + rows * kRowInstructions / rates.fma_units;
        return std::ceil(n / kBytesLanes) * k / block_elements(c.b) * block + rows * k * kRoundCycles;
      },
      out);
}

}  // namespace lathe
