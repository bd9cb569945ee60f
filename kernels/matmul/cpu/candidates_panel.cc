// Candidates of "panel" and "panel_t": CPU matmul for any layout and M. "panel_t" computes the transposed
// product: it reads B's columns as scalars and A's rows as vectors. So the larger of two K-contiguous
// operands (the weight, if M < N) is copied without transposing, and is read from memory while registers
// multiply.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

struct RegisterTile {
  int32_t rows, vectors;
};
// Rows by vectors of D in registers. 14x2 needs the fewest loads per FMA with 32 registers; the others pad
// the M of a bucket less. From 6x2 on they fit 16 registers.
constexpr RegisterTile kTiles[] = {{14, 2}, {13, 2}, {12, 2}, {11, 2}, {10, 2}, {9, 3},  {8, 3},  {7, 3},
                                   {7, 4},  {6, 4},  {4, 6},  {2, 8},  {28, 1}, {24, 1}, {20, 1}, {6, 2},
                                   {5, 2},  {4, 3},  {4, 2},  {3, 3},  {2, 4},  {1, 4},  {14, 1}, {12, 1}};
// Depths of panels in words (floats, or four bytes along K), multiples of every number of lanes.
constexpr int32_t kDepths[] = {256, 384, 512};
constexpr int32_t kInvariantDepth = 256;  // batch_invariant: one K order for all M
constexpr int64_t kTileRows[] = {64, 128, 256, 512};
constexpr int64_t kTileColumns[] = {32, 64, 128, 256, 512, 1024};
constexpr int64_t kLeastColumns = 64;  // does not apply to panels as deep as K

static_assert(kInvariantDepth == kDepths[0], "the depth whose smallest panels are always legal");
// The share of L2 for a task's packed columns of B and one panel of A. The sums and the source of the
// packing stream through the rest.
constexpr double kPackedShare = 0.75;

// A candidate as the micro-kernel sees it: rows are read as scalars, columns as vectors.
struct PanelShape {
  int64_t m, n;                     // extents of the problem along rows and columns
  int32_t tile_rows, tile_columns;  // tile of a task
  int64_t register_rows, register_columns;
  int32_t depth, k_per_lane;
  bool whole = false;  // panels as deep as K, for a micro-kernel in C
  double packed_bytes() const { return (double(tile_columns) + register_rows) * depth * 4 / k_per_lane; }
};

// The share of the FMA rate that remains around the inner loop of the micro-kernel.
constexpr double kEfficiency = 0.95;

// With fewer accumulators two FMA units wait for each other; such tiles serve few registers or few rows.
constexpr int64_t kFewSums = 12;

// Prices the tiles of one form.
class PanelPricing {
 public:
  PanelPricing(const CandidateContext& context, bool transposed)
      : context_(context), rates_(context), s_(context.problem), transposed_(transposed) {
    const bool a_turns = context.problem.trans_a != 0, b_turns = context.problem.trans_b != 0;
    // Rows are packed along K, columns across it. An operand that lies the other way in memory is
    // transposed in registers.
    turn_rows_ = transposed ? !b_turns : a_turns;
    turn_columns_ = transposed ? !a_turns : b_turns;
  }

  const CpuRates& rates() const { return rates_; }
  int64_t rows() const { return transposed_ ? s_.n : s_.m; }
  int64_t columns() const { return transposed_ ? s_.m : s_.n; }
  // PanelConfig::copy_ahead of a plan that does not split K.
  bool can_copy_ahead(const PanelShape& p) const;
  // Whether the passes over a K block prefetch the columns of the next one, which L2 must hold beside it.
  bool fetches_block(const PanelShape& p) const {
    constexpr double kHeld = 0.8;
    return !turn_columns_ && !p.whole && p.depth < s_.k &&
           double(p.tile_columns) * p.depth * (4 / p.k_per_lane + column_bytes()) <= kHeld * rates_.l2_bytes;
  }
  // PanelConfig::store_directly.
  bool stores_directly(const PanelShape& p, bool is_split) const {
    const ProblemClass& c = context_.problem;
    return !transposed_ && !p.whole && p.depth >= s_.k && c.zero_b == Scale::kNone &&
           (is_split || has_short_epilogue(c));
  }
  // The estimate of the cost model, which ignores that splits of K and short K blocks do not copy ahead.
  bool copies_ahead(const PanelShape& p) const {
    constexpr int32_t kLineWords = 16;
    return !p.whole && !turn_rows_ && p.tile_rows > p.register_rows && p.register_rows <= kLineWords;
  }

  // A config with only a register tile.
  CompileConfig register_tile(int32_t register_rows, int32_t register_columns) const {
    const PanelShape p{0, 0, 0, 0, register_rows, register_columns, 0, rates_.k_per_lane};
    return transposed_ ? CompileConfig(fill<PanelTConfig>(p)) : CompileConfig(fill<PanelConfig>(p));
  }
  // Appends every task tile for this register tile: the listed sizes, rounded to the register tile and cut
  // to the problem, whose panels fit L2.
  void append(int32_t register_rows, int32_t register_columns, std::vector<RankedPlan>* out) const;
  // The same with panels as deep as K, for a micro-kernel in C: K is neither tiled nor split.
  void append_whole(const CompileConfig& ukernel, std::vector<RankedPlan>* out) const;

 private:
  void append_tiles(PanelShape p, std::vector<RankedPlan>* out) const;
  void append_splits(const PanelShape& p, std::vector<RankedPlan>* out) const;
  template <typename Config>
  Config fill(const PanelShape& p) const;
  CompileConfig config_of(const PanelShape& p, bool is_split) const;
  double compute_seconds(const PanelShape& p, double rows, double columns, double k) const;
  double pack_seconds(const PanelShape& p, double rows, double columns, double k, double bandwidth) const;
  double pack_cycles(int32_t width, bool transposes, bool across, bool converts) const;
  double read_seconds(double extent, double total, double times, double bytes, double first_rate) const;
  double page_efficiency(const PanelShape& p) const;
  double pack_rate(const PanelShape& p, double bandwidth) const;
  double row_bytes() const { return transposed_ ? s_.b_bytes : s_.input_bytes; }
  double column_bytes() const { return transposed_ ? s_.input_bytes : s_.b_bytes; }
  bool converts_rows() const { return transposed_ ? rates_.converts_b : rates_.converts_a; }
  bool converts_columns() const { return transposed_ ? rates_.converts_a : rates_.converts_b; }
  double tile_seconds(const PanelShape& p, double rows, double columns, double k, double bandwidth) const;

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
  const bool transposed_;
  bool turn_rows_, turn_columns_;
};

// The numbers that all kernels with panels have.
template <typename Config>
Config PanelPricing::fill(const PanelShape& p) const {
  Config c;
  c.lanes = rates_.lanes;
  c.tile_k = p.depth;
  c.tile_m = transposed_ ? p.tile_columns : p.tile_rows;
  c.tile_n = transposed_ ? p.tile_rows : p.tile_columns;
  c.register_m = transposed_ ? p.register_columns : p.register_rows;
  c.register_n = transposed_ ? p.register_rows : p.register_columns;
  return c;
}

CompileConfig PanelPricing::config_of(const PanelShape& p, bool is_split) const {
  const auto finish = [&](auto c) -> CompileConfig {
    c.split = is_split;
    c.prefetch_lines = kPanelLines;
    if (fetches_block(p)) c.prefetch = static_cast<int64_t>(CpuFetch::kSpread);
    c.copy_ahead = !is_split && can_copy_ahead(p);
    return c;
  };
  if (p.whole) return fill<PanelUkernelConfig>(p);
  if (!transposed_) {
    auto c = fill<PanelConfig>(p);
    c.store_directly = stores_directly(p, is_split);
    return finish(c);
  }
  auto c = fill<PanelTConfig>(p);
  if (has_narrow_passes(p.register_columns / rates_.lanes, CpuFetch::kNoChoice)) {
    const int64_t least = least_rows(context_.problem, c.tile_m);
    c.narrow_passes = least_narrow_pass(c.tile_m, c.register_m, least, rates_.lanes);
  }
  return finish(c);
}

bool PanelPricing::can_copy_ahead(const PanelShape& p) const {
  if (p.whole || turn_rows_) return false;
  const int64_t bits =
      static_cast<int64_t>(size_of(transposed_ ? context_.problem.b : context_.problem.a)) * 8;
  return PanelRows{p.tile_rows, p.register_rows, bits, rates_.k_per_lane, rates_.lanes}.copy_ahead(p.depth,
                                                                                                   s_.k);
}

// Seconds of the micro-kernels over `rows` by `columns`, and of storing the sums between K blocks.
double PanelPricing::compute_seconds(const PanelShape& p, double rows, double columns, double k) const {
  const double vectors = p.register_columns / rates_.lanes;
  const double step =
      rates_.step_cycles(p.register_rows * vectors, p.register_rows + vectors, 0) / kEfficiency;
  // The panel of rows stays in L1. The columns' panels come from L2; prefetching hides nearly all of that. A
  // micro-kernel in C leaves it to the hardware.
  constexpr double kExposed = 0.12;
  const double words = k / p.k_per_lane;
  const double row_rate = rates_.reread_bytes_per_cycle(double(p.register_rows) *
                                                        std::min<double>(p.depth, k) * 4 / p.k_per_lane);
  const double column_rate = rates_.reread_bytes_per_cycle(p.packed_bytes()) / (p.whole ? 1 : kExposed);
  const double feed = (row_rate > 0 ? p.register_rows * 4 / row_rate : 0) +
                      (column_rate > 0 ? p.register_columns * 4 / column_rate : 0);
  const double sums = double(p.tile_rows) * p.tile_columns * 4;
  const double fetched = fetches_block(p) ? double(p.tile_columns) * p.depth * column_bytes() : 0;
  const double sums_rate =
      p.packed_bytes() + fetched + sums <= rates_.l2_bytes ? kL2BytesPerCycle : kL3BytesPerCycle;
  const double keep =
      stores_directly(p, false) ? 0 : 2.0 * p.register_rows * p.register_columns * 4 / sums_rate;
  constexpr double kTileCycles = 20;  // cycles to enter and leave the loop over k
  const double row_panels = std::ceil(rows / p.register_rows);
  const double tiles = row_panels * std::ceil(columns / p.register_columns);
  // With copy_ahead each step of one pass copies a cache line. Many FMAs hide that, few do not.
  constexpr double kHidesAll = 18;
  const double copying = copies_ahead(p) ? std::max(0.0, kHidesAll - p.register_rows * vectors) : 0;
  return (tiles * (words * CpuRates::overlap(step, feed) + std::ceil(k / p.depth) * (keep + kTileCycles)) +
          row_panels * words * copying) /
         rates_.clock_hz;
}

// Cycles per element to pack a panel of this width. A copy takes a load and a store per vector. A
// transposition takes log2(lanes) more shuffles per vector, and works on whole blocks of lanes x lanes.
// Words of bytes from lines across K take four widening loads, three shifts and three ors.
double PanelPricing::pack_cycles(int32_t width, bool transposes, bool across, bool converts) const {
  const double waste = transposes ? double(round_up(width, rates_.lanes)) / width : 1;
  const double vector = 2.0 + (transposes ? std::log2(rates_.lanes) + 2.0 : 0) +
                        (converts ? kConvertCycles : 0) + (across && rates_.k_per_lane > 1 ? 9 : 0);
  return vector * waste / (rates_.lanes * rates_.k_per_lane);
}

// The share of the memory rate for columns that are contiguous across K: each row of a task is a run.
double PanelPricing::page_efficiency(const PanelShape& p) const {
  return CpuRates::page_efficiency(p.tile_columns * column_bytes(), double(p.n) * column_bytes());
}

// The rate at which packing reads columns from memory. A transposition reads from as many pages as there are
// columns, and its registers wait for them. Otherwise one row after the other is a single stream.
double PanelPricing::pack_rate(const PanelShape& p, double bandwidth) const {
  if (turn_columns_) return 0.2 * bandwidth * CpuRates::run_efficiency(p.depth * column_bytes());
  return std::min(bandwidth, rates_.stream_bytes_per_second) *
         CpuRates::run_efficiency(p.register_columns * column_bytes());
}

// Seconds to read `extent` lines of an operand with `total` lines that is read `times` times: once from
// memory, then from a cache. `bytes`: per element.
double PanelPricing::read_seconds(double extent, double total, double times, double bytes,
                                  double first_rate) const {
  const double rate = rates_.reread_bytes_per_cycle(total * s_.k * bytes);
  const double again = rate > 0 ? 1 / (rate * rates_.clock_hz) : 0;
  return extent * bytes * (1 / first_rate + (times - 1) * again) / times;
}

// Seconds to pack `rows` and `columns` over `k`, without rows that are copied ahead.
double PanelPricing::pack_seconds(const PanelShape& p, double rows, double columns, double k,
                                  double bandwidth) const {
  const double row_run = (turn_rows_ ? p.register_rows : p.depth) * row_bytes();
  const bool ahead = copies_ahead(p);
  const double cycles =
      (ahead ? 0 : rows * pack_cycles(p.register_rows, turn_rows_, turn_rows_, converts_rows())) +
      columns * (pack_cycles(p.register_columns, turn_columns_, !turn_columns_, converts_columns()) +
                 s_.decode_cycles / rates_.lanes);
  const double row_reading = read_seconds(rows, p.m, std::ceil(double(p.n) / p.tile_columns), row_bytes(),
                                          bandwidth * CpuRates::run_efficiency(row_run));
  double column_reading = read_seconds(columns, p.n, std::ceil(double(p.m) / p.tile_rows), column_bytes(),
                                       pack_rate(p, bandwidth));
  if (fetches_block(p)) {
    const double first = std::min(1.0, p.depth / k);
    column_reading = first * column_reading +
                     (1 - first) * columns * column_bytes() / (kL2BytesPerCycle * rates_.clock_hz);
  }
  return k * CpuRates::overlap(cycles / rates_.clock_hz, column_reading + (ahead ? 0 : row_reading));
}

// Seconds of one task.
double PanelPricing::tile_seconds(const PanelShape& p, double rows, double columns, double k,
                                  double bandwidth) const {
  double work = compute_seconds(p, rows, columns, k);
  double beside = 0;  // seconds to read what is copied or prefetched beside the FMAs
  if (copies_ahead(p))
    beside += k * read_seconds(rows, p.m, std::ceil(double(p.n) / p.tile_columns), row_bytes(), bandwidth);
  if (fetches_block(p))
    beside +=
        (k - std::min<double>(p.depth, k)) * read_seconds(columns, p.n, std::ceil(double(p.m) / p.tile_rows),
                                                          column_bytes(), bandwidth * page_efficiency(p));
  if (beside > 0) work = CpuRates::overlap(work, beside);
  return work + pack_seconds(p, rows, columns, k, bandwidth);
}

// The cost of packing beyond what is counted, over "direct", which does not pack.
constexpr double kBesidePacking = 1.05;

void PanelPricing::append_splits(const PanelShape& p, std::vector<RankedPlan>* out) const {
  const double rows = round_up(p.m, p.register_rows), columns = round_up(p.n, p.register_columns);
  const double row_tiles = std::ceil(rows / p.tile_rows), column_tiles = std::ceil(columns / p.tile_columns);
  const double tiles = row_tiles * column_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * p.depth)) {
    const double k = std::ceil(double(s_.k) / splits);
    const double tasks = tiles * splits, bandwidth = rates_.bandwidth(tasks);
    // Transposing the sums back is one more pass over them through L2.
    const double turn =
        transposed_ ? 8 / kL2BytesPerCycle / rates_.clock_hz +
                          rates_.k_per_lane * pack_cycles(rates_.lanes, true, false, false) / rates_.clock_hz
                    : 0;
    const auto seconds = [&](double m, double n) {
      // D is read for ownership before it is written.
      return kBesidePacking * tile_seconds(p, m, n, k, bandwidth) +
             m * n * (2 * (splits > 1 ? 4 : s_.output_bytes) / bandwidth + turn);
    };
    const double predicted = rates_.schedule_seconds(tasks, seconds(rows / row_tiles, columns / column_tiles),
                                                     seconds(std::min<double>(p.tile_rows, rows),
                                                             std::min<double>(p.tile_columns, columns))) +
                             (splits > 1 ? merge_seconds(s_, splits, rates_.bandwidth(rates_.workers)) : 0);
    if (!context_.wants(predicted)) continue;
    RankedPlan r;
    r.plan.config = config_of(p, splits > 1);
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds = predicted;
    r.plan.numeric_recipe = rates_.k_per_lane == 4
                                ? kExactRecipe
                                : absl::StrCat(rates_.product_recipe(), "; K ascending in blocks of ",
                                               p.depth, ", summed in order; ", merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

void PanelPricing::append(int32_t register_rows, int32_t register_columns,
                          std::vector<RankedPlan>* out) const {
  PanelShape p{rows(), columns(), 0, 0, register_rows, register_columns, 0, rates_.k_per_lane};
  for (int32_t depth : kDepths) {
    if (s_.batch_invariant && depth != kInvariantDepth) continue;
    p.depth = depth * p.k_per_lane;
    append_tiles(p, out);
  }
}

void PanelPricing::append_whole(const CompileConfig& ukernel, std::vector<RankedPlan>* out) const {
  const auto& config = ukernel.as<PanelUkernelConfig>();
  constexpr int64_t kTooDeep = 1 << 30;  // deeper than any L2 allows
  const auto depth =
      static_cast<int32_t>(std::min(round_up(s_.k, rates_.lanes * rates_.k_per_lane), kTooDeep));
  const size_t first = out->size();
  append_tiles(
      {rows(), columns(), 0, 0, config.register_m, config.register_n, depth, rates_.k_per_lane, true}, out);
  for (size_t i = first; i < out->size(); ++i) (*out)[i].plan.config.ukernel = ukernel.ukernel;
}

// Appends every task tile of a shape: the listed sizes, rounded to the register tile and cut to the
// problem, whose panels fit L2. Panels as deep as K may also have the columns of one register tile only.
void PanelPricing::append_tiles(PanelShape p, std::vector<RankedPlan>* out) const {
  const double limit = kPackedShare * rates_.l2_bytes;
  // All sizes beyond the problem give the same tile, which is priced once.
  const auto cut = [](int64_t size, int64_t problem, int32_t step) {
    return static_cast<int32_t>(std::min(round_up(size, step), round_up(problem, step)));
  };
  int32_t last_rows = 0;
  for (int64_t tile_rows : kTileRows) {
    p.tile_rows = cut(tile_rows, p.m, p.register_rows);
    if (p.tile_rows == std::exchange(last_rows, p.tile_rows)) continue;
    int32_t last_columns = 0;
    for (int64_t tile_columns : kTileColumns) {
      if (tile_columns < kLeastColumns && !p.whole) continue;
      p.tile_columns = cut(tile_columns, p.n, p.register_columns);
      if (p.tile_columns == std::exchange(last_columns, p.tile_columns)) continue;
      // The smallest panels are legal with any L2, so that every class has a plan; their price reflects it.
      const bool smallest = !p.whole && p.depth == kDepths[0] * p.k_per_lane && tile_columns == kLeastColumns;
      if (p.packed_bytes() <= limit || smallest)
        append_splits(p, out);
      else if (context_.wants_rejected())
        out->push_back(rejected(config_of(p, false),
                                absl::StrCat("packed panels take ", int64_t(p.packed_bytes()),
                                             " bytes, at most ", int64_t(limit), " bytes of L2 are used")));
    }
  }
}

// Every register tile of one form.
void enumerate_form(const CandidateContext& context, bool transposed, std::vector<RankedPlan>* out) {
  const PanelPricing pricing(context, transposed);
  for (const RegisterTile& t : kTiles) {
    const int32_t columns = t.vectors * pricing.rates().lanes;
    const CompileConfig config = pricing.register_tile(t.rows, columns);
    const int32_t need = t.rows * t.vectors + t.vectors + 1;
    if (need > pricing.rates().registers)
      reject(context, config, out, "tile needs ", need, " registers, the target has ",
             pricing.rates().registers);
    else if (t.rows > pricing.rows())
      reject(context, config, out, "register tile has too many ", transposed ? "columns: " : "rows: ", t.rows,
             " for ", transposed ? "N " : "M ", pricing.rows());
    else if (t.rows * t.vectors < kFewSums && pricing.rates().registers >= 32 && pricing.rows() > kFewSums)
      reject(context, config, out, "register tile has ", t.rows * t.vectors, " accumulators, fewer than ",
             kFewSums, ": other tiles use more of the registers");
    else if (t.vectors > 1 && pricing.rows() > kFewSums &&
             round_up(pricing.columns(), columns) >= 2 * round_up(pricing.columns(), pricing.rates().lanes))
      reject(context, config, out, "at least half of the register tile would be padding: ", columns,
             transposed ? " rows for M " : " columns for N ", pricing.columns());
    else
      pricing.append(t.rows, columns, out);
  }
}

}  // namespace

void append_whole_panels(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out) {
  PanelPricing(context, false).append_whole(config, out);
}

void enumerate_matmul_panel(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const MatmulSizes s(context.problem);
  const auto refuse = [&](KernelKind kernel, const auto&... why) { reject(context, kernel, out, why...); };
  if (!operands_refusal(context.problem).empty())
    return refuse(KernelKind::kPanel, operands_refusal(context.problem));
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty())
    return refuse(KernelKind::kPanel, refusal);
  if (context.problem.zero_a != 0)
    refuse(KernelKind::kPanel, "does not support a zero point of A, 'panel_t' does");
  else
    enumerate_form(context, false, out);
  if (s.blocks)
    refuse(KernelKind::kPanelT, "does not support B in ", name_of(context.problem.b), ", 'panel' does");
  else
    enumerate_form(context, true, out);
}

}  // namespace lathe
