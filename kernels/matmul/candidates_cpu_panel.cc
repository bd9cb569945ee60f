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
// Rows by vectors of D in registers. 14x2 on 32 registers does the most FMAs for a load; the others fit the M
// of a bucket with less waste. From 6x2 on they fit 16 registers.
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

// Cycles an element to pack a panel of this width: a copy moves a vector in a load and a store; a
// transposition needs log2(lanes) shuffles a vector besides, on one or two ports, and works on whole blocks
// of lanes by lanes.
double pack_cycles(const CpuRates& rates, int32_t width, bool transposes, bool converts) {
  const double waste = double(round_up(width, rates.lanes)) / width;
  return (2.0 + (transposes ? std::log2(rates.lanes) + 2.0 : 0) + (converts ? kConvertCycles : 0)) * waste /
         rates.lanes;
}

struct Work {
  double rows, columns;  // padded to the register tile
  double row_tiles, column_tiles;
  double k;
};

// Cycles of the micro-kernels over `rows` by `columns`, and of keeping the sums between K blocks.
double compute_cycles(const CpuRates& rates, const CompileConfig& c, double rows, double columns, double k) {
  const double vectors = c.register_n / rates.lanes;
  const double step = rates.step_cycles(c.register_m * vectors, c.register_m + vectors, 0) / kEfficiency;
  // The panel of A stays in L1 while all of B's come by from L2, which prefetching hides but for a quarter.
  const double a_rate =
      rates.reread_bytes_per_cycle(double(c.register_m) * std::min<double>(c.tile_k, k) * 4);
  const double b_rate = rates.reread_bytes_per_cycle(packed_bytes(c));
  const double feed =
      (a_rate > 0 ? c.register_m * 4 / a_rate : 0) + (b_rate > 0 ? c.register_n * 4 / b_rate : 0);
  const double sums = double(c.tile_m) * c.tile_n * 4;
  const double sums_rate = packed_bytes(c) + sums <= rates.l2_bytes ? kL2BytesPerCycle : kL3BytesPerCycle;
  const double keep = 2.0 * c.register_m * c.register_n * 4 / sums_rate;
  constexpr double kTileCycles = 20;  // entering and leaving the loop over k
  const double tiles = (rows / c.register_m) * (columns / c.register_n), blocks = std::ceil(k / c.tile_k);
  return tiles * (k * CpuRates::overlap(step, feed) + blocks * (keep + kTileCycles));
}

// Seconds to pack `rows` of A and `columns` of B over `k`, read from memory or, the second time, from a
// cache.
double pack_seconds(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                    const Work& w, double rows, double columns, double bandwidth) {
  const ProblemClass& c = context.problem;
  // A panel of A lies along M and one of B along N: what lies along K in memory is transposed.
  const double cycles = w.k * (rows * pack_cycles(rates, config.register_m, c.trans_a == 0, s.converts) +
                               columns * pack_cycles(rates, config.register_n, c.trans_b != 0, s.converts));
  const auto bytes_seconds = [&](double extent, double total, double times, double run) {
    const double rate = rates.reread_bytes_per_cycle(total * s.k * s.input_bytes);
    const double again = rate > 0 ? 1 / (rate * rates.clock_hz) : 0;
    const double first = 1 / (bandwidth * CpuRates::run_efficiency(run * s.input_bytes));
    return extent * w.k * s.input_bytes * (first + (times - 1) * again) / times;
  };
  const double a_run = c.trans_a == 0 ? config.tile_k : config.register_m;
  const double b_run = c.trans_b != 0 ? config.tile_k : config.register_n;
  return CpuRates::overlap(cycles / rates.clock_hz, bytes_seconds(rows, s.m, w.column_tiles, a_run) +
                                                        bytes_seconds(columns, s.n, w.row_tiles, b_run));
}

void append_panel(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                  CompileConfig config, std::vector<RankedPlan>* out) {
  Work w;
  w.rows = round_up(s.m, config.register_m);
  w.columns = round_up(s.n, config.register_n);
  w.row_tiles = std::ceil(w.rows / config.tile_m);
  w.column_tiles = std::ceil(w.columns / config.tile_n);
  const double tiles = w.row_tiles * w.column_tiles;
  for (int32_t splits : split_options(context, s.k, tiles, rates.workers, 2 * config.tile_k)) {
    config.split = splits > 1;
    w.k = std::ceil(double(s.k) / splits);
    const double tasks = tiles * splits, bandwidth = rates.bandwidth(tasks);
    const auto seconds = [&](double rows, double columns) {
      return compute_cycles(rates, config, rows, columns, w.k) / rates.clock_hz +
             pack_seconds(context, rates, s, config, w, rows, columns, bandwidth) +
             // D is read for ownership before it is written.
             rows * columns * 2 * (splits > 1 ? 4 : s.output_bytes) / bandwidth;
    };
    RankedPlan r;
    r.plan.config = config;
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds =
        rates.schedule_seconds(
            tasks, seconds(w.rows / w.row_tiles, w.columns / w.column_tiles),
            seconds(std::min<double>(config.tile_m, w.rows), std::min<double>(config.tile_n, w.columns))) +
        (splits > 1 ? merge_seconds(s, splits, rates.bandwidth(rates.workers)) : 0);
    r.plan.numeric_recipe = absl::StrCat("fma f32; K ascending in blocks of ", config.tile_k,
                                         ", summed in order; ", merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

// The rows of the table that are legal with this register tile: task tiles of the listed sizes, rounded to it
// and cut to the problem, whose panels fit L2.
void append_tiles(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                  CompileConfig config, std::vector<RankedPlan>* out) {
  const double limit = kPackedShare * rates.l2_bytes;
  for (int32_t depth : kDepths) {
    if (s.batch_invariant && depth != kInvariantDepth) continue;
    config.tile_k = depth;
    int64_t last_m = 0;
    for (int64_t rows : kTileRows) {
      config.tile_m =
          static_cast<int32_t>(std::min(round_up(rows, config.register_m), round_up(s.m, config.register_m)));
      if (config.tile_m == std::exchange(last_m, config.tile_m)) continue;
      int64_t last_n = 0;
      for (int64_t columns : kTileColumns) {
        config.tile_n = static_cast<int32_t>(
            std::min(round_up(columns, config.register_n), round_up(s.n, config.register_n)));
        if (config.tile_n == std::exchange(last_n, config.tile_n)) continue;
        if (packed_bytes(config) > limit)
          out->push_back(rejected(config, absl::StrCat("packed panels ", int64_t(packed_bytes(config)), " > ",
                                                       int64_t(limit), " of L2")));
        else
          append_panel(context, rates, s, config, out);
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
  for (const RegisterTile& t : kTiles) {
    config.register_m = t.rows;
    config.register_n = t.vectors * rates.lanes;
    const int32_t need = t.rows * t.vectors + t.vectors + 1;
    if (need > rates.registers)
      out->push_back(rejected(config, absl::StrCat("registers ", need, " > ", rates.registers)));
    else if (t.rows > s.m)
      out->push_back(rejected(config, absl::StrCat("register rows ", t.rows, " > M ", s.m)));
    else
      append_tiles(context, rates, s, config, out);
  }
}

}  // namespace lathe
