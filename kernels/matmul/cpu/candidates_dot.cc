// Candidates of "dot" and "dot_t": CPU matmul for few rows of A and weights stored N by K, which streams B
// (or A) once. The measurements behind the constants are in docs/cpu-speed.md and the tests in
// tests/kernels/candidates_cpu_test.cc.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using streamed::RegisterTile, streamed::Stream, streamed::StreamedTask, streamed::append_streamed,
    streamed::fits, streamed::pace_of, streamed::unroll_of;

constexpr int64_t kDotMaxM = 64, kWholeDotMaxM = 32, kTurnedDotMaxN = 32;

// Tiles that keep two FMA units busy (8 accumulators and more) with 32 registers, then those for 16
// registers.
constexpr RegisterTile kDotTiles[] = {{1, 1}, {1, 2}, {2, 1},  {2, 2},  {4, 1},  {4, 2},  {8, 2},  {8, 3},
                                      {1, 8}, {1, 6}, {2, 8},  {2, 6},  {3, 6},  {4, 6},  {5, 4},  {6, 4},
                                      {7, 3}, {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {1, 4},
                                      {2, 4}, {3, 3}, {4, 3},  {5, 2},  {6, 2},  {8, 1},  {4, 4},  {3, 8}};
// Elements of B in blocks per iteration, at least one block: prefetching is by cache line, which two blocks of 32 fill.
constexpr int32_t kUnrolledElements = 64;
// With a pace and one column at a time, a row of an odd number of cache lines is unrolled once only: in
// steps of two lines every other column would begin in the middle of a step and read more slowly.
int32_t dot_unroll_of(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  const bool odd = std::fmod(s.k * s.b_bytes, 128) == 64;
  if (s.m == 1 && t.columns == 1 && odd && rates.pace_bytes_per_second > 0) return 1;
  return unroll_of(t);
}

// The share of the memory rate that K blocks reach. A block ends in the middle of a row of B, where what
// the hardware prefetched beyond it is lost. A core that prefetches into L1 (kNear) loses more with few
// columns next to each other.
double blocked_efficiency(const RegisterTile& t, CpuFetch fetch) {
  return fetch == CpuFetch::kNext ? 0.85 : fetch == CpuFetch::kNear ? 0.78 : t.rows < 6 ? 0.8 : 0.9;
}

// Depth of a K block; all blocks are equally deep. What a pass needs of A takes half of L1; with `spread`,
// all rows of A, a tile's columns and those being prefetched take most of it. 0: K is not deeper than a
// block.
int32_t block_depth(const CpuRates& rates, const RegisterTile& t, const MatmulSizes& s, bool spread,
                    int32_t block) {
  constexpr double kMost = 0.9;
  const int32_t step = std::max(rates.lanes, block) * rates.k_per_lane;
  const double a_bytes = 4.0 / rates.k_per_lane;  // per element
  const double spread_bytes = double(round_up(s.m, t.rows)) * a_bytes +
                              double(round_up(kColumnsOn, t.columns) + t.columns) * s.b_bytes;
  const double fit = spread ? kMost * rates.l1d_bytes / spread_bytes
                            : std::floor(rates.l1d_bytes / 2 / (4 * t.rows)) * rates.k_per_lane;
  const int64_t most = static_cast<int64_t>(fit) / step * step;
  if (most >= s.k || most == 0) return 0;
  const int64_t depth = round_up(ceil_div(s.k, ceil_div(s.k, most)), int64_t{step});
  // Rows of A a multiple of a quarter of a way apart share sets of L1 with each other and with B, so such a
  // depth is increased.
  const bool share_sets = spread && depth / rates.k_per_lane * 4 % (kWayBytes / 4) == 0;
  return static_cast<int32_t>(depth + (share_sets ? step : 0));
}

// The share of the memory rate with kSpread, where all passes take the same columns of B and divide the
// prefetching. Lines are prefetched twice if the passes do not divide them evenly.
double spread_efficiency(const MatmulSizes& s, const RegisterTile& t, bool paced) {
  // Lost time as parts of the time of a byte; for rows, per row short of eight or four.
  constexpr double kOnePass = 0.03, kNarrow = 0.16, kOneRow = 0.08, kFree = 0.25;
  constexpr double kPasses = 0.1, kColumn = 0.03, kRow = 0.2;
  const int64_t passes = ceil_div(s.m, t.rows);
  double lost = passes == 1 ? kOnePass + (t.columns < 3 ? kNarrow : 0) + kOneRow * std::max(0, 8 - t.rows)
                            : kPasses + kColumn * std::max(0, t.columns - 2) + kRow * std::max(0, 4 - t.rows);
  if (!paced) lost += kFree;
  return t.columns / double(passes * ceil_div(t.columns, passes)) / (1 + lost);
}

// The cost of decoding one vector of each column, in conversions. With 32 registers, FMAs of several rows
// hide half of it; beyond six rows B's words and the sums compete for registers.
double decoded(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kBeside = 0.5, kRowCycles = 2.3;
  constexpr int32_t kFreeRows = 6;
  if (!s.blocks) return 0;
  // Zen 5 has twice the integer units.
  const double part = (rates.reads_fast() ? 0.5 : 1) / kConvertCycles;
  if (rates.registers < 32 || t.rows == 1) return t.columns * s.decode_cycles * part;
  return (t.columns * kBeside * s.decode_cycles + std::max(0, t.rows - kFreeRows) * kRowCycles) * part;
}

// Bytes per cycle at which `bytes` are read again after `between` other bytes; 0 (free) if L1 holds both.
double reread_rate(const CpuRates& rates, double bytes, double between) {
  if (bytes + between <= rates.l1d_bytes) return 0;
  const double rate = rates.reread_bytes_per_cycle(bytes);
  return rate > 0 ? rate : kL2BytesPerCycle;
}

// Cycles of a step of "dot" without waiting for memory.
double dot_arithmetic(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  const double converted = (rates.converts_a ? t.rows : 0) + (rates.converts_b ? t.columns : 0);
  return rates.step_cycles(t.rows * t.columns, t.rows + t.columns, converted + decoded(rates, s, t));
}

// What a pass waits for its first lines, in cycles: a constant for rows of f32 and small weights. Converted
// rows leave the prefetchers time, except at page ends.
constexpr double kFirstLineCycles = 500, kConvertedBytesPerCycle = 28;

// Whether a step's arithmetic hides the transfer of its cache lines of A and B from L2 to L1. L2 must hold
// A, the columns and the next columns.
bool lines_fit(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double k) {
  constexpr double kRoom = 0.85, kHeld = 0.6;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double lines = width * (t.rows * s.input_bytes + t.columns * s.b_bytes);
  return lines / kL2BytesPerCycle <= kRoom * dot_arithmetic(rates, s, t) &&
         k * (s.m * s.input_bytes + 2 * t.columns * s.b_bytes) <= kHeld * rates.l2_bytes;
}

// What to prefetch. On a core that does not read fast (Zen 4): the next columns; for a single row, for few
// columns and for one paced pass whose next columns L2 would lose, a line ahead in the same row. A core
// that loses by prefetching (Zen 3) prefetches nothing in these cases. A core that reads fast (Zen 5)
// prefetches into L1 if one pass takes all rows.
CpuFetch fetch_of(const CpuRates& rates, const RegisterTile& t, const MatmulSizes& s, bool is_small,
                  bool in_blocks) {
  if (!rates.reads_fast()) {
    constexpr double kLost = 0.2;  // share of L2 that may pass between the prefetch of a line and its use
    const bool nothing_next = s.n <= 2 * t.columns;
    const bool lost = s.k * (t.columns * s.b_bytes + s.m * s.input_bytes) > kLost * rates.l2_bytes;
    const bool is_paced = rates.pace_bytes_per_second > 0 && !s.blocks;
    const bool one_pass = is_paced && t.rows >= s.m && (s.m <= 3 || lost);
    const CpuFetch own = rates.loses_by_fetching() ? CpuFetch::kNone : CpuFetch::kAhead;
    return (s.m == 1 || nothing_next || one_pass) && !in_blocks ? own : CpuFetch::kNext;
  }
  // One row of f32 is left to the hardware prefetchers. Converted rows are not: the prefetchers fall
  // behind.
  if (s.m == 1 && !in_blocks && !rates.converts_b && !s.blocks) return CpuFetch::kNone;
  if (t.rows >= s.m && t.columns >= (is_small ? 2 : 4)) return CpuFetch::kNear;
  if (!in_blocks) return CpuFetch::kNext;
  return t.rows >= s.m && t.columns < 3 ? CpuFetch::kBoth : CpuFetch::kSpread;
}

// The share of the memory rate that whole rows reach. One row of A with one column after the other reads B
// in order. Several columns side by side are as many streams, and at the end of each what was prefetched is
// lost; a core that reads fast waits at page ends too. If L1 does not hold A's rows, they are read from L2
// again, which delays the prefetches of B, less with kNear.
double stream_efficiency(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, CpuFetch fetch,
                         bool paced, bool is_small) {
  constexpr double kLostBytes = 600;
  constexpr double kRunSeconds = 3e-12;  // per byte, for each stream beyond four
  constexpr double kWaiting = 0.06;      // as a part of the time of a byte
  constexpr double kNarrow = 0.025;      // the same, for each column short of eight
  // With a pace (Zen 4) several rows take hardly longer than one.
  constexpr double kPacedRows = 0.05, kPacedNarrow = 0.012, kPacedPass = 0.1;
  // The first columns of a small weight are not prefetched by anybody.
  constexpr double kSmallPacedPass = 0.25, kSmallPacedRows = 0.09, kSmallRows = 0.2;
  const bool near = fetches_near(fetch);
  const double row_seconds =
      near ? 2.5e-12 : 4.1e-12;  // per byte of B, for each byte of A that comes from L2
  const double a_row = s.k * s.input_bytes, b_row = s.k * s.b_bytes, rate = rates.core_bytes_per_second;
  // A core that reads fast reads one row with its hardware prefetchers, best with four columns side by
  // side.
  if (s.m == 1 && fetch == CpuFetch::kNone && rates.reads_fast()) {
    constexpr double kFewer = 0.04, kMore = 0.03, kAlone = 0.1;
    return 1 / (1 + kLostBytes / 8 / b_row + (t.columns == 1 ? kAlone : 0) +
                (t.columns < 4 ? (4 - t.columns) / 2.0 * kFewer : (t.columns - 4) * kMore));
  }
  // Several rows, paced and prefetched into L1.
  if (paced && near) {
    constexpr double kHeld = 0.02, kFewer = 0.012;
    return 1 / (1 + kHeld + std::max(0, 8 - t.columns) * kFewer);
  }
  double lost = std::max(0, t.columns - 4) * kRunSeconds * std::max(0.0, rate - kHiddenRate);
  if (s.m == 1 && t.columns > 1) lost += kLostBytes / b_row;
  // One column whose rows do not begin at a cache line: every vector is in two lines.
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

// DotConfig::copy_rows of tasks without K blocks.
bool copies_a(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t) {
  return !s.blocks &&
         dot_copies_a(t.rows * t.columns, static_cast<int64_t>(s.k * s.b_bytes),
                      round_up(s.m, t.rows) * s.k * 4 / rates.k_per_lane, rates.rounds_a && !s.narrow_a);
}
constexpr double kPackCycles = 3;  // per vector of A that a task copies

// Cycles of `n` columns of D over `k` of K, all rows. Every pass over the rows reads A again, and every
// pass but the first reads its group of B again, from the cache that holds them. These loads compete with
// those from memory and add to the arithmetic unless it hides them. If a cache holds the streamed operand
// too (`cached`), they do not compete.
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
  constexpr double kHeld =
      0.9;  // share of L2 that may hold one operand and the current and the next group of the other
  // Rows that do not begin at a cache line take more lines than are counted here.
  const bool aligned = std::fmod(s.k * s.b_bytes, 64) == 0;
  const bool held = cached && !(fits && aligned) && a_bytes + 2 * b_bytes <= kHeld * rates.l2_bytes;
  const double lines = (t.rows * vector_bytes + t.columns * b_vector_bytes) / kL2BytesPerCycle;
  const double step = held && a_rate > 0 ? CpuRates::overlap(arithmetic, lines)
                      : fits             ? arithmetic
                                         : arithmetic + a_cycles + b_cycles;
  // At the end the lanes of every accumulator are added: log2(lanes) shuffles and adds on one port.
  const double first_lines = !fits && !(held && is_small) ? 0
                             : (rates.converts_b || s.blocks) && !is_small
                                 ? k * s.b_bytes / kConvertedBytesPerCycle
                                 : kFirstLineCycles;
  const double reduce = accumulators * (std::log2(rates.lanes) + 1) + first_lines;
  const double copy = copies ? s.m * vectors * kPackCycles : 0;
  return std::ceil(n / t.columns) * passes * (vectors * step + reduce) + copy;
}

// The same with K blocks: A is packed and comes from L1. The sums of a register tile are loaded and stored
// for every block, two cycles each.
double blocked_dot_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, CpuFetch fetch,
                          double depth, double n, double k) {
  constexpr double kCarryCycles = 2;
  const double width = double(rates.lanes) * rates.k_per_lane;
  const double passes = ceil_div(s.m, t.rows), vectors = std::ceil(k / width);
  const double accumulators = t.rows * t.columns, loads = t.rows + t.columns;
  // All passes but the first find B in L2, which half hides, or in L1.
  const double again = fetch == CpuFetch::kSpread
                           ? 0
                           : (passes - 1) / passes * t.columns * width * s.b_bytes / kL2BytesPerCycle;
  const double converted = s.blocks ? decoded(rates, s, t) : rates.converts_b ? t.columns : 0;
  const double step = rates.step_cycles(accumulators, loads, converted) + 0.5 * again;
  const double a_cycles = t.rows * rates.lanes * 4 / kL2BytesPerCycle * t.columns / dot_group_columns(fetch);
  const double carry = std::ceil(k / depth) * accumulators * kCarryCycles;
  // Lanes are added after a transposition: log2(lanes) shuffles and one add per sum.
  const double reduce = accumulators * (std::log2(rates.lanes) + 1);
  const double pack = s.m * k / width * kPackCycles;
  return std::ceil(n / t.columns) * passes * (vectors * (step + a_cycles) + carry + reduce) + pack;
}

// A side of the problem to stream, and what all its tiles share.
struct Streamed {
  const CandidateContext& context;
  const CpuRates& rates;
  const MatmulSizes& s;
  bool transposed;  // "dot_t", for which the caller has swapped the sides of `s` and `rates`
  double cached;    // how many times faster than from memory the streamed operand arrives
  bool is_small;    // L2 holds it
};

// The plan's config: that of "dot", or of "dot_t" with the sides swapped back.
CompileConfig config_of(const Streamed& d, const DotConfig& c) {
  if (!d.transposed) return c;
  DotTConfig turned;
  turned.tile_m = c.tile_n, turned.tile_n = c.tile_m;
  turned.register_m = c.register_n, turned.register_n = c.register_m;
  turned.unroll_k = c.unroll_k, turned.lanes = c.lanes;
  turned.prefetch = c.prefetch, turned.copy_rows = c.copy_rows;
  turned.split = c.split, turned.pace = c.pace;
  return turned;
}

std::string recipe_of(const Streamed& d, int64_t lanes) {
  if (!is_float(d.context.problem.a)) return kExactRecipe;
  return absl::StrCat(d.rates.product_recipe(), " in ", lanes,
                      " lanes; K ascending, lanes summed at the end");
}

// Appends the config for every task width and split.
void append(const Streamed& d, const DotConfig& config, Stream stream,
            absl::FunctionRef<double(double n, double k)> cycles, std::vector<RankedPlan>* out) {
  stream.whole_tiles = config.pace > 0;
  append_streamed(
      d.context, d.rates, d.s, config.register_m, config.register_n, stream, recipe_of(d, config.lanes),
      cycles,
      [&](const StreamedTask& task) {
        DotConfig c = config;
        c.tile_m = task.rows, c.tile_n = task.columns, c.split = task.is_split;
        return config_of(d, c);
      },
      out);
}

// One row of A with rows of B that are converted, one column after the other in vectors of kWideVectors, so
// that as many chains of sums hide the latency of an FMA. Read in memory order and prefetched far ahead,
// this is faster on a core that reads fast than several columns side by side. A row of A that L1 does not
// hold comes from L2 for each column.
constexpr int32_t kWideVectors = 4;
void append_wide(const Streamed& d, DotConfig config, std::vector<RankedPlan>* out) {
  constexpr double kRate = 0.9, kRateFromL2 = 0.65, kMost = 0.75;
  const CpuRates& rates = d.rates;
  const MatmulSizes& s = d.s;
  config.register_m = config.register_n = config.unroll_k = 1;
  config.lanes = kWideVectors * rates.lanes;
  config.prefetch = static_cast<int32_t>(CpuFetch::kFar);
  config.copy_rows = copies_a(rates, s, {1, 1});
  Stream stream{s.k * 4 <= kMost * rates.l1d_bytes ? kRate : kRateFromL2, /*paced=*/true};
  stream.short_tasks = stream.rows_cached = true;
  append(
      d, config, stream,
      [&](double n, double k) {
        return n * (std::ceil(k / double(config.lanes)) *
                        rates.step_cycles(kWideVectors, 2 * kWideVectors, kWideVectors) +
                    std::log2(double(config.lanes)) + 1);
      },
      out);
}

// The plans of a tile without K blocks.
void append_whole_rows(const Streamed& d, const RegisterTile& t, DotConfig config,
                       std::vector<RankedPlan>* out) {
  const CpuRates& rates = d.rates;
  const MatmulSizes& s = d.s;
  const CpuFetch fetch = fetch_of(rates, t, s, d.is_small, /*in_blocks=*/false);
  config.prefetch = static_cast<int32_t>(fetch);
  config.copy_rows = copies_a(rates, s, t);
  // A core that reads fast runs many rows or several passes over a small weight without a pace.
  const bool free = d.is_small && rates.reads_fast() && (t.rows < s.m || t.rows >= 8);
  config.pace = d.cached > 1 || free ? 0 : pace_of(rates, s, t, config.unroll_k);
  Stream stream{d.cached, config.pace > 0 && s.m > 1};  // a pace does not speed up a single row
  stream.efficiency *= stream_efficiency(rates, s, t, fetch, stream.paced, d.is_small);
  // Only the first pass over a group reads from memory. The others prefetch the next group, if anything does;
  // the last group of a small weight has no next one.
  stream.after = 1 - 1.0 / ceil_div(s.m, t.rows);
  if (fetches_next(fetch) || fetches_near(fetch))
    stream.after *= d.is_small ? 1.0 / ceil_div(s.n, t.columns) : 0;
  stream.rows_cached = d.is_small;
  // A core that reads fast is faster with tasks of 256 KiB than with a quarter of B per worker (the cause is
  // not known), unless each task copies A.
  const bool few_copied = rates.rounds_a && s.m <= 2;
  stream.short_tasks =
      rates.reads_fast() && !d.is_small && d.cached == 1 && (few_copied || config.copy_rows == 0);
  if (stream.short_tasks) stream.rows_cached = true;  // all tasks but the first find A in L2
  const bool in_cache = d.cached > 1 || d.is_small;
  append(
      d, config, stream,
      [&](double n, double k) {
        return dot_cycles(rates, s, t, in_cache, d.is_small, config.copy_rows, n, k);
      },
      out);
}

// The plans of a tile with K blocks. They do not pay for weights of few columns, nor for a single paced row.
void append_blocks(const Streamed& d, const RegisterTile& t, DotConfig config, std::vector<RankedPlan>* out) {
  const ProblemClass& c = d.context.problem;
  const CpuRates& rates = d.rates;
  const MatmulSizes& s = d.s;
  const CpuFetch fetch = fetch_of(rates, t, s, d.is_small, /*in_blocks=*/true);
  const bool spread = fetch == CpuFetch::kSpread;
  const int32_t depth = block_depth(rates, t, s, spread, static_cast<int32_t>(block_elements(c.b)));
  if (depth == 0 || c.zero_a != 0 || d.transposed || (d.is_small && s.m <= kWholeDotMaxM) ||
      (s.m == 1 && rates.pace_bytes_per_second != 0))
    return;
  config.tile_k = depth;
  config.prefetch = static_cast<int32_t>(fetch);
  config.group_n = round_up(dot_group_columns(fetch), t.columns);
  if (spread) config.pace = pace_of(rates, s, t, config.unroll_k);
  // Rows in only two blocks gain little.
  constexpr double kTwoParts = 0.9;
  const double parts = rates.reads_fast() && s.k <= 2.0 * depth ? kTwoParts : 1;
  const double efficiency =
      parts * (spread ? spread_efficiency(s, t, config.pace > 0) : blocked_efficiency(t, fetch));
  append(
      d, config, {efficiency, config.pace > 0 || fetch == CpuFetch::kBoth},
      [&](double n, double k) { return blocked_dot_cycles(rates, s, t, fetch, depth, n, k); }, out);
}

// Every tile of "dot"; or of "dot_t", for which the caller has swapped the sides of `s` and `rates`. `cached`:
// how many times faster than from memory the streamed operand arrives.
void enumerate_dot(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                   double cached, bool transposed, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const bool is_small = cached == 1 && double(s.n) * double(s.k) * s.b_bytes <= rates.l2_bytes;
  const Streamed side{context, rates, s, transposed, cached, is_small};
  DotConfig config;
  config.lanes = rates.lanes;
  if (s.m == 1 && rates.converts_b && rates.reads_fast() && !is_small && cached == 1)
    append_wide(side, config, out);
  for (const RegisterTile& t : kDotTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns;
    // Registers beside the sums: the vectors of the shorter side, unless B needs more than its products.
    const int32_t held = s.blocks ? 3 * t.columns : c.zero_a ? 2 * t.columns : std::min(t.rows, t.columns);
    if (!fits(context, rates, s, t, config_of(side, config), out, held)) continue;
    config.unroll_k =
        s.blocks ? std::max<int32_t>(1, kUnrolledElements / static_cast<int32_t>(block_elements(c.b)))
                 : dot_unroll_of(rates, s, t);
    if (s.m <= kWholeDotMaxM) append_whole_rows(side, t, config, out);
    append_blocks(side, t, config, out);
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
  const auto both = [&](auto... reason) {
    for (KernelKind kernel : {KernelKind::kDot, KernelKind::kDotT}) reject(context, kernel, out, reason...);
  };
  if (!operands_refusal(c).empty()) return both(operands_refusal(c));
  if (c.trans_b == 0) return both("B is not K-contiguous");
  if (c.trans_a != 0) return both("A is not K-contiguous");
  if (s.batch_invariant && is_float(c.a))
    return both("batch_invariant needs the numeric recipe of 'panel' for every M");
  if (c.m_hi > kDotMaxM) {
    reject(context, KernelKind::kDot, out, "supports M up to ", kDotMaxM, ", not ", c.m_hi);
  } else {
    MatmulSizes copied = s;
    if (rates.rounds_a) copied.input_bytes = copied.b_bytes;
    enumerate_dot(context, rates, copied, 1, /*transposed=*/false, out);
  }

  if (s.blocks || c.zero_a != 0)
    return reject(context, KernelKind::kDotT, out, "does not support B in blocks or a zero point of A");
  if (c.n > kTurnedDotMaxN)
    return reject(context, KernelKind::kDotT, out, "supports N up to ", kTurnedDotMaxN, ", not ", c.n);
  if (s.m <= c.n)
    return reject(context, KernelKind::kDotT, out, "gains only if A is larger than B, but M ", s.m, " <= N ",
                  c.n);
  std::swap(s.m, s.n);
  std::swap(s.input_bytes, s.b_bytes);
  std::swap(s.narrow_a, s.narrow_b);
  std::swap(rates.converts_a, rates.converts_b);
  rates.converts_b |= rates.rounds_a;
  // Activations were just written, so they come from L3 if it holds them.
  const double l3_rate = kL3BytesPerCycle * rates.clock_hz / rates.core_bytes_per_second;
  const bool in_l3 = double(s.n) * double(s.k) * s.b_bytes <= rates.l3_bytes / 2;
  enumerate_dot(context, rates, s, in_l3 ? std::max(1.0, l3_rate) : 1, /*transposed=*/true, out);
}

}  // namespace lathe
