// matmul on the CPU for few rows of weights stored K by N ("outer") and in blocks, by A rounded to bytes
// ("bytes"): both stream B once.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

using streamed::RegisterTile, streamed::Stream, streamed::append_streamed, streamed::fits, streamed::pace_of,
    streamed::unroll_of;

constexpr int64_t kOuterMaxM = 16, kBlockedOuterMaxM = 256, kSmallOuterMaxM = 128;
constexpr int64_t kFewRows = 64;  // in blocks whatever L2 there is

constexpr RegisterTile kOuterTiles[] = {{1, 15}, {2, 10}, {3, 7},  {4, 6},  {5, 5},  {6, 4},
                                        {7, 3},  {8, 3},  {10, 2}, {12, 2}, {14, 2}, {1, 7},
                                        {2, 4},  {3, 3},  {4, 3},  {6, 2},  {8, 2},  {16, 1}};
// Rows of B in a block of "outer" for more rows of A than kOuterMaxM, and a task's columns then: sums come
// and go half as often as with blocks of 64, and L2 holds them beside this block and the next (M = 64 on
// Zen 4, by 4096 x 4096, 5760 x 2880 and 1280 x 8192, GFLOP/s: 64 deep and a thousand columns 103, 103, 102;
// 128 deep and 240 columns 107, 109, 108, 336 columns 100 at worst, 1056 103, 105; 256 and 144 107, 110,
// 108).
constexpr int32_t kDeepBlock = 128;
constexpr int64_t kDeepColumns = 240;
// Of more rows the sums, the block and the next lie in L2, by which B is read once (by 4096 x 4096 on Zen 5,
// M = 80, 128, 256 and 512: 11.9, 18.1, 36.2 and 82 ms, by "panel" 18.9, 24.1, 41.3 and 76).
constexpr double kDeepShare = 0.75;
double deep_bytes(const MatmulSizes& s) { return double(kDeepColumns) * (s.m + 2.0 * kDeepBlock) * 4; }

// Cycles a step of "outer" loses to rows of A in the same set of L1, beyond its eight ways: elements of a row
// a multiple of 4 KiB from the next are fetched from L2 for every step (K = 4096 on Zen 4, M = 12, 14 and 16:
// 12x2 4.6 ms, 6x4 4.25; 14x2 6.2, 7x3 4.8; 16x1 12.0, 8x3 5.5).
double crowded_cycles(const MatmulSizes& s, const RegisterTile& t) {
  constexpr double kWays = 8, kRowCycles = 2;
  const double in_a_set = lines_a_set(t.rows, static_cast<int64_t>(double(s.k) * s.input_bytes));
  return kRowCycles * std::max(0.0, in_a_set - kWays);
}

// `depth`: rows of B that all passes meet before they meet the next.
double outer_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double passes,
                    double crowded, double depth, double n, double k) {
  const auto group = [&](double vectors) {
    const double bytes = vectors * rates.lanes * s.b_bytes, loads = t.rows + vectors;
    const double b_rate = rates.reread_bytes_per_cycle(bytes * std::min(depth, k));
    const double b_cycles = b_rate > 0 ? (passes - 1) / passes * bytes / b_rate : 0;
    const double converted = (s.narrow_a ? t.rows : 0) + (s.narrow_b ? vectors : 0);
    const double step = rates.step_cycles(t.rows * vectors, loads, converted) + crowded;
    constexpr double kGroupCycles = 20;  // entering and leaving the loop over k
    return passes * (k * std::max(step, b_cycles) + kGroupCycles);
  };
  // What is left of N beyond whole groups goes together in a single task, else vector by vector.
  const double whole = std::floor(n / (t.columns * rates.lanes));
  const double rest = std::ceil((n - whole * t.columns * rates.lanes) / rates.lanes);
  if (rest == 0) return whole * group(t.columns);
  return whole * group(t.columns) + (n == double(s.n) ? group(rest) : rest * group(1));
}

// What a jump to another row of B costs where it comes from memory, in bytes (by 4096 x 4096 on Zen 4, M = 1
// in runs of 960 bytes and M = 4 in runs of 640: 36 and 22 % of what reading allows).
constexpr double kJumpBytes = 1700;
// What the passes over a tile's block of B take longer where L1 does not hold it beside A's lines and sums
// (32 by 5760 x 2880 on Zen 5, 4x6, a block of 48 KiB, 6.3 ms, 8x3 4.9; 256 by 1280 x 8192, 6x4, of 32 KiB,
// 28.7 ms, 8x3 24.9).
double block_share(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth) {
  constexpr double kBeside = 1.6, kFromL2 = 1.25;
  return kBeside * t.columns * rates.lanes * s.b_bytes * depth > rates.l1d_bytes ? kFromL2 : 1;
}
// In blocks of K every tile's sums are loaded and stored again.
double carry_cycles(const CpuRates& rates, const MatmulSizes& s, const RegisterTile& t, double depth,
                    double n, double k) {
  constexpr double kCarryCycles = 2;
  const double tiles = std::ceil(n / (t.columns * rates.lanes)) * ceil_div(s.m, t.rows);
  return tiles * std::ceil(k / depth) * t.rows * t.columns * kCarryCycles;
}

// A core that reads fast reads a row by its own prefetchers (by 4096 x 4096 on Zen 5, fetched and not, 240
// columns 2.08 and 1.75 ms, 112 2.09 and 1.49, by 5760 x 2880 2.08 and 1.62), but no more rows (M = 4 2.0
// and 2.9). What they share out for the next block lies 384 bytes here and there: of eight weights, over
// sgemm, the next block as it will be read, row by row, four tiles on into L2 and into L1: M = 2 0.98, -,
// 1.07, 1.15, M = 4 0.96, 0.97, 1.08, 1.10, M = 8 1.08, 1.15, 1.19, 1.11, M = 16 1.22, 1.15, 1.34, 1.10, M =
// 64 0.92, 1.03, 0.89, 0.95.
CpuFetch outer_fetch(const CpuRates& rates, const MatmulSizes& s) {
  if (!rates.reads_fast()) return CpuFetch::kNext;
  if (s.m == 1) return rates.converts_b ? CpuFetch::kNext : CpuFetch::kNone;
  return s.m <= 4 ? CpuFetch::kNear : s.m <= kOuterMaxM ? CpuFetch::kAhead : CpuFetch::kSpread;
}

// "bytes".
constexpr int64_t kBytesMaxM = 64;
// Rows whose sums stay in registers beside a block's eight words of B.
constexpr int32_t kBytesRows = 16;
constexpr int32_t kBytesLanes = 16;

// Cycles of a block of sixteen columns: put together and transposed (about 75 instructions on two shuffle
// units), then for each row eight products of bytes, a conversion, a multiplication and an FMA.
constexpr double kDecodeBlockCycles = 30;
constexpr double kRowInstructions = 10.5;
// An element of A on its way to a byte.
constexpr double kRoundCycles = 0.3;

std::string bytes_refusal(const ProblemClass& c, const Target& target) {
  if (!is_blocks(c.b)) return "B is not stored in blocks";
  if (c.math != Math::kInt8) return "math strict: A is not to be rounded to bytes";
  if (c.trans_a != 0) return "A is not K-contiguous";
  if (!target.has("avx512vnni")) return "no AVX512-VNNI";
  if (c.m_hi > kBytesMaxM) return absl::StrCat("M ", c.m_hi, " > ", kBytesMaxM);
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: rows of larger M come from panels";
  return "";
}

}  // namespace

void enumerate_matmul_outer(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const MatmulSizes s(c);
  CompileConfig config;
  config.kernel = KernelKind::kOuter;
  config.lanes = rates.lanes;
  if (!operands_refusal(c).empty()) return reject(context, config, out, operands_refusal(c));
  if (!is_float(c.a))
    return reject(context, config, out, "i8: words along K would be put together from 4 rows");
  if (c.trans_b != 0) return reject(context, config, out, "B is not N-contiguous");
  // Every pass over the rows reads B again.
  const double b_bytes = double(c.n) * double(c.k) * s.b_bytes;
  const bool is_small = b_bytes <= rates.l2_bytes / 4, tiny = is_tiny(rates, s);
  if (c.m_hi > (is_small ? kSmallOuterMaxM : kBlockedOuterMaxM))
    return reject(context, config, out, "M ", c.m_hi, " > ", kBlockedOuterMaxM, " and B of ",
                  int64_t(b_bytes), " bytes > a quarter of L2, or M > ", kSmallOuterMaxM);
  if (s.batch_invariant)
    return reject(context, config, out, "batch_invariant: rows of larger M come from panels");
  if (!is_small && s.m > kFewRows && deep_bytes(s) > kDeepShare * rates.l2_bytes)
    return reject(context, config, out, "sums and blocks of ", int64_t(deep_bytes(s)), " bytes > ",
                  int64_t(kDeepShare * rates.l2_bytes), " of L2");
  for (const RegisterTile& t : kOuterTiles) {
    config.register_m = t.rows;
    config.register_n = t.columns * rates.lanes;
    if (!fits(context, rates, s, t, config, out, t.columns)) continue;
    config.unroll_k = unroll_of(t);
    const double crowded = c.trans_a != 0 ? 0 : crowded_cycles(s, t);
    const double passes = double(ceil_div(s.m, t.rows)) * (tiny ? tiny_padding(c, s, t.rows) : 1);
    const auto cycles = [&](double depth, double n, double k) {
      return outer_cycles(rates, s, t, passes, crowded, depth, n, k);
    };
    if (s.m <= (is_small ? kSmallOuterMaxM : kOuterMaxM)) {
      // Each k jumps to another row of B, at no cost in L1 (32x8x64: 0.67 us, by a panel of B 1.06).
      const double run = std::min<double>(config.register_n, s.n) * s.b_bytes;
      const double efficiency = tiny       ? 1
                                : is_small ? CpuRates::run_efficiency(run)
                                           : run / (run + kJumpBytes);
      config.store_directly = has_short_epilogue(c);
      append_streamed(
          context, rates, s, config, {efficiency}, "fma f32; K ascending",
          [&](double n, double k) { return cycles(k, n, k); }, out);
      config.store_directly = 0;
    }
    if (is_small || s.m > kBlockedOuterMaxM) continue;
    const CpuFetch fetch = outer_fetch(rates, s);
    const int32_t few = fetch == CpuFetch::kNear ? 16 : 8;
    config.tile_k = s.m <= 4 ? few : s.m <= kOuterMaxM ? 32 : kDeepBlock;
    config.prefetch = static_cast<int32_t>(fetch);
    Stream stream;
    if (s.m > kOuterMaxM) stream.most_columns = kDeepColumns;
    // By 4096 x 4096, 2880 x 4096 and 5120 x 2880 on Zen 4, not held and held: M = 2 2.54 and 2.48, 2.03
    // and 1.73, 2.31 and 2.41 ms, M = 4 3.11 and 2.77, 2.21 and 1.56, 2.52 and 2.58; a single row loses (2.22
    // and 2.34).
    if (s.m > 1 && s.m <= 4 && s.n >= config.register_n && b_bytes > rates.l2_bytes)
      config.pace = pace_of(rates, s, t, config.unroll_k);
    append_streamed(
        context, rates, s, config, stream, "fma f32; K ascending",
        [&](double n, double k) {
          // Of few rows the rate of all of K tells tiles apart as measured.
          const double depth = s.m > kOuterMaxM ? config.tile_k : k;
          const double share = s.m > kOuterMaxM ? block_share(rates, s, t, depth) : 1;
          return share * cycles(depth, n, k) + carry_cycles(rates, s, t, config.tile_k, n, k);
        },
        out);
    config.tile_k = config.pace = 0;
    config.prefetch = 0;
  }
}

void enumerate_matmul_bytes(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  const MatmulSizes s(c);
  CompileConfig config;
  config.kernel = KernelKind::kBytes;
  config.lanes = kBytesLanes;
  if (std::string why = bytes_refusal(c, context.facts.target); !why.empty())
    return reject(context, config, out, why);
  const auto passes = static_cast<int32_t>(ceil_div(s.m, kBytesRows));
  config.register_m = static_cast<int32_t>(ceil_div(s.m, passes));
  config.register_n = kBytesLanes;
  const double rows = double(config.register_m) * passes;
  // By 5760 x 2880, 4096 x 4096 and 8192 x 1024 on Zen 5, fetched into L2 and L1: M = 1 353, 408, 161 and
  // 290, 288, 154 us, M = 4 478, 463, 362 and 406, 404, 200, M = 16 1219, 948, 463 and 975, 953, 462.
  config.prefetch = static_cast<int32_t>(rates.reads_fast() ? CpuFetch::kNear : CpuFetch::kNext);
  append_streamed(
      context, rates, s, config, {},
      absl::StrCat("A rounded to bytes by 32; exact sums of 32, scaled; fma f32, K ascending"),
      [&](double n, double k) {
        const double block = passes * kDecodeBlockCycles + rows * kRowInstructions / rates.fma_units;
        return std::ceil(n / kBytesLanes) * k / block_elements(c.b) * block + rows * k * kRoundCycles;
      },
      out);
}

}  // namespace lathe
