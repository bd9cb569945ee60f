// Candidates of CPU matmul with AMX tiles, of pairs of bf16 and of bytes. "amx_t": the transposed product,
// whose rows are B's columns, loaded along K; "amx": the same with A's rows; "amx_packed": A's rows by
// panels of B packed in advance.
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

constexpr int64_t kSide = 16;  // lines of a tile; words of a line
// Accumulators in registers, in tiles: rows by columns.
struct RegisterTile {
  int32_t rows, columns;
};
constexpr RegisterTile kTiles[] = {{2, 2}, {2, 1}, {1, 4}, {1, 2}, {1, 1}};
constexpr double kTileBytes = 1024;
// The rate at which sums are loaded and stored, from L2 and L3 alike.
constexpr double kSumsBytesPerCycle = 24;
constexpr int64_t kDepths[] = {256, 512, 1024, 2048, 4096};  // in words
constexpr int64_t kTileRows[] = {256, 512, 1024, 4096};
constexpr int64_t kTileColumns[] = {64, 128, 256, 512, 1024};

enum class Form { kRowsOfA, kTransposed, kPacked };

class AmxPricing {
 public:
  AmxPricing(const CandidateContext& context, Form form)
      : context_(context),
        rates_(context),
        s_(context.problem),
        form_(form),
        transposed_(form == Form::kTransposed),
        rows_(transposed_ ? s_.n : s_.m),
        columns_(transposed_ ? s_.m : s_.n) {
    const ProblemClass& c = context.problem;
    rows_turn_ = transposed_ ? c.trans_b == 0 : c.trans_a != 0;
    columns_turn_ = transposed_ ? c.trans_a == 0 : c.trans_b != 0;
    rows_stored_ = !rows_turn_ && (transposed_ || (!rates_.rounds_a && c.rows == Rows::kPlain));
  }

  // Config: an AmxTConfig for the transposed product, else an AmxConfig.
  template <typename Config>
  void enumerate(KernelKind kernel, std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles)
      for (bool copies : {false, true}) {
        Config config{kernel};
        config.lanes = rates_.lanes;
        config.register_m = (transposed_ ? t.columns : t.rows) * kSide;
        config.register_n = (transposed_ ? t.rows : t.columns) * kSide;
        const auto width = static_cast<int64_t>(t.columns) * kSide,
                   height = static_cast<int64_t>(t.rows) * kSide;
        if (!copies && !rows_stored_)
          reject(context_, config, out,
                 "reading rows in place needs them K-contiguous, at one distance and in the dtype that is "
                 "multiplied");
        else if (!copies && s_.k % (kSide * rates_.k_per_lane) != 0)
          reject(context_, config, out, "reading rows in place needs K to be a multiple of ",
                 kSide * rates_.k_per_lane, ", not ", s_.k);
        else if (width >= round_up(columns_, kSide) + kSide)
          reject(context_, config, out, "register tile has too many ",
                 transposed_ ? "rows: " : "columns: ", width, " for ", transposed_ ? "M " : "N ", columns_);
        else if (height >= round_up(rows_, kSide) + kSide)
          reject(context_, config, out, "register tile has too many ",
                 transposed_ ? "columns: " : "rows: ", height, " for ", transposed_ ? "N " : "M ", rows_);
        else
          append_tiles(t, copies, config, out);
      }
  }

 private:
  struct Shape {
    RegisterTile tile;
    bool copies;
    int64_t rows, columns, depth;  // of a task; the depth in words
  };
  double row_bytes() const { return transposed_ ? s_.b_bytes : s_.input_bytes; }
  double column_bytes() const { return transposed_ ? s_.input_bytes : s_.b_bytes; }
  int64_t row_pitch_bytes() const { return s_.k * static_cast<int64_t>(row_bytes()); }
  template <typename Config>
  void append_tiles(const RegisterTile& t, bool copies, Config config, std::vector<RankedPlan>* out) const;
  void append(const Shape& p, const CompileConfig& config, std::vector<RankedPlan>* out) const;
  double tile_seconds(const Shape& p, double rows, double columns, double k, double bandwidth) const;

  const CandidateContext& context_;
  const CpuRates rates_;
  const MatmulSizes s_;
  const Form form_;
  const bool transposed_;
  const int64_t rows_, columns_;
  bool rows_turn_, columns_turn_, rows_stored_;
};

double AmxPricing::tile_seconds(const Shape& p, double rows, double columns, double k,
                                double bandwidth) const {
  const double words = k / rates_.k_per_lane, depth = std::min<double>(double(p.depth), words);
  const double passes = std::ceil(rows / (double(p.tile.rows) * kSide));
  const double turns = std::ceil(columns / (double(p.tile.columns) * kSide));
  // A product takes 16 cycles, loading a tile 8 from L1 and 22 from L2, which products hide but for a part.
  constexpr double kProduct = 16, kFromL1 = 8, kFromL2 = 22, kExposed = 0.3;
  const bool in_l1 = double(p.tile.rows) * kSide * depth * 4 <= 0.75 * rates_.l1d_bytes &&
                     (p.copies || lines_a_set(p.tile.rows * kSide, row_pitch_bytes()) <= 8);
  const double column_panels = double(p.columns) * depth * 4;
  // Lines in place that share sets of L1 with each other come from L2 every time.
  constexpr double kShared = 60;
  const double row_load = in_l1 ? kFromL1 : p.copies || turns == 1 ? kFromL2 : kShared;
  const double column_load = column_panels <= 0.5 * rates_.l1d_bytes ? kFromL1 : kFromL2;
  const double step = kProduct * p.tile.rows * p.tile.columns +
                      kExposed * (p.tile.rows * row_load + p.tile.columns * column_load);
  const double blocks = std::ceil(words / double(p.depth));
  const double keep = (2 * blocks - 1) * p.tile.rows * p.tile.columns * kTileBytes / kSumsBytesPerCycle;
  constexpr double kTileCycles = 40;
  const double multiply = passes * turns * (words / kSide * step + keep + blocks * kTileCycles);
  // Cycles per word.
  constexpr double kCopy = 0.25, kTurn = 0.9, kAcross = 0.6, kFinish = 0.6;
  const double packing = form_ == Form::kPacked ? 0 : columns * words * (columns_turn_ ? kTurn : kAcross);
  const double copying = p.copies ? rows * words * (rows_turn_ ? kTurn : kCopy) : 0;
  const double compute =
      (multiply + packing + copying + (transposed_ ? rows * columns * kFinish : 0)) / rates_.clock_hz;
  // Without prefetching, the end of each run along K waits.
  constexpr double kUnfetched = 700, kFetched = 100;
  const double run = depth * rates_.k_per_lane * row_bytes();
  const double row_reading =
      rows * k * row_bytes() * (1 + (p.copies || turns > 1 ? kFetched : kUnfetched) / run);
  const double column_reading = columns * k * column_bytes();
  const double memory = std::max(row_reading, column_reading) / bandwidth;
  return std::max(compute, memory) + 0.2 * std::min(compute, memory);
}

void AmxPricing::append(const Shape& p, const CompileConfig& config, std::vector<RankedPlan>* out) const {
  const double row_tiles = std::ceil(double(rows_) / double(p.rows));
  const double column_tiles = std::ceil(double(columns_) / double(p.columns));
  const double tasks = row_tiles * column_tiles, bandwidth = rates_.bandwidth(tasks);
  const auto seconds = [&](double rows, double columns) {
    return tile_seconds(p, rows, columns, double(s_.k), bandwidth) +
           rows * columns * 2 * s_.output_bytes / bandwidth;
  };
  const double predicted = rates_.schedule_seconds(
      tasks, seconds(double(rows_) / row_tiles, double(columns_) / column_tiles),
      seconds(double(std::min(p.rows, rows_)), double(std::min(p.columns, columns_))),
      whole_tiles(double(rows_), double(p.rows)) * whole_tiles(double(columns_), double(p.columns)));
  if (!context_.wants(predicted)) return;
  RankedPlan r;
  r.plan.config = config;
  r.plan.predicted_seconds = predicted;
  r.plan.numeric_recipe =
      rates_.k_per_lane == 4
          ? kExactRecipe
          : absl::StrCat(rates_.rounds_a ? "A rounded to bf16, " : "",
                         "tiles of 16 bf16 pairs to f32; K ascending in blocks of ",
                         p.depth * rates_.k_per_lane, ", summed in order; ", merge_recipe(1));
  out->push_back(std::move(r));
}

template <typename Config>
void AmxPricing::append_tiles(const RegisterTile& t, bool copies, Config config,
                              std::vector<RankedPlan>* out) const {
  const int64_t words = round_up(ceil_div(s_.k, int64_t{rates_.k_per_lane}), kSide);
  Shape p{t, copies, 0, 0, 0};
  int64_t last_depth = 0;
  for (int64_t depth : kDepths) {
    p.depth = std::min(depth, words);
    if (p.depth == std::exchange(last_depth, p.depth)) continue;
    int64_t last_rows = 0;
    for (int64_t rows : kTileRows) {
      p.rows = std::min(round_up(rows, t.rows * kSide), round_up(rows_, t.rows * kSide));
      if (p.rows == std::exchange(last_rows, p.rows)) continue;
      int64_t last_columns = 0;
      for (int64_t columns : kTileColumns) {
        p.columns = std::min(round_up(columns, t.columns * kSide), round_up(columns_, t.columns * kSide));
        if (p.columns == std::exchange(last_columns, p.columns)) continue;
        config.tile_m = transposed_ ? p.columns : p.rows;
        config.tile_n = transposed_ ? p.rows : p.columns;
        config.tile_k = p.depth * rates_.k_per_lane;
        const double panels = double(p.columns) * double(p.depth) * 4;
        if (form_ != Form::kPacked && panels > 0.75 * rates_.l2_bytes) {
          reject(context_, config, out, "packed panels take ", int64_t(panels), " bytes, at most ",
                 int64_t(0.75 * rates_.l2_bytes), " bytes of L2 are used");
          continue;
        }
        constexpr int64_t kMostSums = 8 << 20;  // bytes of scratch memory per worker
        if (p.rows * p.columns * 4 > kMostSums) {
          reject(context_, config, out, "accumulators of a task take ", p.rows * p.columns * 4,
                 " bytes, more than the limit of ", kMostSums);
          continue;
        }
        const bool one_pass = p.columns <= int64_t{t.columns} * kSide;
        // A single pass would read the copy only once.
        if (copies && one_pass && rows_stored_ && s_.k % (kSide * rates_.k_per_lane) == 0) {
          reject(context_, config, out, "a single pass reads each row once, so a copy gains nothing");
          continue;
        }
        config.copy_rows = copies;
        config.prefetch = static_cast<int64_t>(!copies && one_pass ? CpuFetch::kNone : CpuFetch::kNext);
        if constexpr (std::is_same_v<Config, AmxTConfig>)
          config.piece = finished_piece(p.rows, t.rows * kSide, rates_.lanes);
        append(p, config, out);
      }
    }
  }
}

}  // namespace

void enumerate_matmul_amx(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const auto refusal = [&]() -> std::string {
    const bool bytes = c.a == DType::kI8;
    if (!context.facts.target.has(bytes ? "amx-int8" : "amx-bf16"))
      return bytes ? "target has no amx-int8" : "target has no amx-bf16";
    if (!bytes && (elements_a_lane(context) != 2 || c.b != DType::kBF16))
      return "supports i8, and bf16 pairs with B in bf16";
    if (!bytes && c.determinism == Determinism::kBatchInvariant)
      return "batch_invariant needs the numeric recipe of 'panel' for every M";
    if (c.m_hi == 1) return "with one row of A memory limits the speed, so AMX gains nothing";
    if (c.zero_a != 0) return "does not support a zero point of A";
    if (is_f8(c.a)) return operands_refusal(c);
    return forced_split_refusal(context);
  };
  const auto refuse = [&](KernelKind kernel, const std::string& why) { reject(context, kernel, out, why); };
  const std::string why = !refusal().empty()    ? refusal()
                          : context.split_k > 1 ? absl::StrCat("does not support split_k ", context.split_k)
                          : c.packed_b == kNotPacked ? ""
                                                     : "does not support packed B";
  if (!why.empty()) {
    refuse(KernelKind::kAmx, why), refuse(KernelKind::kAmxT, why);
  } else {
    AmxPricing(context, Form::kRowsOfA).enumerate<AmxConfig>(KernelKind::kAmx, out);
    AmxPricing(context, Form::kTransposed).enumerate<AmxTConfig>(KernelKind::kAmxT, out);
  }
  const int64_t width = kSide * elements_a_lane(context);
  if (!refusal().empty())
    refuse(KernelKind::kAmxPacked, refusal());
  else if (context.split_k > 1)
    refuse(KernelKind::kAmxPacked, absl::StrCat("does not support split_k ", context.split_k));
  else if (c.packed_b != kColumns16)
    refuse(KernelKind::kAmxPacked, "needs packed B");
  else if (c.k % width != 0)
    refuse(KernelKind::kAmxPacked, absl::StrCat("K ", c.k, " is not a multiple of ", width));
  else
    AmxPricing(context, Form::kPacked).enumerate<AmxConfig>(KernelKind::kAmxPacked, out);
}

}  // namespace lathe
