// matmul on the CPU by operands where they lie, of f32 or of words that are multiplied as they are stored:
// "direct", the transposed product of "panel_t" with nothing of B moved, "direct_a", the product of "panel"
// with nothing of A, and "direct_packed", the same by the panels that B comes in, as f32. The few lines of
// the other operand (A's rows, B's columns) are packed into panels that stay in L2; a line of the one in
// place takes one scalar a step, which an FMA reads from memory.
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

// Packed lines of a task: one pass over the operand in place each, which memory keeps up with (M = 64 by 4096
// x 4096 on Zen 4: 96 % of the FMA rate).
constexpr int64_t kTaskPacked = 64;
// Of columns of B that lies K by N or comes in panels, where they are packed in runs: a core that reads fast
// keeps A's rows coming for as many panels (M = 512 by 4096 x 4096, 5760 x 2880, 1280 x 8192 and 8192 x 1024
// on Zen 5: 72.8, 72.0, 45.5 and 38.4 ms, by "panel" 78.9, 74.1, 46.3 and 38.7).
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
constexpr int64_t kInvariantDepth = 256;  // as of "panel_t": the numbers are its
constexpr int64_t kTileLines[] = {256, 512, 1024, 2048};
// Columns beyond which "panel" reads what it copies of A often enough.
constexpr int64_t kDirectAMaxN = 128;
// Rows up to which panels that B comes in are read as they come ("packed"; by 4096 x 4096 on Zen 5, M = 64,
// 128, 256 and 512: f32 10, 18.8, 38 and 83 ms, by "direct_packed" 12.4, 21.3, 38 and 74;
// bf16 9.8, 19.5, 38 and 77, by it 12, 21.5, 36 and 70).
constexpr int64_t kMostAsTheyCome = 128;

constexpr double kPairLatency = 6;  // of vdpbf16ps (uops.info)

class DirectPricing {
 public:
  // `of_a`: "direct_a", "direct_packed".
  DirectPricing(const CandidateContext& context, bool of_a)
      : context_(context),
        rates_(context),
        s_(context.problem),
        exact_(context.problem.a == DType::kI8),
        invariant_(s_.batch_invariant && !exact_),
        tiny_(is_tiny(rates_, s_)),
        of_a_(of_a),
        kernel_(!of_a                                    ? KernelKind::kDirect
                : context.problem.packed_b != kNotPacked ? KernelKind::kDirectPacked
                                                         : KernelKind::kDirectA),
        lines_(of_a ? s_.m : s_.n),
        packed_(of_a ? s_.n : s_.m),
        most_packed_(of_a && packs_runs(context.problem, rates_) ? kTaskAcross : kTaskPacked),
        latency_(rates_.k_per_lane == 2 ? kPairLatency : kFmaLatency) {}

  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles) {
      CompileConfig config;
      config.kernel = kernel_;
      config.lanes = rates_.lanes;
      const int32_t width = t.vectors * rates_.lanes;
      config.register_m = of_a_ ? t.lines : width, config.register_n = of_a_ ? width : t.lines;
      const int32_t sums = t.lines * t.vectors;
      config.chains = static_cast<int32_t>(direct_chains(sums));
      config.unroll_k = static_cast<int32_t>(direct_unroll(sums));
      const int32_t need = sums * config.chains + t.vectors + 1;
      if (need > rates_.registers)
        reject(context_, config, out, "registers ", need, " > ", rates_.registers);
      else if (context_.problem.packed_b != kNotPacked && width % kPackedColumns != 0)
        reject(context_, config, out, "columns ", width, " are no whole panels of ", kPackedColumns);
      else if (t.lines == 8 && t.vectors == 1 && !rates_.reads_fast())
        reject(context_, config, out, "8 lines by one vector: gain where a core reads fast alone");
      else if (invariant_ && config.chains > 1)
        reject(context_, config, out, "batch_invariant: sums of even and odd K are added");
      else if (t.vectors > 1 && width >= round_up(packed_, rates_.lanes) + rates_.lanes)
        reject(context_, config, out, "register ", of_a_ ? "columns " : "rows ", width, " > ",
               of_a_ ? "N " : "M ", packed_);
      else
        append_depths(t, config, out);
    }
  }

 private:
  // What a task takes: lines in place, packed lines, words' elements of K in a panel.
  struct Shape {
    RegisterTile tile;
    int64_t lines, packed, depth;
    CpuFetch fetch;  // CompileConfig::prefetch
    bool narrow;     // CompileConfig::narrow_passes
  };
  void append_depths(const RegisterTile& t, const CompileConfig& config, std::vector<RankedPlan>* out) const;
  void append_splits(const Shape& shape, const CompileConfig& config, std::vector<RankedPlan>* out) const;
  CompileConfig config_of(const Shape& shape, CompileConfig config) const;
  double tile_seconds(const Shape& shape, double lines, double k, double bandwidth) const;
  double lone_line_cycles(const Shape& shape, double k) const;
  double pass_cycles(const Shape& shape, int64_t vectors, double lines, double k) const;
  double padding(const Shape& shape, const std::function<double(int64_t)>& pass) const;
  double passed_lines(const Shape& shape) const;
  CpuFetch fetch_of(const RegisterTile& t, int64_t packed) const;
  // Of an element of the operand in place, and of the packed one.
  double line_bytes() const { return of_a_ ? s_.input_bytes : s_.b_bytes; }
  double packed_bytes() const { return of_a_ ? s_.b_bytes : s_.input_bytes; }

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
  const bool exact_, invariant_;  // sums of i8 are the same in any order
  const bool tiny_;
  const bool of_a_;
  const KernelKind kernel_;
  const int64_t lines_, packed_;  // of the problem
  const int64_t most_packed_;     // of a task
  const double latency_;          // cycles from one product of a sum to the next
};

// A core that loses by fetching (Zen 3) does by what one pass fetches beside all it reads, and not by what
// all passes share (kNext, kNone and kSpread: M = 64 by 5760 x 2880 24.9, 26.4 and 23.9 ms, by 4096 x
// 4096 26.7, 26.1 and 25.1; M = 512 by 5760 x 2880 229, 239 and 213, by 4096 x 4096 242, 225 and 218, by 8192
// x 1024 108, 107 and 101). One pass alone fetches where the lines lie in sets of their own (kNext and kNone:
// M = 8 by 5760 x 2880 7.7 and 8.6 ms, M = 16 8.4 and 8.5, by 8192 x 1024 3.5 and 3.8; by 4096 x 4096 M =
// 8 10.5 and 8.1, M = 16 12.5 and 8.4, by 1280 x 8192 6.3 and 4.7, 5.4 and 4.7).
CpuFetch DirectPricing::fetch_of(const RegisterTile& t, int64_t packed) const {
  if (!rates_.loses_by_fetching()) return CpuFetch::kNext;
  if (packed > static_cast<int64_t>(t.vectors) * rates_.lanes) return CpuFetch::kSpread;
  const auto line = static_cast<int64_t>(double(s_.k) * line_bytes());
  return line % (2 * kWayBytes) == 0 ? CpuFetch::kNone : CpuFetch::kNext;
}

// What passes over a mean M of the bucket take, over whole ones with nothing padded: the bucket's largest M,
// which is priced, has no waste (48 cubed: 64x6 3.4 us; 96 cubed: 64x6 24.8 us, 32x6 17.9). `pass`: of so
// many vectors. Of tiny products over the rows there are, as "direct_a" takes them (M = 32 by 24 x 24 592 ns,
// by "direct_a" 609; M = 24 586 and 500, M = 17 566 and 440).
double DirectPricing::padding(const Shape& shape, const std::function<double(int64_t)>& pass) const {
  const ProblemClass& c = context_.problem;
  const int64_t lanes = rates_.lanes, vectors = shape.tile.vectors;
  if (!shape.narrow) return of_a_ ? 1 : row_padding(c, vectors * lanes, tiny_ ? 1 : lanes);
  if (!of_a_ && c.m_hi == Bucket::kOpenEnd) return 1;
  const int64_t lo = of_a_ ? packed_ : c.m_lo, hi = of_a_ ? packed_ : c.m_hi;
  double narrow[kMostVectors] = {};  // over a whole pass, by vectors
  for (int64_t v = 1; v < vectors; ++v) narrow[v] = pass(v) / pass(vectors);
  double taken = 0, needed = 0;
  for (int64_t n = ceil_div(lo, lanes); n <= ceil_div(hi, lanes); ++n) {
    const auto sizes = double(std::min(n * lanes, hi) - std::max((n - 1) * lanes + 1, lo) + 1);
    taken += sizes * (double(n / vectors) + narrow[n % vectors]) * double(vectors);
    needed += sizes * double(n);
  }
  return taken / needed * (tiny_ && !of_a_ ? row_padding(c, lanes, 1) : 1);
}

// Packed lines that a task's passes take in the mean, padding among them.
double DirectPricing::passed_lines(const Shape& shape) const {
  if (!shape.narrow) return double(shape.packed);
  return double(round_up(packed_, rates_.lanes)) / double(ceil_div(packed_, shape.packed));
}

CompileConfig DirectPricing::config_of(const Shape& shape, CompileConfig config) const {
  config.tile_m = static_cast<int32_t>(of_a_ ? shape.lines : shape.packed);
  config.tile_n = static_cast<int32_t>(of_a_ ? shape.packed : shape.lines);
  config.tile_k = static_cast<int32_t>(shape.depth);
  config.prefetch = static_cast<int32_t>(shape.fetch);
  config.narrow_passes = shape.narrow;
  if (kernel_ == KernelKind::kDirect)
    config.piece = static_cast<int32_t>(finished_piece(shape.lines, shape.tile.lines, rates_.lanes));
  return config;
}

// What a line costs a step of one vector beside loads and FMAs, where two units multiply: on a core that
// reads fast less where lines don't share sets of L1, least where they are as long as K and read in one run
// (M = 16 by 5760 x 2880 on Zen 5, 6 lines by panels of 256, 1024, 2048 and all of K 3.01, 3.1, 3.02 and 2.76
// ms, 8 lines 2.91, 2.74, 2.80 and 2.59).
double DirectPricing::lone_line_cycles(const Shape& shape, double k) const {
  constexpr double kShared = 0.15, kApart = 0.08, kWhole = 0.035;
  const double panel = double(shape.packed) * double(shape.depth) * 4 / rates_.k_per_lane;
  const auto line = static_cast<int64_t>(double(s_.k) * line_bytes());
  const bool share = lines_a_set(shape.tile.lines, line) >= shape.tile.lines;
  if (!rates_.reads_fast() || share) return kShared;
  return double(shape.depth) >= k && panel <= rates_.l2_bytes / 4 ? kWhole : kApart;
}

// A tile of lines in place by `vectors` of packed ones over `k`, in a task of `lines`.
double DirectPricing::pass_cycles(const Shape& shape, int64_t vectors, double lines, double k) const {
  const RegisterTile& t = shape.tile;
  const double packed = shape.packed;
  const auto width = static_cast<int64_t>(t.vectors) * rates_.lanes;
  const double blocks = std::ceil(k / double(shape.depth));
  // Nothing but FMAs and their operands. More than 6 lines a set beside the panel lose lines of 8 ways (M
  // = 32 by 4096 x 4096: 4 columns 9.7 ms, 6 9.8, 7 11.0; M = 16 on Zen 5: 6 3.2, 7 3.5).
  const double crowded = std::max(0.0, lines_a_set(t.lines, s_.k * static_cast<int64_t>(line_bytes())) - 6) *
                         (vectors > 1 ? 2 : 0.5);
  const double sums = t.lines * double(vectors), chains = sums * double(direct_chains(t.lines * t.vectors));
  // Every pass over the packed lines but the first reads those in place again while memory idles, of few
  // lines and of more about as long (M = 64: 16x4 21.8 ms, 64x4 19.8; bf16 13.4 and 9.9; by AVX2, M = 512,
  // where FMAs take 145 ms: 16x4 172, 16x6 160).
  const double again_cycles = rates_.reads_fast() ? 0.3 : 1;
  const double in_place = double(lines_) * double(s_.k) * line_bytes();
  const double again = in_place <= rates_.l2_bytes || packed <= width ? 0 : again_cycles;
  // One vector a step: of pairs (M = 16: 3.3 ms, where the products take 2.3; two vectors, M = 32: 4.9), and
  // where two units multiply as fast as scalars in place are loaded. Of bytes that are shifted as they come
  // by, two as well (by 4096 x 4096, over what the products take: 16x6 1.6, 32x6 1.2, 64x6 1.06).
  const bool shifted = exact_ && context_.facts.target.has("avx512vnni");
  const double slower = shifted                  ? 0.6
                        : rates_.k_per_lane == 2 ? 0.4
                        : rates_.fma_units > 1   ? lone_line_cycles(shape, k)
                                                 : 0;
  const double lone = vectors == 1 ? slower * t.lines : shifted && vectors == 2 ? slower * t.lines / 3 : 0;
  // The panel streams from L2 under every group of lines, and beside them loses lines when it takes more than
  // a quarter of it (M = 32 by 6144 x 4096, 512 KiB deep 15.4 ms, 256 KiB 14.8; by 4096 x 4096 10.4
  // and 10.3), or an eighth where two units take it in half the time (M = 16 on Zen 5: 32 KiB is faster; two
  // and more vectors a step not there: M = 64 by 4096 x 4096, 128 and 256 KiB deep 8.33 and 8.25 ms, M =
  // 32 4.36 and 4.29), unless all passes fetch (M = 512 by 4096 x 4096 on Zen 3: by 516 columns 256 KiB deep
  // 205 ms, 128 201).
  const bool spread = shape.fetch == CpuFetch::kSpread;
  const double panel = double(vectors) * rates_.lanes * 4 / kL2BytesPerCycle;
  const bool eighth = !spread && rates_.fma_units > 1 && !(rates_.reads_fast() && t.vectors > 1);
  const double held = rates_.l2_bytes / (eighth ? 8 : 4);
  const double lost = packed * double(shape.depth) * 4 / rates_.k_per_lane > held ? 0.04 * panel : 0;
  // Sums that only just cover an FMA's latency wait now and then (M = 32 on Zen 5: 32x4 5.3 ms, 32x6 4.8).
  constexpr double kSlackCycles = 0.5;
  const double step = std::max(sums / std::min(rates_.fma_units, chains / (latency_ + kSlackCycles)),
                               (t.lines + double(vectors)) / rates_.loads_per_cycle) +
                      crowded + again + lone + lost;
  // Sums that L2 does not hold beside the panel come from L3 (there by 2052, 1026 and 516 columns, 128 KiB
  // deep: 211, 201 and 201 ms).
  constexpr double kHeldSums = 0.8;
  const double beside = packed * (double(shape.depth) / rates_.k_per_lane + lines) * 4;
  const double sums_rate =
      spread && beside > kHeldSums * rates_.l2_bytes ? kL3BytesPerCycle : kL2BytesPerCycle;
  const double keep = (blocks > 1 ? 2 : 1) * sums * rates_.lanes * 4 / sums_rate;
  constexpr double kTileCycles = 30;  // entering and leaving the loop over k
  return k / rates_.k_per_lane * std::max(step, panel) + blocks * (keep + kTileCycles);
}

// One task: `lines` in place by all packed ones over `k`.
double DirectPricing::tile_seconds(const Shape& shape, double lines, double k, double bandwidth) const {
  const RegisterTile& t = shape.tile;
  const double packed = shape.packed;
  const auto width = static_cast<int64_t>(t.vectors) * rates_.lanes;
  const auto pass = [&](int64_t vectors) { return pass_cycles(shape, vectors, lines, k); };
  const double multiply = std::ceil(lines / t.lines) * passed_lines(shape) / double(width) * pass(t.vectors) *
                          padding(shape, pass);
  constexpr double kPackCycles = 0.6, kTurnCycles = 0.5;  // of an element
  const double turn = of_a_ ? 0 : packed * lines * kTurnCycles;
  // A zero point takes the sum of every line in place (of 512 x 4096 x 4096 bytes 1.9 ms).
  constexpr double kSumCycles = 3.2;  // of a line of cache
  const double of_zero = context_.problem.zero_a != 0 ? lines * k / 64 * kSumCycles : 0;
  // A group of lines begins with waiting for all of them (128 x 17 x 8191, blocks of 256 and 512: 357 and 332
  // us).
  constexpr double kGroupCycles = 100;
  const double groups = std::ceil(packed / rates_.lanes) * std::ceil(k / double(shape.depth));
  const double pack = packed * k / rates_.k_per_lane * kPackCycles + groups * kGroupCycles;
  const double compute = (multiply + pack + turn + of_zero) / rates_.clock_hz;
  const double memory = lines * k * line_bytes() / bandwidth;
  // Nobody fetches what is packed first: all of it in one block, of several the first (by 32 x 2880 on Zen 5,
  // blocks of 2048, 1024, 512 and 256: M = 32, "direct" 49.3, 42.2, 40.6 and 39.4 us, M = 64, "direct_a" 70,
  // 66, 62 and 63, M = 128 125, 115, 111 and 111).
  const double packed_once = packed * k * packed_bytes();
  const double first = shape.fetch == CpuFetch::kNext ? std::min(1.0, double(shape.depth) / k) : 1;
  const double waits = packed_once > rates_.l2_bytes / 4 ? first * packed_once / bandwidth : 0;
  // Where nobody fetches, little hides, and every block of K begins with waiting (M = 16 by 4096 x 4096 on
  // Zen 3, of 2, 4, 8 and 16 KiB of a line: 11.8, 10.3, 9.2 and 8.2 ms).
  constexpr double kUnfetched = 0.6, kLostBytes = 2400;
  const double run = std::min(k, double(shape.depth)) * line_bytes();
  const double exposed = shape.fetch == CpuFetch::kNone ? kUnfetched + kLostBytes / run : 0.1;
  return std::max(compute, memory) + exposed * std::min(compute, memory) + waits;
}

void DirectPricing::append_splits(const Shape& shape, const CompileConfig& config,
                                  std::vector<RankedPlan>* out) const {
  const double packed_tiles = std::ceil(double(packed_) / double(shape.packed));
  const double line_tiles = std::ceil(double(lines_) / double(shape.lines));
  const double tiles = packed_tiles * line_tiles;
  for (int32_t splits : split_options(context_, s_.k, tiles, rates_.workers, 2 * kDepths[0])) {
    if (splits > 1 && rates_.k_per_lane > 1) continue;  // a chunk may begin within a word
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
    r.plan.config = config;
    r.plan.config.split = splits > 1;
    r.plan.config.store_directly = kernel_ == KernelKind::kDirectA && shape.depth >= s_.k &&
                                   (splits > 1 || has_short_epilogue(context_.problem));
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

void DirectPricing::append_depths(const RegisterTile& t, const CompileConfig& config,
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
      reject(context_, config_of(shape, config), out, "packed panels ", int64_t(panels), " > ",
             int64_t(rates_.l2_bytes / 2), " of L2");
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
  CompileConfig config;
  config.kernel = KernelKind::kDirectPacked;
  const auto refuse = [&](const std::string& why) { reject(context, config, out, why); };
  if (c.packed_b != kColumns16) return refuse("B is not packed");
  if (c.a != DType::kF32 || rates.k_per_lane > 1) return refuse("operands are not multiplied as f32");
  if (c.trans_a != 0) return refuse("A is not K-contiguous");
  if (!packs_runs(c, rates)) return refuse("gains where a core reads fast alone");
  if (MatmulSizes(c).m <= kMostAsTheyCome)
    return refuse(
        absl::StrCat("M ", MatmulSizes(c).m, " <= ", kMostAsTheyCome, ": panels are read as they come"));
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  DirectPricing(context, /*of_a=*/true).enumerate(out);
}

}  // namespace

void enumerate_matmul_direct(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  CompileConfig config;
  enumerate_unpacked(context, out);
  const auto refuse = [&](const std::string& why) {
    for (KernelKind kernel : {KernelKind::kDirect, KernelKind::kDirectA}) {
      config.kernel = kernel;
      reject(context, config, out, why);
    }
  };
  if (!operands_refusal(c).empty()) return refuse(operands_refusal(c));
  const int32_t per_lane = elements_a_lane(context);
  const bool bytes = c.a == DType::kI8;
  const bool pairs = per_lane == 2 && c.b == DType::kBF16;
  if (!pairs && (c.a != c.b || (c.a != DType::kF32 && !bytes)))
    return refuse("operands are not f32 or i8, or bf16 multiplied in pairs");
  if (bytes && !multiplies_bytes(context.facts.target)) return refuse("no instruction multiplies bytes");
  if (c.k % per_lane != 0) return refuse(absl::StrCat("K ", c.k, " is no multiple of ", per_lane));
  if (const std::string refusal = forced_split_refusal(context); !refusal.empty()) return refuse(refusal);
  config.kernel = KernelKind::kDirect;
  if (c.trans_b == 0)
    reject(context, config, out, "B is not K-contiguous");
  else
    DirectPricing(context, /*of_a=*/false).enumerate(out);
  config.kernel = KernelKind::kDirectA;
  if (bytes)
    reject(context, config, out, "i8: no faster than \"direct\"");
  else if (c.a != c.b)
    reject(context, config, out, "A is rounded to bf16: not read where it lies");
  else if (c.trans_a != 0)
    reject(context, config, out, "A is not K-contiguous");
  else if (c.n > kDirectAMaxN && !packs_runs(c, CpuRates(context)))
    reject(context, config, out, "N ", c.n, " > ", kDirectAMaxN, ": A would be read too often");
  else
    DirectPricing(context, /*of_a=*/true).enumerate(out);
}

}  // namespace lathe
