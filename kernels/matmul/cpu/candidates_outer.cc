// Candidates of "outer": CPU matmul for few rows of A and weights stored K by N, which are streamed once.
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using streamed::RegisterTile, streamed::Stream, streamed::StreamedTask, streamed::append_streamed,
    streamed::fits, streamed::pace_of, streamed::unroll_of;

constexpr int64_t kOuterMaxM = 16, kBlockedOuterMaxM = 256, kSmallOuterMaxM = 128;
constexpr int64_t kFewRows = 64;  // K blocks are legal up to this M with any L2

constexpr RegisterTile kOuterTiles[] = {{1, 15}, {2, 10}, {3, 7},  {4, 6},  {5, 5},  {6, 4},
                                        {7, 3},  {8, 3},  {10, 2}, {12, 2}, {14, 2}, {1, 7},
                                        {2, 4},  {3, 3},  {4, 3},  {6, 2},  {8, 2},  {16, 1}};
// The depth of a K block and the columns of a task for more rows of A than kOuterMaxM: sums are loaded and
// stored half as often as with blocks of 64, and L2 holds them beside this block and the next.
constexpr int32_t kDeepBlock = 128;
constexpr int64_t kDeepColumns = 240;
// With more rows still, L2 must hold the sums, the block and the next one.
constexpr double kDeepShare = 0.75;
double deep_bytes(const MatmulSizes& s) { return double(kDeepColumns) * (s.m + 2.0 * kDeepBlock) * 4; }

// Whether lines from L2 limit the loop over k. They do if a core has two FMA units of 16 lanes, unless it reads fast.
bool waits_for_l2(const CpuRates& rates) {
  constexpr double kWide = 32;
  return rates.fma_units * rates.lanes >= kWide && !rates.reads_fast();
}

// Cycles per step lost to rows of A that share a set of L1, beyond its eight ways: such elements come from
// L2 in every step.
double crowded_cycles(const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kWays = 8, kRowCycles = 2;
  const double in_a_set = lines_a_set(t.rows, static_cast<int64_t>(double(s.k) * s.input_bytes));
  return kRowCycles * std::max(0.0, in_a_set - kWays);
}

// `depth`: rows of B that all passes take before the next ones.
double outer_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double passes,
                    double crowded, double depth, double n, double k) {
  // More rows of B in a set of L1 than it has ways evict each other before the next pass.
  constexpr double kWays = 12;
  const auto pitch = static_cast<int64_t>(double(s.n) * s.b_bytes);
  const bool crowded_b = lines_a_set(static_cast<int64_t>(std::min(depth, k)), pitch) > kWays;
  const auto group = [&](double vectors) {
    const double bytes = vectors * rates.lanes * s.b_bytes, loads = t.rows + vectors;
    double b_rate = rates.reread_bytes_per_cycle(bytes * std::min(depth, k));
    if (b_rate == 0 && crowded_b && s.m > kOuterMaxM) b_rate = kL2BytesPerCycle;
    const double b_cycles = b_rate > 0 ? (passes - 1) / passes * bytes / b_rate : 0;
    const double converted = (s.narrow_a ? t.rows : 0) + (s.narrow_b ? vectors : 0);
    const double step = rates.step_cycles(t.rows * vectors, loads, converted) + crowded;
    const bool waits = s.m > kOuterMaxM && waits_for_l2(rates);
    constexpr double kGroupCycles = 20;  // cycles to enter and leave the loop over k
    constexpr double kUnfetched = 3;     // the slowdown of reads from L2 without prefetch
    return passes * (k * (waits ? step + kUnfetched * b_cycles : std::max(step, b_cycles)) + kGroupCycles);
  };
  // The rest of N beyond whole groups is one group in a single task, otherwise one vector after the other.
  const double whole = std::floor(n / (t.columns * rates.lanes));
  const double rest = std::ceil((n - whole * t.columns * rates.lanes) / rates.lanes);
  if (rest == 0) return whole * group(t.columns);
  return whole * group(t.columns) + (n == double(s.n) ? group(rest) : rest * group(1));
}

// The slowdown of the passes over a tile's block of B if L1 does not hold it beside A's lines and the sums.
double block_share(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth) {
  constexpr double kBeside = 1.6, kFromL2 = 1.25, kBothFromL2 = 1.6;
  // Such a core waits for the rows of A as well, even if L1 holds the block of B.
  if (waits_for_l2(rates)) return kBothFromL2;
  return kBeside * t.columns * rates.lanes * s.b_bytes * depth > rates.l1d_bytes ? kFromL2 : 1;
}
// With K blocks every tile loads and stores its sums per block.
double carry_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth,
                    double n, double k) {
  constexpr double kCarryCycles = 2;
  const double tiles = std::ceil(n / (t.columns * rates.lanes)) * ceil_div(s.m, t.rows);
  return tiles * std::ceil(k / depth) * t.rows * t.columns * kCarryCycles;
}

// What to prefetch in K blocks. A core that reads fast leaves one row to its hardware prefetchers. With
// more rows it gains by prefetching some tiles ahead, or the next block row by row, since each pass' share
// of the next block as it will be read is only a few hundred bytes in a row.
CpuFetch outer_fetch(const CpuRates& rates, const MatmulSizes& s) {
  if (!rates.reads_fast()) return CpuFetch::kNext;
  if (s.m == 1) return rates.converts_b ? CpuFetch::kNext : CpuFetch::kNone;
  return s.m <= 4 ? CpuFetch::kNear : s.m <= kOuterMaxM ? CpuFetch::kAhead : CpuFetch::kSpread;
}

// How a class reads B. Every pass over the rows reads it again.
struct OuterReads {
  OuterReads(const CpuRates& rates, const MatmulSizes& s)
      : b_bytes(double(s.n) * double(s.k) * s.b_bytes),
        is_small(b_bytes <= rates.l2_bytes / 4),
        tiny(is_tiny(rates, s)) {}
  double b_bytes;
  bool is_small, tiny;
};

std::string outer_refusal(const ProblemClass& c, const CpuRates& rates, const MatmulSizes& s,
                          const OuterReads& reads) {
  if (!operands_refusal(c).empty()) return operands_refusal(c);
  if (!is_float(c.a)) return "does not support i8: products of i8 need four rows of B interleaved";
  if (c.trans_b != 0) return "B is not N-contiguous";
  const int64_t most = reads.is_small ? kSmallOuterMaxM : kBlockedOuterMaxM;
  if (c.m_hi > most)
    return absl::StrCat("supports M up to ", most, reads.is_small ? " if B fits in a quarter of L2" : "",
                        ", not ", c.m_hi);
  if (s.batch_invariant) return "batch_invariant needs the numeric recipe of 'panel' for every M";
  if (!reads.is_small && s.m > kFewRows && deep_bytes(s) > kDeepShare * rates.l2_bytes)
    return absl::StrCat("accumulators and K blocks take ", int64_t(deep_bytes(s)), " bytes, at most ",
                        int64_t(kDeepShare * rates.l2_bytes), " bytes of L2 are used");
  return "";
}

// Cycles of the passes over columns n and depth k, if all passes take `depth` rows of B before the next ones.
using OuterCycles = std::function<double(double depth, double n, double k)>;

void append(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s, OuterConfig config,
            const Stream& stream, absl::FunctionRef<double(double n, double k)> cycles,
            std::vector<RankedPlan>* out) {
  append_streamed(
      context, rates, s, config.register_m, config.register_n, stream, "fma f32; K ascending", cycles,
      [&](const StreamedTask& task) -> CompileConfig {
        OuterConfig c = config;
        c.tile_m = task.rows, c.tile_n = task.columns, c.split = task.is_split;
        // The partial sums of a split pass through no epilogue.
        if (task.is_split) c.store_directly = c.tile_k == 0;
        return c;
      },
      out);
}

// Without K blocks: a pass takes all of K.
void append_whole(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                  const OuterReads& reads, OuterConfig config, const OuterCycles& cycles,
                  std::vector<RankedPlan>* out) {
  // Each k reads another row of B, which costs nothing in L1.
  const double run = std::min<double>(config.register_n, s.n) * s.b_bytes;
  const double efficiency = reads.tiny       ? 1
                            : reads.is_small ? CpuRates::run_efficiency(run)
                                             : CpuRates::page_efficiency(run, kPageBytes);
  config.store_directly = has_short_epilogue(context.problem);
  append(
      context, rates, s, config, {efficiency}, [&](double n, double k) { return cycles(k, n, k); }, out);
}

// With K blocks: all passes take a block of B before the next one.
void append_blocked(const CandidateContext& context, const CpuRates& rates, const MatmulSizes& s,
                    const OuterReads& reads, const RegisterTile& t, OuterConfig config,
                    const OuterCycles& cycles, std::vector<RankedPlan>* out) {
  const CpuFetch fetch = outer_fetch(rates, s);
  const int32_t few = fetch == CpuFetch::kNear ? 16 : 8;
  config.tile_k = s.m <= 4 ? few : s.m <= kOuterMaxM ? 32 : kDeepBlock;
  config.prefetch = static_cast<int32_t>(fetch);
  Stream stream;
  if (s.m > kOuterMaxM) stream.most_columns = kDeepColumns;
  // Two to four rows gain by a pace; a single row loses.
  if (s.m > 1 && s.m <= 4 && s.n >= config.register_n && reads.b_bytes > rates.l2_bytes)
    config.pace = pace_of(rates, s, t, config.unroll_k);
  // All of a K block's rows of B are read in runs of a task's columns.
  if (s.m <= 4 && rates.workers == 1) stream.tasks_a_worker = 1;
  stream.whole_tiles = config.pace > 0;
  append(
      context, rates, s, config, stream,
      [&](double n, double k) {
        // For few rows the price without K blocks ranks the tiles as measured.
        const double depth = s.m > kOuterMaxM ? double(config.tile_k) : k;
        const double share = s.m > kOuterMaxM ? block_share(rates, s, t, depth) : 1;
        return share * cycles(depth, n, k) + carry_cycles(rates, s, t, double(config.tile_k), n, k);
      },
      out);
}

}  // namespace

void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const MatmulSizes s(c);
  OuterConfig config;
  config.lanes = rates.lanes;
  const OuterReads reads(rates, s);
  if (std::string why = outer_refusal(c, rates, s, reads); !why.empty())
    return reject(context, config, out, why);
  for (const RegisterTile& t : kOuterTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns * rates.lanes;
    if (!fits(context, rates, s, t, config, out, t.columns)) continue;
    config.unroll_k = unroll_of(t);
    const double crowded = c.trans_a != 0 ? 0 : crowded_cycles(s, t);
    const double passes = double(ceil_div(s.m, t.rows)) * (reads.tiny ? tiny_padding(c, s, t.rows) : 1);
    const OuterCycles cycles = [&](double depth, double n, double k) {
      return outer_cycles(rates, s, t, passes, crowded, depth, n, k);
    };
    if (s.m <= (reads.is_small ? kSmallOuterMaxM : kOuterMaxM))
      append_whole(context, rates, s, reads, config, cycles, out);
    if (!reads.is_small && s.m <= kBlockedOuterMaxM)
      append_blocked(context, rates, s, reads, t, config, cycles, out);
  }
}

}  // namespace lathe
