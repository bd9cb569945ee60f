// Candidates of "bytes" and "amx_bytes": A is rounded to bytes and multiplied by B in quantised blocks.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/candidates_streamed.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

// Up to here a task has all rows of A.
constexpr int64_t kStreamedMaxM = 64;
// Elements of a column that are decoded together; columns and rows of an AMX tile.
constexpr int64_t kGroup = 32, kSide = 16;
// Cycles to round an element of A to a byte.
constexpr double kRoundCycles = 0.3;

// AArch64, by llvm-mca's models (docs/gguf-speed.md): instructions of the vector pipes for a row, with sdot and with smmla,
// and for what takes a cycle of decoding on x86. Cycles to round an element are an estimate.
constexpr double kDotInstructions = 15, kPairInstructions = 10, kNeonDecode = 1.4, kNeonRoundCycles = 1;

// How a target multiplies bytes with vectors.
struct ByteRates {
  explicit ByteRates(const Target& target)
      : has_vnni(target.has("avx512vnni") || target.has("avxvnni")),
        is_neon(target.arch == "aarch64"),
        in_pairs(target.has("i8mm")),
        lanes(is_neon                    ? 4
              : target.has("avx512vnni") ? 16
                                         : 8),
        rows(lanes == 16 ? 16
             : is_neon   ? 8
                         : 4) {}
  bool has_vnni, is_neon;
  bool in_pairs;  // of rows: smmla
  int32_t lanes;
  // Rows whose sums stay in registers beside a group's eight words of B.
  int32_t rows;
  // Rows of a register tile, at least `needed`.
  int32_t whole_rows(int64_t needed) const {
    return static_cast<int32_t>(in_pairs && needed > 1 ? round_up(needed, 2) : needed);
  }
  double round_cycles() const { return is_neon ? kNeonRoundCycles : kRoundCycles; }
  // Instructions for a row and kGroup elements: with VNNI eight products of bytes, a conversion, a multiplication and an
  // FMA; else each product takes two instructions more. The count is raised by a third to fit Emerald Rapids at M = 16.
  double row_instructions(double rows) const {
    if (is_neon) return in_pairs && rows > 1 ? kPairInstructions : kDotInstructions;
    return has_vnni ? 14 : 32;
  }
};

std::string refusal(const ProblemClass& c, const Target& target) {
  if (!is_blocks(c.b)) return "needs B in blocks";
  if (c.math != Math::kInt8) return "needs math int8, which allows rounding A to i8";
  if (c.trans_a != 0) return "A is not K-contiguous";
  if (!target.has(target.arch == "aarch64" ? "dotprod" : "avx2"))
    return absl::StrCat("target has no ", target.arch == "aarch64" ? "dotprod" : "AVX2");
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant needs the numeric recipe of 'panel' for every M";
  return "";
}

class BytesPricing {
 public:
  explicit BytesPricing(const CandidateContext& context)
      : p_(context), context_(context), rates_(p_.rates), s_(p_.s), bytes_(context.facts.target) {}

  void enumerate_vectors(BytesConfig config, std::vector<RankedPlan>* out) const;
  void enumerate_tiles(AmxBytesConfig config, std::vector<RankedPlan>* out) const;

 private:
  // Cycles to decode kGroup elements of a vector of columns. Packed blocks need no transposition.
  double decode_cycles() const {
    constexpr double kPacked = 0.6;
    const double cycles = row_of(context_.problem.b).decode_bytes_cycles;
    if (bytes_.is_neon) return cycles * kNeonDecode / rates_.fma_units;
    return cycles * (context_.problem.packed_b ? kPacked : 1);
  }
  // A core that reads fast prefetches the next columns into L1.
  int64_t fetch() const {
    return static_cast<int64_t>(rates_.prefetches_into_l1 ? CpuFetch::kNear : CpuFetch::kNext);
  }
  bool has_group_scales() const { return block_elements(context_.problem.b) > kGroup; }
  // BytesConfig::narrowest_rows: M may be any of its bucket.
  int64_t narrowest_rows(int64_t rows) const {
    constexpr int32_t kFewest = 4;
    const ProblemClass& c = context_.problem;
    return c.m_lo < c.m_hi && rows > kFewest && rows % kFewest == 0 ? kFewest : 0;
  }
  // A packed panel is one stream, read in whole cache lines. Where prefetches hold up reads, few rows, which wait for
  // memory only, read it faster without them. q8_0's bytes need no decoding, so more rows wait for memory.
  bool is_unprefetched() const {
    const bool decodes =
        size_of(context_.problem.b) < static_cast<size_t>(block_elements(context_.problem.b));
    return context_.problem.packed_b && rates_.pace_bytes_per_second > 0 && bytes_.lanes == kPackedColumns &&
           s_.m <= (decodes ? 2 : 4);
  }
  std::string recipe() const {
    return absl::StrCat("A rounded to bytes by ", block_elements(context_.problem.b),
                        "; exact sums, scaled; fma f32, K ascending");
  }
  double vector_cycles(double rows, double passes, double n, double k) const {
    const double group = passes * decode_cycles() + rows * bytes_.row_instructions(rows) / rates_.fma_units;
    return std::ceil(n / bytes_.lanes) * k / kGroup * group + rows * k * bytes_.round_cycles();
  }
  // Cycles of a task.
  double cycles_of(const AmxBytesConfig& config, double rows, double n, double k) const;
  double cycles_of(const BytesConfig&, double rows, double n, double k) const {
    const double passes = std::ceil(rows / bytes_.rows);
    return vector_cycles(passes * bytes_.rows, passes, n, k);
  }
  template <typename Config>
  void append_task(const Config& config, std::vector<RankedPlan>* out) const;

  TaskWork work_of(double cycles, double rows, double n, double k) const {
    const auto whole_n = double(s_.n), whole_m = double(s_.m), whole_k = double(s_.k);
    TaskWork w;
    w.issue = cycles;
    count_reading(p_, {n * k * s_.b_bytes, whole_n * whole_k * s_.b_bytes, std::ceil(whole_m / rows), false},
                  &w);
    count_reading(
        p_, {rows * k * s_.input_bytes, whole_m * whole_k * s_.input_bytes, std::ceil(whole_n / n), true},
        &w);
    return w;
  }

  const CpuPricing p_;
  const CandidateContext& context_;
  const CpuRates& rates_;
  const MatmulSizes& s_;
  const ByteRates bytes_;
};

// Measured on Emerald Rapids for 16 rows and columns and kGroup elements. With a scale for each group every product of
// tiles is stored and scaled; else two products, of both bytes of the scaled weights, are added up over a whole block.
// Multiplying two turns ahead costs kStart at the beginning of each K block: per tile of rows with scales for groups,
// else per tile of columns. The deeper a K block, the further away are its decoded columns.
double BytesPricing::cycles_of(const AmxBytesConfig& config, double rows, double n, double k) const {
  constexpr double kScaledGroup = 65, kPlanesGroup = 60, kDecodePlanes = 9, kDecodeGroup = 1.2;
  constexpr double kStart = 300, kDeeper = 35, kLeastDepth = 256;
  const bool planes = has_group_scales();
  const double row_tiles = std::ceil(rows / kSide), depth = std::min<double>(config.tile_k, k);
  const double decode = decode_cycles() * (planes ? kDecodePlanes : kDecodeGroup);
  const double deep = planes ? 0 : kDeeper * std::log2(std::max(1.0, depth / kLeastDepth));
  const double group = decode + deep + row_tiles * (planes ? kPlanesGroup : kScaledGroup);
  const double start = std::ceil(k / depth) * kStart * (planes ? 1 : row_tiles);
  return std::ceil(n / kSide) * (k / kGroup * group + start) + rows * k * kRoundCycles;
}

// Tasks of tile_m by tile_n, over all of K.
template <typename Config>
void BytesPricing::append_task(const Config& config, std::vector<RankedPlan>* out) const {
  Tasks tasks;
  tasks.m = config.tile_m, tasks.n = config.tile_n;
  tasks.can_split = false;
  append_tasks(
      p_, tasks,
      [&](double rows, double n, double k) { return work_of(cycles_of(config, rows, n, k), rows, n, k); },
      [&](bool) -> CompileConfig { return config; },
      [&](int32_t splits) { return absl::StrCat(recipe(), "; ", merge_recipe(splits)); }, out);
}

constexpr int64_t kTileColumns[] = {64, 128, 256, 512, 1024, 2048, 4096};

void BytesPricing::enumerate_vectors(BytesConfig config, std::vector<RankedPlan>* out) const {
  config.lanes = bytes_.lanes;
  config.register_n = context_.problem.packed_b ? kPackedColumns : bytes_.lanes;
  config.prefetch = fetch();
  if (is_unprefetched()) config.prefetch = static_cast<int32_t>(CpuFetch::kNone);
  if (s_.m <= kStreamedMaxM) {
    const auto passes = static_cast<int32_t>(ceil_div(s_.m, bytes_.rows));
    config.register_m = bytes_.whole_rows(ceil_div(s_.m, passes));
    config.narrowest_rows = narrowest_rows(config.register_m);
    const double rows = double(config.register_m) * passes;
    streamed::Columns columns;
    columns.step = config.register_n;
    columns.repeats_a = true;
    return streamed::append_streamed(
        p_, columns,
        [&](double n, double k, int64_t) {
          return work_of(vector_cycles(rows, passes, n, k), double(s_.m), n, k);
        },
        [&](int64_t tile_n, bool is_split) -> CompileConfig {
          config.tile_m = round_up(s_.m, config.register_m), config.tile_n = tile_n, config.split = is_split;
          return config;
        },
        [&](int32_t splits) { return absl::StrCat(recipe(), "; ", merge_recipe(splits)); }, out);
  }
  if (context_.split_k > 1)
    return reject(context_, config, out, "does not support split_k ", context_.split_k);
  config.register_m = bytes_.rows;
  config.narrowest_rows = narrowest_rows(config.register_m);
  for (const int64_t rows : task_sizes({64, 128}, s_.m, config.register_m))
    for (const int64_t columns : task_sizes(kTileColumns, s_.n, kSide)) {
      config.tile_m = rows, config.tile_n = columns;
      append_task(config, out);
    }
}

void BytesPricing::enumerate_tiles(AmxBytesConfig config, std::vector<RankedPlan>* out) const {
  config.lanes = config.register_m = kSide;
  config.prefetch = fetch();
  config.register_n = has_group_scales() ? 2 * kSide : kSide;
  for (const int64_t depth : task_sizes({256, 512, 1024, 2048}, s_.k, 1))
    for (const int64_t rows : task_sizes({64, 128, 256, 512, 1024}, s_.m, config.register_m)) {
      config.tile_k = depth, config.tile_m = rows;
      // Rows of A and decoded columns stay in L2.
      const int64_t held = depth * (rows + 2 * kSide);
      if (held > static_cast<int64_t>(0.75 * rates_.l2_bytes)) {
        reject(context_, config, out, "a K block takes ", held, " bytes, more than 3/4 of L2");
        break;
      }
      for (const int64_t columns : task_sizes(kTileColumns, s_.n, config.register_n)) {
        config.tile_n = columns;
        append_task(config, out);
      }
    }
}

}  // namespace

void enumerate_matmul_bytes(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const Target& target = context.facts.target;
  const std::string why = refusal(c, target);
  const auto enumerate = [&](KernelKind kind, bool packed, bool tiles) {
    if (!why.empty()) return reject(context, kind, out, why);
    if (packed != (c.packed_b == kColumns16))
      return reject(context, kind, out, packed ? "needs packed B" : "does not support packed B");
    if (packed && target.arch == "aarch64") return reject(context, kind, out, "AArch64 has no packed blocks");
    if (!tiles) return BytesPricing(context).enumerate_vectors({kind}, out);
    if (!target.has("amx-int8") || !target.has("avx512bw"))
      return reject(context, kind, out, "target has no amx-int8 with AVX-512");
    if (c.m_hi <= kSide / 2)
      return reject(context, kind, out, "M ", c.m_hi, " fills less than half of a tile of ", kSide, " rows");
    if (context.split_k > 1) return reject(context, kind, out, "does not support split_k ", context.split_k);
    BytesPricing(context).enumerate_tiles({kind}, out);
  };
  enumerate(KernelKind::kBytes, false, false);
  enumerate(KernelKind::kBytesPacked, true, false);
  enumerate(KernelKind::kAmxBytes, false, true);
  enumerate(KernelKind::kAmxBytesPacked, true, true);
}

}  // namespace lathe
