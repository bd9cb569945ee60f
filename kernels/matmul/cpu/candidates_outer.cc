// Candidates of "outer", which reads rows of B along N. README.md has the choices of each kernel.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using namespace streamed;

// Up to this M, B streams from memory; with more rows, L2 holds what a task reads of it again for every pass.
constexpr int64_t kOuterStreamedM = 16;
constexpr RegisterTile kOuterTiles[] = {{1, 15}, {2, 10}, {3, 7},  {4, 6},  {5, 5},  {6, 4},
                                        {7, 3},  {8, 3},  {10, 2}, {12, 2}, {14, 2}, {1, 7},
                                        {2, 4},  {3, 3},  {4, 3},  {6, 2},  {8, 2},  {16, 1}};
// For more rows: the depths of K blocks, and the most columns of a task. Each task reads A again, so tasks are wider if
// L2 does not hold A. Then the shares of L2: for B without K blocks, and for the sums and two blocks of B with them.
constexpr int64_t kDeepBlocks[] = {kOuterDeepBlock, 2 * kOuterDeepBlock};
constexpr int64_t kDeepColumns = 240, kDeepColumnsFarA = 480;
constexpr double kWholeShare = 0.5, kDeepShare = 0.75, kShareOfL2 = 0.75;
constexpr double kAgainFromL3 = 3;  // TaskWork::again per byte that comes from L3
constexpr int64_t kL2WayBytes = 128 << 10;
constexpr int32_t kFewestDeepRows = 3;  // of a register tile

class Outer {
 public:
  explicit Outer(const CandidateContext& context)
      : p_(context),
        problem_(context.problem),
        b_bytes_(double(p_.s.n) * double(p_.s.k) * p_.s.b_bytes),
        is_small_(b_bytes_ <= p_.rates.l2_bytes / 4) {}

  std::string refusal() const;
  void enumerate(std::vector<RankedPlan>* out) const;

 private:
  void append_few_rows(const RegisterTile& t, const OuterConfig& config, std::vector<RankedPlan>* out) const;
  void append_many_rows(const RegisterTile& t, const OuterConfig& config, std::vector<RankedPlan>* out) const;
  void append(const OuterConfig& config, const Columns& columns, std::vector<RankedPlan>* out) const;
  TaskWork work_of(const OuterConfig& config, double n, double k, double tile_n) const;
  CpuFetch fetch() const;
  // The most columns of a task for more than kOuterStreamedM rows, with K blocks of this depth or (0) without them.
  int64_t held_columns(int64_t depth) const;
  CpuFetch whole_fetch(const OuterConfig& config) const;
  bool is_a_far() const { return double(p_.s.m) * double(p_.s.k) * p_.s.input_bytes > p_.rates.l2_bytes; }

  const CpuPricing p_;
  const ProblemClass& problem_;
  const double b_bytes_;
  const bool is_small_;
};

std::string Outer::refusal() const {
  const ProblemClass& c = problem_;
  if (!operands_refusal(c).empty()) return operands_refusal(c);
  if (!is_float(c.a)) return "does not support i8: products of i8 need four rows of B interleaved";
  if (c.trans_b != 0) return "B is not N-contiguous";
  if (p_.s.batch_invariant) return "batch_invariant needs the numeric recipe of 'panel' for every M";
  return "";
}

// What to prefetch in K blocks. A core that prefetches into L1 leaves one row to its hardware. With more rows it
// gains by prefetching some tiles ahead, or the next block row by row, since each pass' share of the next block as it
// will be read is only a few hundred bytes in a row.
CpuFetch Outer::fetch() const {
  const int64_t m = p_.s.m;
  if (!p_.rates.prefetches_into_l1) return CpuFetch::kNext;
  if (m == 1) return p_.rates.converts_b ? CpuFetch::kNext : CpuFetch::kNone;
  return m <= 4 ? CpuFetch::kNear : m <= kOuterStreamedM ? CpuFetch::kAhead : CpuFetch::kSpread;
}

int64_t Outer::held_columns(int64_t depth) const {
  const auto m = double(p_.s.m), k = double(p_.s.k);
  if (depth == 0) return static_cast<int64_t>(kWholeShare * p_.rates.l2_bytes / (k * p_.s.b_bytes));
  const double column = m * 4 + 2 * double(depth) * p_.s.b_bytes;
  return std::min(is_a_far() ? kDeepColumnsFarA : kDeepColumns,
                  static_cast<int64_t>(kDeepShare * p_.rates.l2_bytes / column));
}

// The work of a task of n columns, or, if n is their mean, of the mean task of the product.
TaskWork Outer::work_of(const OuterConfig& c, double n, double k, double tile_n) const {
  const CpuRates& rates = p_.rates;
  const MatmulSizes& s = p_.s;
  const auto rows = static_cast<int32_t>(c.register_m);
  const auto vectors = static_cast<int32_t>(c.register_n / rates.lanes);
  const double passes = padded_rows(problem_, double(s.m), rows) / rows;
  const double depth = c.tile_k > 0 ? double(c.tile_k) : k, blocks = std::ceil(k / depth);
  const double pitch = double(s.n) * s.b_bytes;

  TaskWork w;
  // Rows of A that share sets of L1 evict each other; so does a block of B in L1 whose rows do, and A's rows with it.
  const double ways = rates.l1d_bytes / kWayBytes;
  const double crossing = crossed_lines(pitch, rates.lanes * s.b_bytes);
  const double rows_of_b = lines_a_set(static_cast<int64_t>(std::min(depth, k)), static_cast<int64_t>(pitch));
  // Rows of B whose distance is a multiple of a large power of two leave most sets of L2 empty.
  const auto apart = double(std::gcd(kL2WayBytes, static_cast<int64_t>(pitch)));
  const double rows_of_a =
      problem_.trans_a != 0 ? 0 : lines_a_set(rows, static_cast<int64_t>(double(s.k) * s.input_bytes));
  const auto group = [&](double times, double wide) {
    const double converted = (s.narrow_a ? rows : 0) + (s.narrow_b ? wide : 0);
    const double bytes = wide * rates.lanes * s.b_bytes, sums = rows * wide * rates.lanes * 4;
    const CpuRates::Step step = rates.step(rows * wide, rows + wide * (1 + crossing));
    w.issue += times * passes * k * step.longer;
    w.loads += times * passes * k * step.shorter;
    w.conversions += times * passes * k * converted * kConvertCycles;
    // Every pass but the first reads the group's block of B again.
    const bool is_in_l1 = bytes * std::min(depth, k) <= kShareOfL1 * rates.l1d_bytes;
    const bool evicts_b = is_in_l1 && passes > 1 && rows_of_b >= ways;  // A needs a way, too
    const bool is_in_l2 = std::min(depth, k) * std::max(bytes, apart) <= kShareOfL2 * rates.l2_bytes;
    const double again = times * std::max(0.0, passes - 1) * k * bytes;
    if (!is_in_l1) w.again += is_in_l2 ? again : kAgainFromL3 * again;
    if (evicts_b) w.evicted += again;
    if (!is_in_l2) w.l3 += again;
    w.starts += times * passes * blocks;
    w.conflicts += times * passes * k * (evicts_b ? rows : std::max(0.0, rows_of_a - ways));
    if (c.tile_k > 0)
      w.l2 += 2 * times * passes * blocks * sums;  // loaded and stored in order
    else if (c.store_directly == 0)
      w.sums += times * passes * sums;
    const double rows_bytes = double(s.m) * std::min(depth, k) * s.input_bytes;
    if (rows_bytes > kShareOfL1 * rates.l1d_bytes)
      count_rows(p_, rows_bytes, times * k / std::min(depth, k), &w);
  };
  // The rest of a task's columns beyond whole groups is one group in a single task, otherwise one vector after the other.
  const double tasks = std::ceil(double(s.n) / tile_n), last = double(s.n) - (tasks - 1) * tile_n;
  const auto task = [&](double times, double columns) {
    const double whole = std::floor(columns / double(c.register_n)),
                 left = columns - whole * double(c.register_n);
    const double rest = std::ceil(left / rates.lanes);
    group(times * whole, vectors);
    if (left > 0 && tasks == 1) {
      const auto lanes = outer_last_lanes(static_cast<int64_t>(left), rates.lanes);
      group(times, rates.fma_units <= 1 ? rest - 1 + double(lanes) / rates.lanes : rest);
    } else if (left > 0) {
      group(times * rest, 1);
    }
  };
  if (n == tile_n || tasks == 1)
    task(1, n);
  else
    task(1 - 1 / tasks, tile_n), task(1 / tasks, last);

  // Every task reads A. That of few rows is always in a cache.
  const double a_bytes = double(s.m) * double(s.k) * s.input_bytes;
  if (s.m > kOuterStreamedM) count_reading(p_, {a_bytes * k / double(s.k), a_bytes, tasks, true}, &w);
  const double memory = count_reading(p_, {n * k * s.b_bytes, b_bytes_, 1, false}, &w);
  if (memory == 0) return w;
  // In K blocks all of a task's columns follow one row of B; otherwise one register tile does. The first K block of
  // a task is not prefetched.
  const double run = c.tile_k > 0 ? n : double(c.register_n);
  const auto fetch = static_cast<CpuFetch>(c.prefetch);
  const bool is_fetched = c.tile_k > 0 && fetch != CpuFetch::kNone;
  w.unfetched = memory * (is_fetched ? std::min(1.0, depth / k) : 1);
  // Many passes leave time for the jumps of the first one.
  const double share = c.tile_k == 0 && s.m > kOuterStreamedM ? std::min(1.0, run / n) : 1;
  (is_fetched ? w.jumps : w.runs) = std::ceil(n / run) * k * std::min(1.0, pitch / kPageBytes) * share;
  if (rates.pace_bytes_per_second > 0 && c.pace == 0) w.unpaced = memory;
  const double steps = passes * std::ceil(n / double(c.register_n)) * k / double(c.unroll_k);
  if (const double paced = steps * double(c.pace); paced > w.issue + w.conversions)
    w.issue = paced, w.loads = w.conversions = 0;
  return w;
}

// What many rows prefetch in a batch without K blocks. A step of few FMAs has no time to compute addresses.
CpuFetch Outer::whole_fetch(const OuterConfig& c) const {
  constexpr int64_t kFewestSums = 18;
  const int64_t vectors = ceil_div(std::min(c.register_n, p_.s.n), p_.rates.lanes);
  return c.register_m * vectors >= kFewestSums ? CpuFetch::kSpread : CpuFetch::kNoChoice;
}

void Outer::append(const OuterConfig& config, const Columns& columns, std::vector<RankedPlan>* out) const {
  append_streamed(
      p_, columns, [&](double n, double k, int64_t tile_n) { return work_of(config, n, k, double(tile_n)); },
      [&](int64_t tile_n, bool is_split) -> CompileConfig {
        OuterConfig c = config;
        c.tile_m = round_up(p_.s.m, config.register_m), c.tile_n = tile_n, c.split = is_split;
        // The partial sums of a split pass through no epilogue.
        if (is_split) c.store_directly = c.tile_k == 0;
        return c;
      },
      [](int32_t splits) { return absl::StrCat("fma f32; K ascending; ", merge_recipe(splits)); }, out);
}

// Few rows: B streams from memory, in K blocks unless it is small.
void Outer::append_few_rows(const RegisterTile& t, const OuterConfig& config,
                            std::vector<RankedPlan>* out) const {
  const MatmulSizes& s = p_.s;
  Columns columns;
  columns.step = config.register_n;
  append(config, columns, out);
  if (is_small_) return;
  OuterConfig blocked = config;
  const CpuFetch fetched = fetch();
  blocked.store_directly = 0;
  blocked.tile_k = s.m > 4 ? 32 : fetched == CpuFetch::kNear ? 16 : 8;
  blocked.prefetch = static_cast<int64_t>(fetched);
  // Two to four rows gain by a pace; a single row loses.
  if (s.m > 1 && s.m <= 4 && s.n >= config.register_n && b_bytes_ > p_.rates.l2_bytes)
    blocked.pace =
        pace_for(p_, t, config.unroll_k, p_.rates.step_cycles(t.rows * t.columns, t.rows + t.columns, 0));
  // All of a K block's rows of B are read in runs of a task's columns.
  if (s.m <= 4 && p_.rates.workers == 1) columns.tasks_a_worker = 1;
  append(blocked, columns, out);
}

// Many rows: every pass reads from L2 what the task has of B, whole or in K blocks.
void Outer::append_many_rows(const RegisterTile& t, const OuterConfig& config,
                             std::vector<RankedPlan>* out) const {
  Columns columns;
  columns.step = config.register_n;
  if (t.rows < kFewestDeepRows)
    return reject(p_.context, config, out, "register tile has too few rows for M ", p_.s.m);
  columns.most = held_columns(0);
  const bool is_held = columns.most >= config.register_n;
  if (is_held) {
    OuterConfig whole = config;
    whole.prefetch = static_cast<int64_t>(whole_fetch(config));
    append(whole, columns, out);
  }
  // Each task reads A again, and one worker needs no others to balance its work.
  columns.repeats_a = is_a_far();
  if (p_.rates.workers == 1) columns.tasks_a_worker = 1;
  for (const int64_t depth : kDeepBlocks) {
    if (is_held && (is_small_ || depth >= p_.s.k)) continue;
    OuterConfig blocked = config;
    blocked.store_directly = 0;
    blocked.tile_k = depth;
    blocked.prefetch = static_cast<int64_t>(fetch());
    columns.most = held_columns(depth);
    if (columns.most < config.register_n)
      reject(p_.context, blocked, out,
             "L2 does not hold the sums and two K blocks of a register tile's columns");
    else
      append(blocked, columns, out);
  }
}

void Outer::enumerate(std::vector<RankedPlan>* out) const {
  OuterConfig config;
  config.lanes = p_.rates.lanes;
  config.store_directly = has_short_epilogue(problem_);
  for (const RegisterTile& t : kOuterTiles) {
    config.register_m = t.rows;
    config.register_n = int64_t{t.columns} * p_.rates.lanes;
    config.unroll_k = unroll_of(t);
    if (const std::string why = tile_refusal(p_, t, t.columns, false); !why.empty())
      reject(p_.context, config, out, why);
    else if (p_.s.m <= kOuterStreamedM)
      append_few_rows(t, config, out);
    else
      append_many_rows(t, config, out);
  }
}

}  // namespace

void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const Outer outer(context);
  if (const std::string why = outer.refusal(); !why.empty())
    return reject(context, KernelKind::kOuter, out, why);
  outer.enumerate(out);
}

}  // namespace lathe
