// Candidates of the "direct" kernels: CPU matmul with one operand read in place, of f32 or of words that
// are multiplied as they are stored. "direct": the transposed product of "panel_t" with B in place;
// "direct_a": the product of "panel" with A in place; "direct_packed": the same with panels of B packed in
// advance, converted to f32. The few lines of the other operand (A's rows, B's columns) are packed into
// panels that stay in L2. A line in place gives one scalar per step, which an FMA reads from memory.
#include <functional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

// Packed lines of a task: each pass over the operand in place takes so many, which memory keeps up with.
constexpr int64_t kTaskPacked = 64;
// The same for columns of B that are packed in runs (stored K by N or packed in advance): a core that reads
// fast streams A's rows well enough for more panels.
constexpr int64_t kTaskAcross = 256;
bool packs_runs(const ProblemClass& c, const CpuRates& rates) {
  return (c.trans_b == 0 || c.packed_b != 0) && c.a == DType::kF32 && rates.reads_fast();
}
// Lines in place by vectors of packed lines.
struct RegisterTile {
  int32_t lines, vectors;
};
constexpr RegisterTile kTiles[] = {{4, 1}, {4, 2}, {4, 3}, {4, 4}, {6, 1}, {6, 2}, {6, 3},
                                   {6, 4}, {5, 4}, {7, 1}, {7, 2}, {8, 2}, {8, 1}};
constexpr int64_t kMostVectors = 4;
constexpr int64_t kDepths[] = {256, 512, 1024, 2048, 4096};
constexpr int64_t kInvariantDepth = 256;  // that of "panel_t", so that the results are the same
constexpr int64_t kTileLines[] = {256, 512, 1024, 2048};
// With more columns "panel" reads its copy of A often enough to be faster.
constexpr int64_t kDirectAMaxN = 128;
// Up to this M "packed" is faster, which reads the packed panels as they are.
constexpr int64_t kMostAsTheyCome = 128;

constexpr double kPairLatency = 6;  // latency of vdpbf16ps (uops.info)

class DirectPricing {
 public:
  // `of_a`: "direct_a" or "direct_packed", which read A in place.
  DirectPricing(const CandidateContext& context, bool of_a)
      : context_(context),
        rates_(context),
        s_(context.problem),
        exact_(context.problem.a == DType::kI8),
        invariant_(s_.batch_invariant && !exact_),
        tiny_(is_tiny(rates_, s_)),
        of_a_(of_a),
        lines_(of_a ? s_.m : s_.n),
        packed_(of_a ? s_.n : s_.m),
        most_packed_(of_a && packs_runs(context.problem, rates_) ? kTaskAcross : kTaskPacked),
        latency_(rates_.k_per_lane == 2 ? kPairLatency : kFmaLatency) {}

  // Config: that of "direct", "direct_a" or "direct_packed".
  template <typename Config>
  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles) {
      Config config;
      config.lanes = rates_.lanes;
      const int32_t width = t.vectors * rates_.lanes;
      config.register_m = of_a_ ? t.lines : width, config.register_n = of_a_ ? width : t.lines;
      const int32_t sums = t.lines * t.vectors;
      config.chains = direct_chains(sums);
      config.unroll_k = direct_unroll(sums);
      const int64_t need = sums * config.chains + t.vectors + 1;
      if (need > rates_.registers)
        reject(context_, config, out, "tile needs ", need, " registers, the target has ", rates_.registers);
      else if (context_.problem.packed_b != kNotPacked && width % kPackedColumns != 0)
        reject(context_, config, out, "register_n ", width, " is not a multiple of ", kPackedColumns,
               ", the columns of a packed panel");
      else if (t.lines == 8 && t.vectors == 1 && !rates_.reads_fast())
        reject(context_, config, out,
               "a tile of 8 unpacked rows by one vector gains only on cores that read memory fast");
      else if (invariant_ && config.chains > 1)
        reject(context_, config, out, "batch_invariant: sums even and odd K separately, unlike 'panel'");
      else if (t.vectors > 1 && width >= round_up(packed_, rates_.lanes) + rates_.lanes)
        reject(context_, config, out, "register tile has too many ", of_a_ ? "columns: " : "rows: ", width,
               " for ", of_a_ ? "N " : "M ", packed_);
      else
        append_depths(t, config, out);
    }
  }

 private:
  // The tile of a task: lines in place, packed lines, and the depth of a panel in elements.
  struct Shape {
    RegisterTile tile;
    int64_t lines, packed, depth;
    CpuFetch fetch;  // `prefetch` of the config
    bool narrow;     // the last pass may be narrow
  };
  template <typename Config>
  void append_depths(const RegisterTile& t, const Config& config, std::vector<RankedPlan>* out) const;
  template <typename Config>
  void append_splits(const Shape& shape, Config config, std::vector<RankedPlan>* out) const;
  template <typename Config>
  Config config_of(const Shape& shape, Config config) const;
  double tile_seconds(const Shape& shape, double lines, double k, double bandwidth) const;
  double lone_line_cycles(const Shape& shape, double k) const;
  double pass_cycles(const Shape& shape, int64_t vectors, double lines, double k) const;
  double padding(const Shape& shape, const std::function<double(int64_t)>& pass) const;
  double passed_lines(const Shape& shape) const;
  CpuFetch fetch_of(const RegisterTile& t, int64_t packed) const;
  // Bytes of an element of the operand in place, and of the packed one.
  double line_bytes() const { return of_a_ ? s_.input_bytes : s_.b_bytes; }
  double packed_bytes() const { return of_a_ ? s_.b_bytes : s_.input_bytes; }

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
  const bool exact_, invariant_;  // sums of i8 do not depend on the order
  const bool tiny_;
  const bool of_a_;
  const int64_t lines_, packed_;  // of the problem: lines in place, packed lines
  const int64_t most_packed_;     // packed lines of a task, at most
  const double latency_;          // cycles from one product of a chain to the next
};

// What to prefetch. A core that loses by prefetching (Zen 3) loses if one pass prefetches for all, but not
// if all passes share it. With one pass only it prefetches if the lines in place do not share cache sets.
CpuFetch DirectPricing::fetch_of(const RegisterTile& t, int64_t packed) const {
  if (!rates_.loses_by_fetching()) return CpuFetch::kNext;
  if (packed > static_cast<int64_t>(t.vectors) * rates_.lanes) return CpuFetch::kSpread;
  const auto line = static_cast<int64_t>(double(s_.k) * line_bytes());
  return line % (2 * kWayBytes) == 0 ? CpuFetch::kNone : CpuFetch::kNext;
}

// Average padding cost over the bucket. The price is for the largest M, which fills its passes; smaller M
// waste part of the last one. `pass(v)`: cycles of a pass of v vectors. Tiny products count the rows there
// are, as "direct_a" takes them.
double DirectPricing::padding(const Shape& shape, const std::function<double(int64_t)>& pass) const {
  const ProblemClass& c = context_.problem;
  const int64_t lanes = rates_.lanes, vectors = shape.tile.vectors;
  if (!shape.narrow) return of_a_ ? 1 : row_padding(c, vectors * lanes, tiny_ ? 1 : lanes);
  if (!of_a_ && c.m_hi == Bucket::kOpenEnd) return 1;
  const int64_t lo = of_a_ ? packed_ : c.m_lo, hi = of_a_ ? packed_ : c.m_hi;
  double narrow[kMostVectors] = {};  // cost over a whole pass, by vectors
  for (int64_t v = 1; v < vectors; ++v) narrow[v] = pass(v) / pass(vectors);
  double taken = 0, needed = 0;
  for (int64_t n = ceil_div(lo, lanes); n <= ceil_div(hi, lanes); ++n) {
    const auto sizes = double(std::min(n * lanes, hi) - std::max((n - 1) * lanes + 1, lo) + 1);
    taken += sizes * (double(n / vectors) + narrow[n % vectors]) * double(vectors);
    needed += sizes * double(n);
  }
  return taken / needed * (tiny_ && !of_a_ ? row_padding(c, lanes, 1) : 1);
}

// The packed lines that the passes of a task take on average, with padding.
double DirectPricing::passed_lines(const Shape& shape) const {
  if (!shape.narrow) return double(shape.packed);
  return double(round_up(packed_, rates_.lanes)) / double(ceil_div(packed_, shape.packed));
}

template <typename Config>
Config DirectPricing::config_of(const Shape& shape, Config config) const {
  config.tile_m = of_a_ ? shape.lines : shape.packed;
  config.tile_n = of_a_ ? shape.packed : shape.lines;
  config.tile_k = shape.depth;
  config.prefetch = static_cast<int64_t>(shape.fetch);
  if (shape.narrow) {
    const int64_t width = of_a_ ? config.register_n : config.register_m;
    const int64_t least = of_a_ ? 1 : least_rows(context_.problem, config.tile_m);
    config.narrow_passes = least_narrow_pass(shape.packed, width, least, rates_.lanes);
  }
  if constexpr (std::is_same_v<Config, DirectConfig>)
    config.piece = finished_piece(shape.lines, shape.tile.lines, rates_.lanes);
  return config;
}

// Cycles per step that each line costs with a single vector, beside loads and FMAs, if two FMA units
// multiply. On a core that reads fast it is less if the lines do not share sets of L1, and least if they
// are as long as K.
double DirectPricing::lone_line_cycles(const Shape& shape, double k) const {
  constexpr double kShared = 0.15, kApart = 0.08, kWhole = 0.035;
  const double panel = double(shape.packed) * double(shape.depth) * 4 / rates_.k_per_lane;
  const auto line = static_cast<int64_t>(double(s_.k) * line_bytes());
  const bool share = lines_a_set(shape.tile.lines, line) >= shape.tile.lines;
  if (!rates_.reads_fast() || share) return kShared;
  return double(shape.depth) >= k && panel <= rates_.l2_bytes / 4 ? kWhole : kApart;
}

// Cycles of a tile of lines in place by `vectors` vectors of packed lines over `k`, in a task of `lines`.
double DirectPricing::pass_cycles(const Shape& shape, int64_t vectors, double lines, double k) const {
  const RegisterTile& t = shape.tile;
  const double packed = shape.packed;
  const auto width = static_cast<int64_t>(t.vectors) * rates_.lanes;
  const double blocks = std::ceil(k / double(shape.depth));
  // Only FMAs and their operands. More than 6 lines per cache set evict each other beside the panel.
  const double crowded = std::max(0.0, lines_a_set(t.lines, s_.k * static_cast<int64_t>(line_bytes())) - 6) *
                         (vectors > 1 ? 2 : 0.5);
  const double sums = t.lines * double(vectors), chains = sums * double(direct_chains(t.lines * t.vectors));
  // Every pass over the packed lines but the first reads the lines in place again while memory idles; the
  // time is about the same for few and for more lines.
  const double again_cycles = rates_.reads_fast() ? 0.3 : 1;
  const double in_place = double(lines_) * double(s_.k) * line_bytes();
  const double again = in_place <= rates_.l2_bytes || packed <= width ? 0 : again_cycles;
  // With one vector per step pairs are slower, and so are two FMA units, which are as fast as the scalar
  // loads. Bytes that are shifted when they are read are slower with two vectors as well.
  const bool shifted = exact_ && context_.facts.target.has("avx512vnni");
  const double slower = shifted                  ? 0.6
                        : rates_.k_per_lane == 2 ? 0.4
                        : rates_.fma_units > 1   ? lone_line_cycles(shape, k)
                                                 : 0;
  const double lone = vectors == 1 ? slower * t.lines : shifted && vectors == 2 ? slower * t.lines / 3 : 0;
  // The panel streams from L2 under every group of lines. Beside them it loses lines if it takes more than
  // a quarter of L2, or an eighth if two FMA units take it in half the time, unless all passes prefetch.
  const bool spread = shape.fetch == CpuFetch::kSpread;
  const double panel = double(vectors) * rates_.lanes * 4 / kL2BytesPerCycle;
  const bool eighth = !spread && rates_.fma_units > 1 && !(rates_.reads_fast() && t.vectors > 1);
  const double held = rates_.l2_bytes / (eighth ? 8 : 4);
  const double lost = packed * double(shape.depth) * 4 / rates_.k_per_lane > held ? 0.04 * panel : 0;
  // Chains that only just cover the latency of an FMA wait now and then.
  constexpr double kSlackCycles = 0.5;
  const double step = std::max(sums / std::min(rates_.fma_units, chains / (latency_ + kSlackCycles)),
                               (t.lines + double(vectors)) / rates_.loads_per_cycle) +
                      crowded + again + lone + lost;
  // Sums that L2 does not hold beside the panel come from L3.
  constexpr double kHeldSums = 0.8;
  const double beside = packed * (double(shape.depth) / rates_.k_per_lane + lines) * 4;
  const double sums_rate =
      spread && beside > kHeldSums * rates_.l2_bytes ? kL3BytesPerCycle : kL2BytesPerCycle;
  const double keep = (blocks > 1 ? 2 : 1) * sums * rates_.lanes * 4 / sums_rate;
  constexpr double kTileCycles = 30;  // cycles to enter and leave the loop over k
  return k / rates_.k_per_lane * std::max(step, panel) + blocks * (keep + kTileCycles);
}

// Seconds of one task: `lines` in place by all packed lines over `k`.
double DirectPricing::tile_seconds(const Shape& shape, double lines, double k, double bandwidth) const {
  const RegisterTile& t = shape.tile;
  const double packed = shape.packed;
  const auto width = static_cast<int64_t>(t.vectors) * rates_.lanes;
  const auto pass = [&](int64_t vectors) { return pass_cycles(shape, vectors, lines, k); };
  const double multiply = std::ceil(lines / t.lines) * passed_lines(shape) / double(width) * pass(t.vectors) *
                          padding(shape, pass);
  constexpr double kPackCycles = 0.6, kTurnCycles = 0.5;  // per element
  const double turn = of_a_ ? 0 : packed * lines * kTurnCycles;
  // A zero point needs the sum of every line in place.
  constexpr double kSumCycles = 3.2;  // per cache line
  const double of_zero = context_.problem.zero_a != 0 ? lines * k / 64 * kSumCycles : 0;
  // Packing a group of lines begins with waiting for all of them.
  constexpr double kGroupCycles = 100;
  const double groups = std::ceil(packed / rates_.lanes) * std::ceil(k / double(shape.depth));
  const double pack = packed * k / rates_.k_per_lane * kPackCycles + groups * kGroupCycles;
  const double compute = (multiply + pack + turn + of_zero) / rates_.clock_hz;
  const double memory = lines * k * line_bytes() / bandwidth;
  // The first block that is packed is not prefetched by anybody.
  const double packed_once = packed * k * packed_bytes();
  const double first = shape.fetch == CpuFetch::kNext ? std::min(1.0, double(shape.depth) / k) : 1;
  const double waits = packed_once > rates_.l2_bytes / 4 ? first * packed_once / bandwidth : 0;
  // Without prefetching little is hidden, and every K block begins with waiting.
  constexpr double kUnfetched = 0.6, kLostBytes = 2400;
  const double run = std::min(k, double(shape.depth)) * line_bytes();
  const double exposed = shape.fetch == CpuFetch::kNone ? kUnfetched + kLostBytes / run : 0.1;
  return std::max(compute, memory) + exposed * std::min(compute, memory) + waits;
}

template <typename Config>
void DirectPricing::append_splits(const Shape& shape, Config config, std::vector<RankedPlan>* out) const {
  const double packed_tiles = std::ceil(double(packed_) / double(shape.packed));
  const double line_tiles = std::ceil(double(lines_) / double(shape.lines));
  const double tiles = packed_tiles * line_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * kDepths[0])) {
    if (splits > 1 && rates_.k_per_lane > 1) continue;  // a split could begin within a word
    const double k = std::ceil(double(s_.k) / splits), tasks = tiles * splits;
    const double bandwidth = rates_.bandwidth(tasks);
    const auto seconds = [&](double lines) {
      return tile_seconds(shape, lines, k, bandwidth) +
             double(packed_) / packed_tiles * lines * 2 * (splits > 1 ? 4 : s_.output_bytes) / bandwidth;
    };
    const double predicted = rates_.schedule_seconds(tasks, seconds(double(lines_) / line_tiles),
                                                     seconds(double(std::min(shape.lines, lines_)))) +
                             (splits > 1 ? merge_seconds(s_, splits, rates_.bandwidth(rates_.workers)) : 0);
    if (!context_.wants(predicted)) continue;
    RankedPlan r;
    config.split = splits > 1;
    if constexpr (std::is_same_v<Config, DirectAConfig>)
      config.store_directly = shape.depth >= s_.k && (splits > 1 || has_short_epilogue(context_.problem));
    r.plan.config = config;
    r.plan.launch.splits = splits;
    r.plan.predicted_seconds = predicted;
    r.plan.numeric_recipe =
        exact_ ? kExactRecipe
               : absl::StrCat(rates_.product_recipe(), "; K ascending in blocks of ", config.tile_k,
                              ", summed in order; ",
                              config.chains > 1 ? "even and odd places of a block apart; " : "",
                              merge_recipe(splits));
    out->push_back(std::move(r));
  }
}

template <typename Config>
void DirectPricing::append_depths(const RegisterTile& t, const Config& config,
                                  std::vector<RankedPlan>* out) const {
  const int64_t width = static_cast<int64_t>(t.vectors) * rates_.lanes;
  const int64_t most = std::max<int64_t>(most_packed_ / width, 1) * width;
  const int64_t packed = std::min(round_up(packed_, width), most);
  const CpuFetch fetch = fetch_of(t, packed);
  Shape shape{t, 0, packed, 0, fetch, has_narrow_passes(t.vectors, fetch)};
  int64_t last_depth = 0;
  for (int64_t deepest : kDepths) {
    const int64_t per_lane = rates_.k_per_lane, words = ceil_div(s_.k, per_lane);
    shape.depth =
        per_lane * (invariant_ ? kInvariantDepth : std::min(deepest, round_up(words, rates_.lanes)));
    if (shape.depth == std::exchange(last_depth, shape.depth)) continue;
    const double panels = double(shape.packed) * double(shape.depth) * 4 / double(per_lane);
    if (panels > rates_.l2_bytes / 2 && deepest != kDepths[0]) {
      shape.lines = 0;
      reject(context_, config_of(shape, config), out, "packed panels take ", int64_t(panels),
             " bytes, at most ", int64_t(rates_.l2_bytes / 2), " bytes of L2 are used");
      continue;
    }
    int64_t last_lines = 0;
    for (int64_t lines : kTileLines) {
      shape.lines = std::min(round_up(lines, t.lines), round_up(lines_, t.lines));
      if (shape.lines == std::exchange(last_lines, shape.lines)) continue;
      append_splits(shape, config_of(shape, config), out);
    }
  }
}

// "direct_packed".
void enumerate_unpacked(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const auto refuse = [&](const std::string& why) { reject(context, KernelKind::kDirectPacked, out, why); };
  if (c.packed_b != kColumns16) return refuse("needs packed B");
  if (is_blocks(c.b)) return refuse("does not support B in blocks");
  if (c.a != DType::kF32 || rates.k_per_lane > 1) return refuse("needs operands that are multiplied as f32");
  if (c.trans_a != 0) return refuse("A is not K-contiguous");
  if (!packs_runs(c, rates)) return refuse("gains only on cores that read memory fast");
  if (MatmulSizes(c).m <= kMostAsTheyCome)
    return refuse(
        absl::StrCat("slower than 'packed' up to M ", kMostAsTheyCome, "; M is ", MatmulSizes(c).m));
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  DirectPricing(context, /*of_a=*/true).enumerate<DirectPackedConfig>(out);
}

}  // namespace

void enumerate_matmul_direct(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  enumerate_unpacked(context, out);
  const auto refuse = [&](const std::string& why) {
    for (KernelKind kernel : {KernelKind::kDirect, KernelKind::kDirectA}) reject(context, kernel, out, why);
  };
  if (!operands_refusal(c).empty()) return refuse(operands_refusal(c));
  const int32_t per_lane = elements_a_lane(context);
  const bool bytes = c.a == DType::kI8;
  const bool pairs = per_lane == 2 && c.b == DType::kBF16;
  if (!pairs && (c.a != c.b || (c.a != DType::kF32 && !bytes)))
    return refuse("supports f32, i8, and bf16 pairs with B in bf16");
  if (bytes && !multiplies_bytes(context.facts.target))
    return refuse("target has no instruction that multiplies bytes");
  if (c.k % per_lane != 0) return refuse(absl::StrCat("K ", c.k, " is not a multiple of ", per_lane));
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  if (c.trans_b == 0)
    reject(context, KernelKind::kDirect, out, "B is not K-contiguous");
  else
    DirectPricing(context, /*of_a=*/false).enumerate<DirectConfig>(out);
  if (bytes)
    reject(context, KernelKind::kDirectA, out, "for i8 it is no faster than 'direct'");
  else if (c.a != c.b)
    reject(context, KernelKind::kDirectA, out, "A is rounded to bf16, so it cannot be read in place");
  else if (c.trans_a != 0)
    reject(context, KernelKind::kDirectA, out, "A is not K-contiguous");
  else if (c.n > kDirectAMaxN && !packs_runs(c, CpuRates(context)))
    reject(context, KernelKind::kDirectA, out, "slower than 'panel' above N ", kDirectAMaxN, "; N is ", c.n);
  else
    DirectPricing(context, /*of_a=*/true).enumerate<DirectAConfig>(out);
}

}  // namespace lathe
