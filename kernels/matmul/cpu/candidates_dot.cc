// Candidates of "dot" and "dot_t", which read rows of B, or of A, along K. README.md has the choices of each kernel.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using namespace streamed;

constexpr int64_t kDotMaxM = 64, kWholeDotMaxM = 32, kTurnedDotMaxN = 32;
// Tiles that keep two FMA units busy (8 accumulators and more) with 32 registers, then those for 16 registers.
constexpr RegisterTile kDotTiles[] = {{1, 1}, {1, 2}, {2, 1},  {2, 2},  {4, 1},  {4, 2},  {8, 2},  {8, 3},
                                      {1, 8}, {1, 6}, {2, 8},  {2, 6},  {3, 6},  {4, 6},  {5, 4},  {6, 4},
                                      {7, 3}, {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {1, 4},
                                      {2, 4}, {3, 3}, {4, 3},  {5, 2},  {6, 2},  {8, 1},  {4, 4},  {3, 8}};
// Elements of B in blocks per iteration, at least one block: prefetching is by cache line, which two blocks of 32
// fill.
constexpr int32_t kUnrolledElements = 64;
// One row of A with rows of B that are converted: one column after the other in vectors of this many, so that as many
// chains of sums hide the latency of an FMA.
constexpr int32_t kWideVectors = 4;

class Dot {
 public:
  // `transposed`: "dot_t", which streams A's rows past B's few columns.
  Dot(const CandidateContext& context, bool transposed)
      : p_(context), problem_(context.problem), transposed_(transposed) {
    MatmulSizes& s = p_.s;
    if (p_.rates.rounds_a && !transposed) s.input_bytes = s.b_bytes;  // a copy
    if (transposed) {
      std::swap(s.m, s.n);
      std::swap(s.input_bytes, s.b_bytes);
      std::swap(s.narrow_a, s.narrow_b);
      std::swap(p_.rates.converts_a, p_.rates.converts_b);
      p_.rates.converts_b |= p_.rates.rounds_a;
    }
    is_small_ = double(s.n) * double(s.k) * s.b_bytes <= p_.rates.l2_bytes;
  }

  void enumerate(std::vector<RankedPlan>* out) const {
    const MatmulSizes& s = p_.s;
    CpuFields config;
    config.lanes = p_.rates.lanes;
    if (s.m == 1 && p_.rates.converts_b && p_.rates.prefetches_into_l1 && !is_small_ && !transposed_)
      append_wide(config, out);
    for (const RegisterTile& t : kDotTiles) {
      config.register_m = t.rows;
      config.register_n = t.columns;
      // The vectors of the shorter side, unless B needs more than its products.
      const int32_t held = s.blocks               ? 3 * t.columns
                           : problem_.zero_a != 0 ? 2 * t.columns
                                                  : std::min(t.rows, t.columns);
      if (const std::string why = tile_refusal(p_, t, held, transposed_); !why.empty()) {
        reject(p_.context, config_of(config), out, why);
        continue;
      }
      config.unroll_k = unroll(t);
      if (s.m <= kWholeDotMaxM) append_whole_rows(t, config, out);
      append_blocks(t, config, out);
    }
  }

 private:
  void append_wide(CpuFields config, std::vector<RankedPlan>* out) const;
  void append_whole_rows(const RegisterTile& t, CpuFields config, std::vector<RankedPlan>* out) const;
  void append_blocks(const RegisterTile& t, CpuFields config, std::vector<RankedPlan>* out) const;
  void append(const CpuFields& config, bool short_tasks, std::vector<RankedPlan>* out) const;
  TaskWork work_of(const CpuFields& config, double n, double k, int64_t columns) const;
  CpuFetch fetch_of(const RegisterTile& t, bool in_blocks) const;
  int64_t block_depth(const RegisterTile& t, bool spread) const;
  double decoded(const RegisterTile& t) const;
  CompileConfig config_of(CpuFields c) const;
  double widened(const RegisterTile& t) const;
  double arithmetic(const RegisterTile& t) const;
  int64_t unroll(const RegisterTile& t) const;
  bool copies_a(const RegisterTile& t) const {
    const MatmulSizes& s = p_.s;
    return !s.blocks && dot_copies_a(t.rows * t.columns, static_cast<int64_t>(double(s.k) * s.b_bytes),
                                     round_up(s.m, t.rows) * s.k * 4 / p_.rates.k_per_lane,
                                     p_.rates.rounds_a && !s.narrow_a);
  }

  CpuPricing p_;  // "dot_t": with the sides swapped
  const ProblemClass& problem_;
  const bool transposed_;
  bool is_small_;  // L2 holds the streamed operand
};

// With a pace and one column at a time, a row of an odd number of cache lines is unrolled once only: in steps of two
// lines every other column would begin in the middle of a step and read more slowly.
int64_t Dot::unroll(const RegisterTile& t) const {
  const MatmulSizes& s = p_.s;
  if (s.blocks) return std::max<int64_t>(1, kUnrolledElements / block_elements(problem_.b));
  const bool odd = std::fmod(double(s.k) * s.b_bytes, 128) == 64;
  return s.m == 1 && t.columns == 1 && odd && p_.rates.pace_bytes_per_second > 0 ? 1 : unroll_of(t);
}

// The cost of decoding one vector of each column, in conversions. With 32 registers, FMAs of several rows hide half
// of it; beyond six rows B's words and the sums compete for registers.
double Dot::decoded(const RegisterTile& t) const {
  constexpr double kBeside = 0.5, kRowCycles = 2.3;
  constexpr int32_t kFreeRows = 6;
  const MatmulSizes& s = p_.s;
  if (!s.blocks) return 0;
  // Zen 5 has twice the integer units.
  const double part = (p_.rates.prefetches_into_l1 ? 0.5 : 1) / kConvertCycles;
  if (p_.rates.registers < 32 || t.rows == 1) return t.columns * s.decode_cycles * part;
  return (t.columns * kBeside * s.decode_cycles + std::max(0, t.rows - kFreeRows) * kRowCycles) * part;
}

// Vectors that are widened in a step.
double Dot::widened(const RegisterTile& t) const {
  return (p_.rates.converts_a ? t.rows : 0) + (p_.rates.converts_b ? t.columns : 0);
}

double Dot::arithmetic(const RegisterTile& t) const {
  return p_.rates.step_cycles(t.rows * t.columns, t.rows + t.columns, widened(t) + decoded(t));
}

// What to prefetch. On a core that does not prefetch into L1: the next columns; for a single row, for few columns and
// for one paced pass whose next columns L2 would lose, a line ahead in the same row, or nothing where prefetches
// compete with reads. Other cores prefetch into L1 if one pass takes all rows.
CpuFetch Dot::fetch_of(const RegisterTile& t, bool in_blocks) const {
  const CpuRates& rates = p_.rates;
  const MatmulSizes& s = p_.s;
  if (!rates.prefetches_into_l1) {
    constexpr double kLost = 0.2;  // share of L2 that may pass between the prefetch of a line and its use
    const bool nothing_next = s.n <= 2 * t.columns;
    const bool lost =
        double(s.k) * (t.columns * s.b_bytes + double(s.m) * s.input_bytes) > kLost * rates.l2_bytes;
    const bool is_paced = rates.pace_bytes_per_second > 0 && !s.blocks;
    const bool one_pass = is_paced && t.rows >= s.m && (s.m <= 3 || lost);
    const CpuFetch own = rates.loses_by_fetching() ? CpuFetch::kNone : CpuFetch::kAhead;
    return (s.m == 1 || nothing_next || one_pass) && !in_blocks ? own : CpuFetch::kNext;
  }
  // One row of f32 is left to the hardware prefetchers. Converted rows are not: the prefetchers fall behind.
  if (s.m == 1 && !in_blocks && !rates.converts_b && !s.blocks) return CpuFetch::kNone;
  if (t.rows >= s.m && t.columns >= (is_small_ ? 2 : 4)) return CpuFetch::kNear;
  if (!in_blocks) return CpuFetch::kNext;
  return t.rows >= s.m && t.columns < 3 ? CpuFetch::kBoth : CpuFetch::kSpread;
}

// Depth of a K block; all blocks are equally deep. What a pass needs of A takes half of L1; with `spread`, all rows
// of A, a tile's columns and those being prefetched take most of it. 0: K is not deeper than a block.
int64_t Dot::block_depth(const RegisterTile& t, bool spread) const {
  constexpr double kMost = 0.9;
  const CpuRates& rates = p_.rates;
  const MatmulSizes& s = p_.s;
  const int64_t step = std::max(int64_t{rates.lanes}, block_elements(problem_.b)) * rates.k_per_lane;
  const double a_bytes = 4.0 / rates.k_per_lane;  // per element
  const double spread_bytes = double(round_up(s.m, t.rows)) * a_bytes +
                              double(round_up(kColumnsOn, t.columns) + t.columns) * s.b_bytes;
  const double fit = spread ? kMost * rates.l1d_bytes / spread_bytes
                            : std::floor(rates.l1d_bytes / 2 / (4 * t.rows)) * rates.k_per_lane;
  const int64_t most = static_cast<int64_t>(fit) / step * step;
  if (most >= s.k || most == 0) return 0;
  const int64_t depth = round_up(ceil_div(s.k, ceil_div(s.k, most)), step);
  // Rows of A a multiple of a quarter of a way apart share sets of L1 with each other and with B, so such a depth is
  // increased.
  const bool share_sets = spread && depth / rates.k_per_lane * 4 % (kWayBytes / 4) == 0;
  return depth + (share_sets ? step : 0);
}

CompileConfig Dot::config_of(CpuFields c) const {
  if (!transposed_) return c.as<DotConfig>(KernelKind::kDot);
  c.transpose();
  return c.as<DotTConfig>(KernelKind::kDotT);
}

// The work of n columns over k, all rows.
TaskWork Dot::work_of(const CpuFields& c, double n, double k, int64_t columns) const {
  const CpuRates& rates = p_.rates;
  const MatmulSizes& s = p_.s;
  const RegisterTile t{static_cast<int32_t>(c.register_m), static_cast<int32_t>(c.register_n)};
  const double width = double(c.lanes) * rates.k_per_lane, vectors = std::ceil(k / width);
  const double passes =
      transposed_ ? double(ceil_div(s.m, t.rows)) : padded_rows(problem_, double(s.m), t.rows) / t.rows;
  const double groups =
      transposed_ ? padded_rows(problem_, n, t.columns) / t.columns : std::ceil(n / t.columns);
  const double steps = passes * groups * vectors, sums = t.rows * t.columns;
  const double depth = c.tile_k > 0 ? double(c.tile_k) : k, blocks = std::ceil(k / depth);
  const bool in_blocks = c.tile_k > 0;

  TaskWork w;
  const bool is_wide = c.lanes > rates.lanes;
  // Rows that begin inside a cache line: vectors of B cross the ends of lines.
  const double crossing = crossed_lines(double(s.k) * s.b_bytes, rates.lanes * rates.k_per_lane * s.b_bytes);
  const CpuRates::Step step = is_wide ? rates.step(kWideVectors, (2 + crossing) * kWideVectors)
                                      : rates.step(sums, t.rows + t.columns * (1 + crossing));
  w.issue = steps * (step.longer + decoded(t) * kConvertCycles);
  w.loads = steps * step.shorter;
  w.conversions = steps * kConvertCycles * (is_wide ? kWideVectors : widened(t));
  if (const double paced = steps / double(c.unroll_k) * double(c.pace); paced > w.issue + w.conversions)
    w.issue = paced, w.loads = w.conversions = 0;
  w.entries = passes * groups * blocks;
  // A branch predictor foresees the end of a short loop, so that additions overlap with the next tile.
  constexpr double kLongLoop = 64;
  w.ends = passes * groups * std::min(1.0, vectors / double(c.unroll_k) / kLongLoop);
  w.lanes = passes * groups * sums * (std::log2(double(c.lanes)) + 1);
  if (in_blocks) w.sums = 2 * passes * groups * blocks * sums * rates.lanes * 4;
  if (in_blocks || c.copy_rows != 0) w.copies = double(s.m) * k / width;
  // Every group reads A again, and every pass but the first B's group. L1 holds A if it also holds two groups.
  const double a_element = in_blocks ? 4.0 / rates.k_per_lane : s.input_bytes;
  const double a_bytes = double(s.m) * depth * a_element, group_bytes = t.columns * depth * s.b_bytes;
  const double column_groups = in_blocks ? std::max(1.0, n / double(c.group_n)) : groups;
  const bool rows_in_l1 = in_blocks ? double(s.m) * k * a_element <= kShareOfL1 * rates.l1d_bytes
                                    : a_bytes + 2 * group_bytes <= rates.l1d_bytes;
  if (!rows_in_l1) count_rows(p_, double(s.m) * k * a_element, column_groups, &w);
  const bool held = in_blocks ? c.prefetch == static_cast<int64_t>(CpuFetch::kSpread)
                              : group_bytes + t.rows * depth * a_element <= kShareOfBoth * rates.l1d_bytes;
  if (passes > 1 && !held) w.l2 += (passes - 1) / passes * steps * t.columns * width * s.b_bytes;

  const double memory =
      count_reading(p_, {n * k * s.b_bytes, double(s.n) * double(s.k) * s.b_bytes, 1, transposed_}, &w);
  if (memory == 0) return w;
  const auto fetch = static_cast<CpuFetch>(c.prefetch);
  if (fetch == CpuFetch::kNone || fetch == CpuFetch::kNoChoice)
    w.unfetched = memory;
  else if (fetches_next(fetch) || fetch == CpuFetch::kSpread)  // nothing prefetches a task's first group
    w.unfetched = memory * std::min(1.0, double(in_blocks ? c.group_n : c.register_n) / double(columns));
  if (!in_blocks)
    w.groups = groups;
  else if (fetch != CpuFetch::kSpread)  // which prefetches the columns' first lines, too
    w.runs = n * blocks;
  w.narrow = memory / double(is_wide ? kWideVectors : t.columns);
  constexpr double kHardwareStreams = 4;  // that a core's prefetchers follow well
  if (!fetches_near(fetch))
    w.crowded = memory * std::max(0.0, double(t.columns) - kHardwareStreams) / kHardwareStreams;
  if (rates.pace_bytes_per_second > 0 && c.pace == 0) w.unpaced = memory;
  return w;
}

void Dot::append(const CpuFields& config, bool short_tasks, std::vector<RankedPlan>* out) const {
  Columns columns;
  columns.step = config.register_n;
  columns.short_tasks = short_tasks;
  append_streamed(
      p_, columns, [&](double n, double k, int64_t tile_n) { return work_of(config, n, k, tile_n); },
      [&](int64_t tile_n, bool is_split) {
        CpuFields c = config;
        c.tile_m = round_up(p_.s.m, config.register_m), c.tile_n = tile_n, c.split = is_split;
        return config_of(c);
      },
      [&](int32_t splits) -> std::string {
        if (!is_float(problem_.a)) return kExactRecipe;
        return absl::StrCat(p_.rates.product_recipe(), " in ", config.lanes,
                            " lanes; K ascending, lanes summed at the end; ", merge_recipe(splits));
      },
      out);
}

// Read in memory order and prefetched far ahead, this is faster on a core that prefetches into L1 than several
// columns side by side.
void Dot::append_wide(CpuFields config, std::vector<RankedPlan>* out) const {
  config.register_m = config.register_n = config.unroll_k = 1;
  config.lanes = kWideVectors * p_.rates.lanes;
  config.prefetch = static_cast<int64_t>(CpuFetch::kFar);
  config.copy_rows = copies_a({1, 1});
  append(config, /*short_tasks=*/true, out);
}

// The plans of a tile without K blocks.
void Dot::append_whole_rows(const RegisterTile& t, CpuFields config, std::vector<RankedPlan>* out) const {
  const CpuRates& rates = p_.rates;
  const MatmulSizes& s = p_.s;
  config.prefetch = static_cast<int64_t>(fetch_of(t, /*in_blocks=*/false));
  config.copy_rows = copies_a(t);
  // A core that prefetches into L1 runs many rows or several passes over a small weight without a pace.
  const bool free = is_small_ && rates.prefetches_into_l1 && (t.rows < s.m || t.rows >= 8);
  config.pace = transposed_ || free ? 0 : pace_for(p_, t, config.unroll_k, arithmetic(t));
  // Such a core is faster with tasks of 256 KiB than with a quarter of B per worker (the cause is not known), unless
  // each task copies A.
  const bool few_copied = rates.rounds_a && s.m <= 2;
  append(config,
         rates.prefetches_into_l1 && !is_small_ && !transposed_ && (few_copied || config.copy_rows == 0),
         out);
}

// The plans of a tile with K blocks. They do not pay for weights of few columns, nor for a single paced row.
void Dot::append_blocks(const RegisterTile& t, CpuFields config, std::vector<RankedPlan>* out) const {
  const MatmulSizes& s = p_.s;
  const CpuFetch fetch = fetch_of(t, /*in_blocks=*/true);
  const int64_t depth = block_depth(t, fetch == CpuFetch::kSpread);
  if (depth == 0 || problem_.zero_a != 0 || transposed_ || (is_small_ && s.m <= kWholeDotMaxM) ||
      (s.m == 1 && p_.rates.pace_bytes_per_second != 0))
    return;
  config.tile_k = depth;
  config.prefetch = static_cast<int64_t>(fetch);
  config.group_n = round_up(dot_group_columns(fetch), int64_t{t.columns});
  if (fetch == CpuFetch::kSpread) config.pace = pace_for(p_, t, config.unroll_k, arithmetic(t));
  append(config, false, out);
}

}  // namespace

void enumerate_matmul_dot(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const auto both = [&](auto... reason) {
    for (KernelKind kernel : {KernelKind::kDot, KernelKind::kDotT}) reject(context, kernel, out, reason...);
  };
  if (!operands_refusal(c).empty()) return both(operands_refusal(c));
  if (c.trans_b == 0) return both("B is not K-contiguous");
  if (c.trans_a != 0) return both("A is not K-contiguous");
  if (c.determinism == Determinism::kBatchInvariant && is_float(c.a))
    return both("batch_invariant needs the numeric recipe of 'panel' for every M");
  if (c.m_hi > kDotMaxM)
    reject(context, KernelKind::kDot, out, "supports M up to ", kDotMaxM, ", not ", c.m_hi);
  else
    Dot(context, /*transposed=*/false).enumerate(out);
  const int64_t m = representative_m(c);
  if (is_blocks(c.b) || c.zero_a != 0)
    reject(context, KernelKind::kDotT, out, "does not support B in blocks or a zero point of A");
  else if (c.rows != Rows::kPlain)
    reject(context, KernelKind::kDotT, out, "streams rows of A that follow each other at one distance");
  else if (c.n > kTurnedDotMaxN)
    reject(context, KernelKind::kDotT, out, "supports N up to ", kTurnedDotMaxN, ", not ", c.n);
  else if (m <= c.n)
    reject(context, KernelKind::kDotT, out, "gains only if A is larger than B, but M ", m, " <= N ", c.n);
  else
    Dot(context, /*transposed=*/true).enumerate(out);
}

}  // namespace lathe
