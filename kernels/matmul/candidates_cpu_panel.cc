// matmul on the CPU for any layout and M: "panel".
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

struct RegisterTile {
  int32_t rows, vectors;
};
// Rows by vectors of D in registers. 14x2 on 32 registers does the most FMAs for what it loads; the others
// fit the M of a bucket with less waste. From 6x2 on they fit 16 registers.
constexpr RegisterTile kTiles[] = {{14, 2}, {13, 2}, {12, 2}, {11, 2}, {10, 2}, {9, 3},
                                   {8, 3},  {7, 3},  {6, 4},  {4, 6},  {2, 8},  {6, 2},
                                   {5, 2},  {4, 3},  {4, 2},  {3, 3},  {2, 4},  {1, 4}};
// Depth of the panels, multiples of every lane count.
constexpr int32_t kDepths[] = {256, 384, 512};
constexpr int32_t kInvariantDepth = 256;  // batch_invariant: one K order for all M
constexpr int64_t kTileRows[] = {64, 128, 256, 512};
constexpr int64_t kTileColumns[] = {64, 128, 256, 512, 1024};

// A task keeps tile_n columns of B packed and one panel of A: at most this part of L2, since the sums and
// what is being packed stream through it.
constexpr double kPackedShare = 0.75;
double packed_bytes(const CompileConfig& c) { return (double(c.tile_n) + c.register_m) * c.tile_k * 4; }

// What is left of the FMA rate around the micro-kernel's inner loop (0.97 to 1.0 of OpenBLAS when written by
// hand).
constexpr double kEfficiency = 0.95;

// Prices one register tile's rows of the table.
class PanelPricing {
 public:
  PanelPricing(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& sizes)
      : context_(context), rates_(rates), s_(sizes) {}

  // Task tiles of the listed sizes, rounded to the register tile and cut to the problem, whose panels fit L2.
  void append(CompileConfig config, std::vector<RankedPlan>* out) const;

 private:
  void append_splits(CompileConfig config, std::vector<RankedPlan>* out) const;
  double compute_seconds(const CompileConfig& c, double rows, double columns, double k) const;
  double pack_seconds(const CompileConfig& c, double rows, double columns, double k, double bandwidth) const;
  double pack_cycles(int32_t width, bool transposes) const;
  double read_seconds(double extent, double total, double times, double first_rate) const;

  const CandidateContext& context_;
  const CpuRates& rates_;
  const MatmulSizes& s_;
};

// Seconds of the micro-kernels over `rows` by `columns`, and of keeping the sums between K blocks.
double PanelPricing::compute_seconds(const CompileConfig& c, double rows, double columns, double k) const {
  const double vectors = c.register_n / rates_.lanes;
  const double step = rates_.step_cycles(c.register_m * vectors, c.register_m + vectors, 0) / kEfficiency;
  // The panel of A stays in L1 while all of B's come by from L2, which prefetching hides but for a quarter.
  const double a_rate =
      rates_.reread_bytes_per_cycle(double(c.register_m) * std::min<double>(c.tile_k, k) * 4);
  const double b_rate = rates_.reread_bytes_per_cycle(packed_bytes(c));
  const double feed =
      (a_rate > 0 ? c.register_m * 4 / a_rate : 0) + (b_rate > 0 ? c.register_n * 4 / b_rate : 0);
  const double sums = double(c.tile_m) * c.tile_n * 4;
  const double sums_rate = packed_bytes(c) + sums <= rates_.l2_bytes ? kL2BytesPerCycle : kL3BytesPerCycle;
  const double keep = 2.0 * c.register_m * c.register_n * 4 / sums_rate;
  constexpr double kTileCycles = 20;  // entering and leaving the loop over k
  const double tiles = (rows / c.register_m) * (columns / c.register_n), blocks = std::ceil(k / c.tile_k);
  return tiles * (k * CpuRates::overlap(step, feed) + blocks * (keep + kTileCycles)) / rates_.clock_hz;
}

// Cycles an element to pack a panel of this width: a copy moves a vector in a load and a store; a
// transposition needs log2(lanes) shuffles a vector besides, on one or two ports, and works on whole blocks
// of lanes by lanes.
double PanelPricing::pack_cycles(int32_t width, bool transposes) const {
  const double waste = double(round_up(width, rates_.lanes)) / width;
  const double vector =
      2.0 + (transposes ? std::log2(rates_.lanes) + 2.0 : 0) + (s_.converts ? kConvertCycles : 0);
  return vector * waste / rates_.lanes;
}

// `extent` rows of an operand of `total` rows that is read `times` over: from memory once, then from a cache.
double PanelPricing::read_seconds(double extent, double total, double times, double first_rate) const {
  const double rate = rates_.reread_bytes_per_cycle(total * s_.k * s_.input_bytes);
  const double again = rate > 0 ? 1 / (rate * rates_.clock_hz) : 0;
  return extent * s_.input_bytes * (1 / first_rate + (times - 1) * again) / times;
}

// Seconds to pack `rows` of A and `columns` of B over `k`. A panel of A lies along M and one of B along N:
// what lies along K in memory is transposed, in runs of tile_k; the rest is copied, in runs of a panel's
// width.
double PanelPricing::pack_seconds(const CompileConfig& c, double rows, double columns, double k,
                                  double bandwidth) const {
  const bool turn_a = context_.problem.trans_a == 0, turn_b = context_.problem.trans_b != 0;
  const double a_run = (turn_a ? c.tile_k : c.register_m) * s_.input_bytes;
  const double b_run = (turn_b ? c.tile_k : c.register_n) * s_.input_bytes;
  const double cycles =
      rows * pack_cycles(c.register_m, turn_a) + columns * pack_cycles(c.register_n, turn_b);
  const double reading = read_seconds(rows, s_.m, std::ceil(double(s_.n) / c.tile_n),
                                      bandwidth * CpuRates::run_efficiency(a_run)) +
                         read_seconds(columns, s_.n, std::ceil(double(s_.m) / c.tile_m),
                                      bandwidth * CpuRates::run_efficiency(b_run));
  return k * CpuRates::overlap(cycles / rates_.clock_hz, reading);
}

void PanelPricing::append_splits(CompileConfig config, std::vector<RankedPlan>* out) const {
  const double rows = round_up(s_.m, config.register_m), columns = round_up(s_.n, config.register_n);
  const double row_tiles = std::ceil(rows / config.tile_m), column_tiles = std::ceil(columns / config.tile_n);
  const double tiles = row_tiles * column_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * config.tile_k)) {
    config.split = splits > 1;
    const double k = std::ceil(double(s_.k) / splits);
    const double tasks = tiles * splits, bandwidth = rates_.bandwidth(tasks);
    const auto seconds = [&](double m, double n) {
      // D is read for ownership before it is written.
      return compute_seconds(config, m, n, k) + pack_seconds(config, m, n, k, bandwidth) +
             m * n * 2 * (splits > 1 ? 4 : s_.output_bytes) / bandwidth;
    };
    RankedPlan r;
    r.plan.config = config;
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds =
        rates_.schedule_seconds(
            tasks, seconds(rows / row_tiles, columns / column_tiles),
            seconds(std::min<double>(config.tile_m, rows), std::min<double>(config.tile_n, columns))) +
        (splits > 1 ? merge_seconds(s_, splits, rates_.bandwidth(rates_.workers)) : 0);
    r.plan.numeric_recipe = absl::StrCat("fma f32; K ascending in blocks of ", config.tile_k,
                                         ", summed in order; ", merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

void PanelPricing::append(CompileConfig config, std::vector<RankedPlan>* out) const {
  const double limit = kPackedShare * rates_.l2_bytes;
  // Sizes beyond the problem all come to the same tile: it is priced once.
  const auto cut = [](int64_t size, int64_t problem, int32_t step) {
    return static_cast<int32_t>(std::min(round_up(size, step), round_up(problem, step)));
  };
  for (int32_t depth : kDepths) {
    if (s_.batch_invariant && depth != kInvariantDepth) continue;
    config.tile_k = depth;
    int32_t last_m = 0;
    for (int64_t rows : kTileRows) {
      config.tile_m = cut(rows, s_.m, config.register_m);
      if (config.tile_m == std::exchange(last_m, config.tile_m)) continue;
      int32_t last_n = 0;
      for (int64_t columns : kTileColumns) {
        config.tile_n = cut(columns, s_.n, config.register_n);
        if (config.tile_n == std::exchange(last_n, config.tile_n)) continue;
        if (packed_bytes(config) > limit)
          out->push_back(rejected(config, absl::StrCat("packed panels ", int64_t(packed_bytes(config)), " > ",
                                                       int64_t(limit), " of L2")));
        else
          append_splits(config, out);
      }
    }
  }
}

}  // namespace

void enumerate_matmul_panel(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const CpuRates rates(context);
  const MatmulSizes s(context.problem);
  CompileConfig config;
  config.kernel = "panel";
  config.lanes = rates.lanes;
  if (s.batch_invariant && context.split_k > 1)
    return out->push_back(rejected(config, absl::StrCat("batch_invariant: split_k ", context.split_k,
                                                        " forced, the recipe has 1 split")));
  const PanelPricing pricing(context, rates, s);
  for (const RegisterTile& t : kTiles) {
    config.register_m = t.rows;
    config.register_n = t.vectors * rates.lanes;
    const int32_t need = t.rows * t.vectors + t.vectors + 1;
    if (need > rates.registers)
      out->push_back(rejected(config, absl::StrCat("registers ", need, " > ", rates.registers)));
    else if (t.rows > s.m)
      out->push_back(rejected(config, absl::StrCat("register rows ", t.rows, " > M ", s.m)));
    else
      pricing.append(config, out);
  }
}

}  // namespace lathe
