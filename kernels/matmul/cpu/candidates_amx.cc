// Candidates of CPU matmul with AMX tiles, of pairs of bf16 and of bytes. "amx_t": the transposed product,
// whose rows are B's columns, loaded along K; "amx": the same with A's rows; "amx_packed": A's rows by
// panels of B packed in advance.
#include "absl/strings/str_cat.h"
#include "kernels/matmul/cpu/cost_model.h"
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

// AMX has fixed coefficients, because no fit has timings of it. `unpaced` stands for the bytes of D, which nothing hides.
CpuCosts amx_costs() {
  CpuCosts costs;
  costs.issue = costs.memory = costs.unpaced = 1;
  costs.overlap = 0.2;
  return costs;
}

class Amx {
 public:
  Amx(const CandidateContext& context, KernelKind kernel)
      : p_(context, amx_costs()),
        rates_(p_.rates),
        s_(p_.s),
        kernel_(kernel),
        transposed_(kernel == KernelKind::kAmxT),
        rows_(transposed_ ? s_.n : s_.m),
        columns_(transposed_ ? s_.m : s_.n) {
    const ProblemClass& c = context.problem;
    rows_turn_ = transposed_ ? c.trans_b == 0 : c.trans_a != 0;
    columns_turn_ = transposed_ ? c.trans_a == 0 : c.trans_b != 0;
    rows_stored_ = !rows_turn_ && (transposed_ || (!rates_.rounds_a && c.rows == Rows::kPlain));
  }

  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : kTiles)
      for (bool copies : {false, true})
        if (const std::string why = refusal(t, copies); why.empty())
          append_tiles(t, copies, out);
        else
          reject(p_.context, config_of({t, copies}), out, why);
  }

 private:
  struct Shape {
    RegisterTile tile;
    bool copies;
    int64_t rows = 0, columns = 0, depth = 0;  // of a task; the depth in words
  };
  double row_bytes() const { return transposed_ ? s_.b_bytes : s_.input_bytes; }
  double column_bytes() const { return transposed_ ? s_.input_bytes : s_.b_bytes; }
  int64_t row_pitch_bytes() const { return s_.k * static_cast<int64_t>(row_bytes()); }
  bool fills_words() const { return s_.k % (kSide * rates_.k_per_lane) == 0; }
  bool is_one_pass(const Shape& p) const { return p.columns <= p.tile.columns * kSide; }
  std::string refusal(const RegisterTile& t, bool copies) const;
  std::string refusal(const Shape& p) const;
  void append_tiles(const RegisterTile& t, bool copies, std::vector<RankedPlan>* out) const;
  CompileConfig config_of(const Shape& p) const;
  TaskWork work_of(const Shape& p, double rows, double columns, double k) const;
  std::string recipe(const Shape& p) const;

  const CpuPricing p_;
  const CpuRates& rates_;
  const MatmulSizes& s_;
  const KernelKind kernel_;
  const bool transposed_;
  const int64_t rows_, columns_;
  bool rows_turn_, columns_turn_, rows_stored_;
};

std::string Amx::refusal(const RegisterTile& t, bool copies) const {
  if (!copies && !rows_stored_)
    return "reading rows in place needs them K-contiguous, at one distance and in the dtype that is "
           "multiplied";
  if (!copies && !fills_words())
    return absl::StrCat("reading rows in place needs K to be a multiple of ", kSide * rates_.k_per_lane,
                        ", not ", s_.k);
  const int64_t width = t.columns * kSide, height = t.rows * kSide;
  if (width >= round_up(columns_, kSide) + kSide)
    return absl::StrCat("register tile has too many ", transposed_ ? "rows: " : "columns: ", width, " for ",
                        transposed_ ? "M " : "N ", columns_);
  if (height >= round_up(rows_, kSide) + kSide)
    return absl::StrCat("register tile has too many ", transposed_ ? "columns: " : "rows: ", height, " for ",
                        transposed_ ? "N " : "M ", rows_);
  return "";
}

std::string Amx::refusal(const Shape& p) const {
  const double panels = double(p.columns) * double(p.depth) * 4, limit = 0.75 * rates_.l2_bytes;
  if (kernel_ != KernelKind::kAmxPacked && panels > limit)
    return absl::StrCat("packed panels take ", int64_t(panels), " bytes, at most ", int64_t(limit),
                        " bytes of L2 are used");
  constexpr int64_t kMostSums = 8 << 20;  // bytes of scratch memory per worker
  if (p.rows * p.columns * 4 > kMostSums)
    return absl::StrCat("accumulators of a task take ", p.rows * p.columns * 4,
                        " bytes, more than the limit of ", kMostSums);
  if (p.copies && is_one_pass(p) && rows_stored_ && fills_words())
    return "a single pass reads each row once, so a copy gains nothing";
  return "";
}

CompileConfig Amx::config_of(const Shape& p) const {
  CpuFields f;
  f.lanes = rates_.lanes;
  f.tile_m = p.rows, f.tile_n = p.columns, f.tile_k = p.depth * rates_.k_per_lane;
  f.register_m = p.tile.rows * kSide, f.register_n = p.tile.columns * kSide;
  if (transposed_) f.transpose();
  if (p.depth > 0) {
    f.copy_rows = p.copies;
    f.prefetch = static_cast<int64_t>(!p.copies && is_one_pass(p) ? CpuFetch::kNone : CpuFetch::kNext);
    f.piece = finished_piece(p.rows, p.tile.rows * kSide, rates_.lanes);
  }
  if (transposed_) return f.as<AmxTConfig>(kernel_);
  return f.as<AmxConfig>(kernel_);
}

TaskWork Amx::work_of(const Shape& p, double rows, double columns, double k) const {
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
  const double packing =
      kernel_ == KernelKind::kAmxPacked ? 0 : columns * words * (columns_turn_ ? kTurn : kAcross);
  const double copying = p.copies ? rows * words * (rows_turn_ ? kTurn : kCopy) : 0;
  // Without prefetching, the end of each run along K waits.
  constexpr double kUnfetched = 700, kFetched = 100;
  const double run = depth * rates_.k_per_lane * row_bytes();
  const double row_reading =
      rows * k * row_bytes() * (1 + (p.copies || turns > 1 ? kFetched : kUnfetched) / run);
  TaskWork w;
  w.issue = multiply + packing + copying + (transposed_ ? rows * columns * kFinish : 0);
  w.memory = std::max(row_reading, columns * k * column_bytes());
  w.unpaced = rows * columns * 2 * s_.output_bytes;
  return w;
}

std::string Amx::recipe(const Shape& p) const {
  if (rates_.k_per_lane == 4) return kExactRecipe;
  return absl::StrCat(rates_.rounds_a ? "A rounded to bf16, " : "",
                      "tiles of 16 bf16 pairs to f32; K ascending in blocks of ", p.depth * rates_.k_per_lane,
                      ", summed in order; ", merge_recipe(1));
}

void Amx::append_tiles(const RegisterTile& t, bool copies, std::vector<RankedPlan>* out) const {
  const int64_t words = round_up(ceil_div(s_.k, int64_t{rates_.k_per_lane}), kSide);
  for (const int64_t depth : task_sizes(kDepths, words, 1))
    for (const int64_t rows : task_sizes(kTileRows, rows_, t.rows * kSide))
      for (const int64_t columns : task_sizes(kTileColumns, columns_, t.columns * kSide)) {
        const Shape p{t, copies, rows, columns, depth};
        const CompileConfig config = config_of(p);
        if (const std::string why = refusal(p); !why.empty()) {
          reject(p_.context, config, out, why);
          continue;
        }
        Tasks tasks;
        tasks.m = transposed_ ? columns : rows, tasks.n = transposed_ ? rows : columns;
        tasks.can_split = false;
        tasks.entry_seconds = kTaskSeconds;
        append_tasks(
            p_, tasks,
            [&](double m, double n, double k) {
              return transposed_ ? work_of(p, n, m, k) : work_of(p, m, n, k);
            },
            [&](bool) { return config; }, [&](int32_t) { return recipe(p); }, out);
      }
}

// Why the kernel may not serve the class, "" if it may.
std::string refusal_of(const CandidateContext& context, KernelKind kernel) {
  const ProblemClass& c = context.problem;
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
  if (std::string why = forced_split_refusal(context); !why.empty()) return why;
  if (context.split_k > 1) return absl::StrCat("does not support split_k ", context.split_k);
  if (kernel != KernelKind::kAmxPacked) return c.packed_b == kNotPacked ? "" : "does not support packed B";
  if (c.packed_b != kColumns16) return "needs packed B";
  const int64_t width = kSide * elements_a_lane(context);
  return c.k % width == 0 ? "" : absl::StrCat("K ", c.k, " is not a multiple of ", width);
}

}  // namespace

void enumerate_matmul_amx(const CandidateContext& context, std::vector<RankedPlan>* out) {
  for (KernelKind kernel : {KernelKind::kAmx, KernelKind::kAmxT, KernelKind::kAmxPacked})
    if (const std::string why = refusal_of(context, kernel); why.empty())
      Amx(context, kernel).enumerate(out);
    else
      reject(context, kernel, out, why);
}

}  // namespace lathe
