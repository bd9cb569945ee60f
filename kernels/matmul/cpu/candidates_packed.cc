// Candidates of "packed": CPU matmul with B packed in advance. Every M streams the same panels.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

struct RegisterTile {
  int32_t rows, vectors;
};
// Rows of A by vectors of B in registers: every number of rows that one pass can take, then those that
// divide a larger M with little waste. More than 4 vectors are more streams than the hardware prefetches;
// more than 16 rows are too many streams of A. The smallest tiles fit 16 registers.
constexpr RegisterTile kTiles[] = {{1, 4}, {2, 4},  {3, 4},  {4, 4},  {5, 4},  {6, 4},  {1, 2},  {2, 2},
                                   {3, 2}, {4, 2},  {5, 2},  {6, 2},  {7, 2},  {8, 2},  {8, 3},  {9, 2},
                                   {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {15, 1}, {16, 1}};
// In words.
constexpr int32_t kDepths[] = {256, 384, 512, 1024};
constexpr int32_t kInvariantDepth = 256;  // batch_invariant: one K order for all M
constexpr int64_t kTileRows[] = {64, 128, 256, 512, 1024};
constexpr int64_t kTileColumns[] = {128, 256, 512, 1024};

struct Shape {
  int32_t tile_rows, tile_columns, depth;  // depth: elements
  RegisterTile tile;
  int64_t prefetch_lines;  // PackedConfig::prefetch_lines
};

class PackedPricing {
 public:
  explicit PackedPricing(const CandidateContext& context)
      : context_(context), rates_(context), s_(context.problem) {}

  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles) {
      PackedConfig config;
      config.lanes = rates_.lanes;
      config.register_m = t.rows, config.register_n = t.vectors * rates_.lanes;
      const int32_t need = t.rows * t.vectors + t.vectors + 1;
      if (need > rates_.registers)
        reject(context_, config, out, "tile needs ", need, " registers, the target has ", rates_.registers);
      else if (config.register_n % kPackedColumns != 0)
        reject(context_, config, out, "register_n ", config.register_n, " is not a multiple of ",
               kPackedColumns, ", the columns of a packed panel");
      else if (t.rows > s_.m)
        reject(context_, config, out, "register tile has too many rows: ", t.rows, " for M ", s_.m);
      else
        append(t, config, out);
    }
  }

 private:
  void append(const RegisterTile& t, PackedConfig config, std::vector<RankedPlan>* out) const;
  void append_splits(const Shape& p, PackedConfig config, std::vector<RankedPlan>* out) const;
  double tile_seconds(const Shape& p, double rows, double columns, double k, double bandwidth) const;
  int32_t pace_of(const RegisterTile& t) const;
  bool copies_ahead(const Shape& p) const;

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
};

// PackedConfig::copy_ahead. Pairs of words per step leave no step for each line.
bool PackedPricing::copies_ahead(const Shape& p) const {
  const ProblemClass& c = context_.problem;
  if (c.trans_a != 0 || packed_word(c.b) > rates_.k_per_lane) return false;
  const PanelRows rows{p.tile_rows, p.tile.rows, static_cast<int64_t>(size_of(c.a)) * 8, rates_.k_per_lane,
                       rates_.lanes};
  return rows.copy_ahead(p.depth, c.k);
}

// Seconds of one task of `rows` by `columns` over `k`.
double PackedPricing::tile_seconds(const Shape& p, double rows, double columns, double k,
                                   double bandwidth) const {
  const double sums = p.tile.rows * p.tile.vectors, register_columns = p.tile.vectors * rates_.lanes;
  const double passes = std::ceil(rows / p.tile.rows), blocks = std::ceil(k / p.depth);
  const double step =
      rates_.step_cycles(sums, p.tile.rows + p.tile.vectors, rates_.converts_b ? p.tile.vectors : 0);
  // The block of B that all passes read stays in L2, which hides three quarters of that, or comes from L3
  // again.
  const double block = columns * std::min<double>(p.depth, k) * s_.b_bytes;
  const double rate = block <= 0.75 * rates_.l2_bytes ? kL2BytesPerCycle : kL3BytesPerCycle / 2;
  const double word = s_.b_bytes * rates_.k_per_lane, words = k / rates_.k_per_lane;
  const double again = 0.25 * (passes - 1) / passes * register_columns * word / rate;
  // The sums of a block are added to those of the blocks before, which stay in L2 beside most of B's block.
  const double held = block + rows * columns * 4;
  const double sums_rate = held <= 1.5 * rates_.l2_bytes ? kL2BytesPerCycle : kL3BytesPerCycle;
  const double keep = (blocks > 1 ? 2 : 1) * p.tile.rows * register_columns * 4 / sums_rate;
  constexpr double kTileCycles = 30;  // entering and leaving the loop over k
  const double multiply = passes * std::ceil(columns / register_columns) *
                          (words * (step + again) + blocks * (keep + kTileCycles));
  // Each panel of A is copied once per task.
  constexpr double kCopyCycles = 1.0;
  const double compute = (multiply + passes * p.tile.rows * words * kCopyCycles) / rates_.clock_hz;
  const double memory = columns * k * s_.b_bytes / bandwidth;
  // Without prefetching, several passes wait for the first one.
  if (p.prefetch_lines == kPackedLines) return std::max(compute, memory) + 0.1 * std::min(compute, memory);
  return passes > 1 ? compute + memory : CpuRates::overlap(compute, memory);
}

void PackedPricing::append_splits(const Shape& p, PackedConfig config, std::vector<RankedPlan>* out) const {
  const double row_tiles = std::ceil(double(s_.m) / p.tile_rows);
  const double column_tiles = std::ceil(double(s_.n) / p.tile_columns), tiles = row_tiles * column_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * 256)) {
    const double k = std::ceil(double(s_.k) / splits), tasks = tiles * splits;
    const double bandwidth = rates_.bandwidth(tasks);
    const auto seconds = [&](double m, double n) {
      return tile_seconds(p, m, n, k, bandwidth) + m * n * 2 * (splits > 1 ? 4 : s_.output_bytes) / bandwidth;
    };
    const double predicted = rates_.schedule_seconds(tasks, seconds(s_.m / row_tiles, s_.n / column_tiles),
                                                     seconds(std::min<double>(p.tile_rows, s_.m),
                                                             std::min<double>(p.tile_columns, s_.n))) +
                             (splits > 1 ? merge_seconds(s_, splits, rates_.bandwidth(rates_.workers)) : 0);
    if (!context_.wants(predicted)) continue;
    RankedPlan r;
    config.split = splits > 1;
    config.copy_ahead = splits == 1 && copies_ahead(p);
    r.plan.config = config;
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds = predicted;
    r.plan.numeric_recipe = rates_.k_per_lane == 4
                                ? kExactRecipe
                                : absl::StrCat(rates_.product_recipe(), "; K ascending in blocks of ",
                                               p.depth, ", summed in order; ", merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

// PackedConfig::pace, in half links of the dependency chain (kernels/matmul/cpu/shape.h). Only one pass of
// one or two rows gains: more rows do not wait for memory alone, and a core that reads fast has better
// hardware prefetchers.
int32_t PackedPricing::pace_of(const RegisterTile& t) const {
  if (rates_.pace_bytes_per_second == 0 || rates_.reads_fast() || t.rows > 2 || s_.m > t.rows) return 0;
  // bf16 multiplied as f32: an iteration takes a pair.
  const auto deep = std::max<int64_t>(rates_.k_per_lane, packed_word(context_.problem.b));
  const double bytes = double(t.vectors) * rates_.lanes * double(deep) * s_.b_bytes;
  const double cycles = std::min<double>(kMostPace, bytes * rates_.clock_hz / rates_.pace_bytes_per_second);
  return static_cast<int32_t>(std::lround(cycles / kPaceHalfLinkCycles) * kPaceHalfLinkCycles);
}

void PackedPricing::append(const RegisterTile& t, PackedConfig config, std::vector<RankedPlan>* out) const {
  config.pace = pace_of(t);
  config.prefetch_lines = packed_prefetch_lines(t.rows, config.pace);
  const auto cut = [](int64_t size, int64_t problem, int64_t step) {
    return static_cast<int32_t>(std::min(round_up(size, step), round_up(problem, step)));
  };
  absl::InlinedVector<int64_t, 6> depths(std::begin(kDepths), std::end(kDepths));
  if (s_.batch_invariant) depths = {kInvariantDepth};
  // A single pass over all of K, if what it needs of A stays in L2.
  const int64_t whole = round_up(ceil_div(s_.k, int64_t{rates_.k_per_lane}), rates_.lanes);
  if (!s_.batch_invariant && s_.m <= t.rows && t.rows * whole * 4 <= rates_.l2_bytes / 2 && whole > 1024)
    depths.push_back(whole);
  for (int64_t depth : depths) {
    int32_t last_rows = 0;
    for (int64_t tile_rows : kTileRows) {
      Shape p{cut(tile_rows, s_.m, t.rows), 0, static_cast<int32_t>(depth * rates_.k_per_lane), t,
              config.prefetch_lines};
      if (p.tile_rows == std::exchange(last_rows, p.tile_rows)) continue;
      int32_t last_columns = 0;
      for (int64_t columns : kTileColumns) {
        p.tile_columns = cut(columns, s_.n, config.register_n);
        if (p.tile_columns == std::exchange(last_columns, p.tile_columns)) continue;
        config.tile_m = p.tile_rows, config.tile_n = p.tile_columns, config.tile_k = p.depth;
        append_splits(p, config, out);
      }
    }
  }
}

}  // namespace

void enumerate_matmul_packed(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const auto refuse = [&](const std::string& why) { reject(context, KernelKind::kPacked, out, why); };
  if (c.packed_b != kColumns16) return refuse("needs packed B");
  if (is_blocks(c.b)) return refuse("does not support B in blocks");
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  PackedPricing(context).enumerate(out);
}

}  // namespace lathe
