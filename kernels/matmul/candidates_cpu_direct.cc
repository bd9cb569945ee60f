// matmul on the CPU by f32 weights where they lie: "direct", the transposed product of "panel_t" with nothing
// of B moved. A's few rows are packed into panels that stay in L2; a column of D takes one scalar of B a
// step, which an FMA reads from memory.
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/direct_chains.h"

namespace lathe {
namespace {

// Rows of a task: one pass over B each, which memory keeps up with (M = 64 by 4096 x 4096 on Zen 4: 96 % of
// the FMA rate).
constexpr int64_t kTaskRows = 64;
// Columns of D by vectors of rows.
struct RegisterTile {
  int32_t columns, vectors;
};
constexpr RegisterTile kTiles[] = {{4, 1}, {4, 2}, {4, 3}, {4, 4}, {6, 1}, {6, 2},
                                   {6, 3}, {6, 4}, {5, 4}, {7, 1}, {7, 2}};
constexpr int64_t kDepths[] = {256, 512, 1024, 2048, 4096};
constexpr int64_t kInvariantDepth = 256;  // as of "panel_t": the numbers are its
constexpr int64_t kTileColumns[] = {256, 512, 1024, 2048};

constexpr double kPairLatency = 6;  // of vdpbf16ps (uops.info)

class DirectPricing {
 public:
  explicit DirectPricing(const CandidateContext& context)
      : context_(context),
        rates_(context),
        s_(context.problem),
        latency_(rates_.k_per_lane == 2 ? kPairLatency : kFmaLatency) {}

  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles) {
      CompileConfig config;
      config.kernel = "direct";
      config.lanes = rates_.lanes;
      config.register_m = t.vectors * rates_.lanes, config.register_n = t.columns;
      const int32_t sums = t.columns * t.vectors;
      const int32_t need = sums * static_cast<int32_t>(direct_chains(sums)) + t.vectors + 1;
      if (need > rates_.registers)
        reject(context_, config, out, "registers ", need, " > ", rates_.registers);
      else if (s_.batch_invariant && direct_chains(sums) > 1)
        reject(context_, config, out, "batch_invariant: sums of even and odd K are added");
      else if (t.vectors > 1 && config.register_m >= round_up(s_.m, rates_.lanes) + rates_.lanes)
        reject(context_, config, out, "register rows ", config.register_m, " > M ", s_.m);
      else
        append_depths(t, config, out);
    }
  }

 private:
  void append_depths(const RegisterTile& t, CompileConfig config, std::vector<RankedPlan>* out) const;
  void append_splits(const RegisterTile& t, const CompileConfig& config, std::vector<RankedPlan>* out) const;
  double tile_seconds(const RegisterTile& t, const CompileConfig& c, double columns, double k,
                      double bandwidth) const;

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
  const double latency_;  // cycles from one product of a sum to the next
};

// Sum of `m` padded to `width` for m of 1 to `hi`.
double padded_sum(int64_t hi, int64_t width) {
  const int64_t whole = hi / width, rest = hi % width;
  return double(width) * double(width * (whole * (whole + 1) / 2) + rest * (whole + 1));
}

// Rows that a mean M of the bucket is padded to in vectors so wide, over those in single vectors: the
// bucket's largest M, which is priced, has no waste in either (48 cubed: 64x6 3.4 us; 96 cubed: 64x6 24.8
// us, 32x6 17.9). Of the open bucket next to none.
double padding(const ProblemClass& c, int64_t width, int64_t lanes) {
  if (c.m_hi == Bucket::kOpenEnd) return 1;
  const auto sum = [&](int64_t w) { return padded_sum(c.m_hi, w) - padded_sum(c.m_lo - 1, w); };
  return sum(width) / sum(lanes);
}

// Rows of B that fall into the same sets of L1: all of them where they are a multiple of a way's 4 KiB apart.
double rows_a_set(const RegisterTile& t, int64_t row_bytes) {
  constexpr int64_t kWayBytes = 4096;
  return std::ceil(double(t.columns) * std::gcd(kWayBytes, row_bytes) / kWayBytes);
}

// One task: all rows by `columns` over `k`.
double DirectPricing::tile_seconds(const RegisterTile& t, const CompileConfig& c, double columns, double k,
                                   double bandwidth) const {
  const double sums = t.columns * t.vectors, rows = c.tile_m;
  const double passes = rows / c.register_m * padding(context_.problem, c.register_m, rates_.lanes);
  const double blocks = std::ceil(k / c.tile_k);
  // Nothing but FMAs and their operands. More than 6 rows of B a set beside A's panel lose lines of 8 ways (M
  // = 32 by 4096 x 4096: 4 columns 9.7 ms, 6 9.8, 7 11.0; M = 16 on Zen 5: 6 3.2, 7 3.5).
  const double crowded =
      std::max(0.0, rows_a_set(t, s_.k * static_cast<int64_t>(s_.b_bytes)) - 6) * (t.vectors > 1 ? 2 : 0.5);
  const double chains = sums * double(direct_chains(static_cast<int64_t>(sums)));
  // Every pass over the rows but the first reads B again while memory idles (M = 64: 16x4 21.8 ms, 64x4 19.8;
  // bf16 13.4 and 9.9).
  const bool cached = double(s_.n) * double(s_.k) * s_.b_bytes <= rates_.l2_bytes;
  const double again = cached || rows <= c.register_m ? 0 : 0.25 * t.columns;
  // One vector a step: of pairs (M = 16: 3.3 ms, where the products take 2.3; two vectors, M = 32: 4.9), and
  // where two units multiply as fast as B's scalars are loaded (M = 16 on Zen 5, 16x6: 3.55 ms, of which
  // FMAs take 2.3 and memory hides; out of cache 3.2).
  const double slower = rates_.k_per_lane == 2 ? 0.4 : rates_.fma_units > 1 ? 0.15 : 0;
  const double lone = t.vectors == 1 ? slower * t.columns : 0;
  // A's panel streams from L2 under every group of columns, and beside B loses lines when it takes more than
  // a quarter of it (M = 32 by 6144 x 4096, 512 KiB deep 15.4 ms, 256 KiB 14.8; by 4096 x 4096 10.4
  // and 10.3), or an eighth where two units take it in half the time (M = 16 on Zen 5: 32 KiB is faster).
  const double panel = t.vectors * rates_.lanes * 4 / kL2BytesPerCycle;
  const double held = rates_.l2_bytes / 4 / rates_.fma_units;
  const double lost = rows * c.tile_k * 4 / rates_.k_per_lane > held ? 0.04 * panel : 0;
  // Sums that only just cover an FMA's latency wait now and then (M = 32 on Zen 5: 32x4 5.3 ms, 32x6 4.8).
  constexpr double kSlackCycles = 0.5;
  const double step = std::max(sums / std::min(rates_.fma_units, chains / (latency_ + kSlackCycles)),
                               (t.columns + t.vectors) / rates_.loads_per_cycle) +
                      crowded + again + lone + lost;
  const double keep = (blocks > 1 ? 2 : 1) * sums * rates_.lanes * 4 / kL2BytesPerCycle;
  constexpr double kTileCycles = 30;                      // entering and leaving the loop over k
  constexpr double kPackCycles = 0.6, kTurnCycles = 0.5;  // of an element
  const double multiply = std::ceil(columns / t.columns) * passes *
                          (k / rates_.k_per_lane * std::max(step, panel) + blocks * (keep + kTileCycles));
  const double compute =
      (multiply + rows * (k / rates_.k_per_lane * kPackCycles + columns * kTurnCycles)) / rates_.clock_hz;
  const double memory = columns * k * s_.b_bytes / bandwidth;
  return std::max(compute, memory) + 0.1 * std::min(compute, memory);  // B is fetched a panel ahead
}

void DirectPricing::append_splits(const RegisterTile& t, const CompileConfig& config,
                                  std::vector<RankedPlan>* out) const {
  const double row_tiles = std::ceil(double(s_.m) / config.tile_m);
  const double column_tiles = std::ceil(double(s_.n) / config.tile_n), tiles = row_tiles * column_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * kDepths[0])) {
    if (splits > 1 && rates_.k_per_lane > 1) continue;  // a chunk may begin within a word
    const double k = std::ceil(double(s_.k) / splits), tasks = tiles * splits;
    const double bandwidth = rates_.bandwidth(tasks);
    const auto seconds = [&](double n) {
      return tile_seconds(t, config, n, k, bandwidth) +
             s_.m / row_tiles * n * 2 * (splits > 1 ? 4 : s_.output_bytes) / bandwidth;
    };
    const double predicted = rates_.schedule_seconds(tasks, seconds(s_.n / column_tiles),
                                                     seconds(std::min<double>(config.tile_n, s_.n))) +
                             (splits > 1 ? merge_seconds(s_, splits, rates_.bandwidth(rates_.workers)) : 0);
    if (!context_.wants(predicted)) continue;
    RankedPlan r;
    r.plan.config = config;
    r.plan.config.split = splits > 1;
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds = predicted;
    r.plan.numeric_recipe = absl::StrCat(
        rates_.product_recipe(), "; K ascending in blocks of ", config.tile_k, ", summed in order; ",
        direct_chains(t.columns * t.vectors) > 1 ? "even and odd places of a block apart; " : "",
        merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

void DirectPricing::append_depths(const RegisterTile& t, CompileConfig config,
                                  std::vector<RankedPlan>* out) const {
  const int64_t most = std::max<int64_t>(kTaskRows / config.register_m, 1) * config.register_m;
  config.tile_m = static_cast<int32_t>(std::min(round_up(s_.m, config.register_m), most));
  int64_t last_depth = 0;
  for (int64_t deepest : kDepths) {
    const int64_t per_lane = rates_.k_per_lane, words = ceil_div(s_.k, per_lane);
    const int64_t depth =
        per_lane * (s_.batch_invariant ? kInvariantDepth : std::min(deepest, round_up(words, rates_.lanes)));
    if (depth == std::exchange(last_depth, depth)) continue;
    config.tile_k = static_cast<int32_t>(depth);
    const double panels = double(config.tile_m) * depth * 4 / per_lane;
    if (panels > rates_.l2_bytes / 2 && deepest != kDepths[0]) {
      config.tile_n = 0;
      reject(context_, config, out, "packed panels ", int64_t(panels), " > ", int64_t(rates_.l2_bytes / 2),
             " of L2");
      continue;
    }
    int64_t last_columns = 0;
    for (int64_t columns : kTileColumns) {
      const int64_t tile = std::min(round_up(columns, t.columns), round_up(s_.n, t.columns));
      if (tile == std::exchange(last_columns, tile)) continue;
      config.tile_n = static_cast<int32_t>(tile);
      append_splits(t, config, out);
    }
  }
}

}  // namespace

void enumerate_matmul_direct(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  CompileConfig config;
  config.kernel = "direct";
  const auto refuse = [&](const std::string& why) { reject(context, config, out, why); };
  if (!operands_refusal(c).empty()) return refuse(operands_refusal(c));
  const int32_t per_lane = elements_a_lane(context);
  if (c.a != c.b || (c.a != DType::kF32 && !(c.a == DType::kBF16 && per_lane == 2)))
    return refuse("operands are not f32, or bf16 multiplied in pairs");
  if (c.k % per_lane != 0) return refuse(absl::StrCat("K ", c.k, " is no multiple of ", per_lane));
  if (c.trans_b == 0) return refuse("B is not K-contiguous");
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  DirectPricing(context).enumerate(out);
}

}  // namespace lathe
