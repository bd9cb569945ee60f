// Candidates of the blocked loop nest: "panel", "panel_t", "packed", "direct", "direct_a" and "direct_packed". One
// operand gives the vectors of the micro-kernel (columns), the other one its scalars (rows). README.md has the
// choices of each kernel.
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/cost_model.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe {
namespace {

// Rows by vectors of columns in registers.
struct RegisterTile {
  int32_t rows, vectors;
};
// 14x2 needs the fewest loads per FMA with 32 registers; the others pad the M of a bucket less. From 6x2 on they fit
// 16 registers.
constexpr RegisterTile kPanelTiles[] = {
    {14, 2}, {13, 2}, {12, 2}, {11, 2}, {10, 2}, {9, 3}, {8, 3}, {7, 3}, {7, 4}, {6, 4}, {4, 6},  {2, 8},
    {28, 1}, {24, 1}, {20, 1}, {6, 2},  {5, 2},  {4, 3}, {4, 2}, {3, 3}, {2, 4}, {1, 4}, {14, 1}, {12, 1}};
// Every number of rows that one pass can take, then those that divide a larger M with little waste. More than 4
// vectors are more streams than the hardware prefetches, more than 16 rows too many streams of A.
constexpr RegisterTile kPackedTiles[] = {
    {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}, {6, 4},  {1, 2},  {2, 2},  {3, 2},  {4, 2},  {5, 2},  {6, 2},
    {7, 2}, {8, 2}, {8, 3}, {9, 2}, {9, 3}, {10, 2}, {11, 2}, {12, 2}, {13, 2}, {14, 2}, {15, 1}, {16, 1}};
constexpr RegisterTile kDirectTiles[] = {{4, 1}, {4, 2}, {4, 3}, {4, 4}, {6, 1}, {6, 2}, {6, 3},
                                         {6, 4}, {5, 4}, {7, 1}, {7, 2}, {8, 2}, {8, 1}};
// Depths of K blocks in words, multiples of every number of lanes; rows and columns of a task.
constexpr int64_t kPanelDepths[] = {256, 384, 512}, kPackedDepths[] = {256, 384, 512, 1024},
                  kDirectDepths[] = {256, 512, 1024, 2048, 4096};
constexpr int64_t kPanelRows[] = {64, 128, 256, 512}, kPackedRows[] = {64, 128, 256, 512, 1024},
                  kDirectRows[] = {256, 512, 1024, 2048};
constexpr int64_t kPanelColumns[] = {64, 128, 256, 512, 1024}, kPackedColumnTiles[] = {128, 256, 512, 1024};
constexpr int64_t kUkernelColumns[] = {32, 64, 128, 256, 512, 1024};
// Each pass over rows in place takes this many packed columns, which memory keeps up with. If the columns are packed
// in runs, a core that prefetches into L1, or whose passes share the prefetch, streams the rows well enough for more.
constexpr int64_t kDirectColumns = 64, kDirectRunColumns = 256;
// batch_invariant: one K order for every M and kernel, that of the smallest panels.
constexpr int64_t kInvariantDepth = 256;
// The shares of L2 for the packed columns of a task: beside a packed panel of rows, and beside rows in place.
constexpr double kPanelShare = 0.75, kDirectShare = 0.5;
// With fewer accumulators two FMA units wait for each other; such tiles serve few registers or few rows.
constexpr int64_t kFewSums = 12;
// With more columns "panel" reads its copy of A often enough to be faster than rows in place.
constexpr int64_t kDirectAMaxN = 128;
// Up to this M "packed" is faster than "direct_packed", because it reads the packed panels as they are.
constexpr int64_t kMostAsPacked = 128;
constexpr double kPairLatency = 6;  // latency of vdpbf16ps (uops.info)
// With more vectors of columns a narrow last pass is a small part of the product, and has no price of its own.
constexpr int64_t kMostNarrowVectors = 4;

// What distinguishes the kernels.
struct Form {
  KernelKind kernel;
  bool transposed;    // rows are B's columns, columns are A's rows
  bool in_place;      // rows are read where they are
  bool packed_ahead;  // columns were packed by lathe_pack_weights
  absl::Span<const RegisterTile> tiles;
  absl::Span<const int64_t> depths, rows, columns;
};
constexpr Form kForms[] = {
    {KernelKind::kPanel, false, false, false, kPanelTiles, kPanelDepths, kPanelRows, kPanelColumns},
    {KernelKind::kPanelT, true, false, false, kPanelTiles, kPanelDepths, kPanelRows, kPanelColumns},
    {KernelKind::kUkernel, false, false, false, kPanelTiles, kPanelDepths, kPanelRows, kUkernelColumns},
    {KernelKind::kPacked, false, false, true, kPackedTiles, kPackedDepths, kPackedRows, kPackedColumnTiles},
    {KernelKind::kDirect, true, true, false, kDirectTiles, kDirectDepths, kDirectRows, {}},
    {KernelKind::kDirectA, false, true, false, kDirectTiles, kDirectDepths, kDirectRows, {}},
    {KernelKind::kDirectPacked, false, true, true, kDirectTiles, kDirectDepths, kDirectRows, {}},
};
const Form& form_of(KernelKind kernel) {
  for (const Form& f : kForms)
    if (f.kernel == kernel) return f;
  return kForms[0];
}

// Whether B's columns are packed in runs (kDirectRunColumns).
bool packs_runs(const ProblemClass& c, const CpuRates& rates) {
  return (c.trans_b == 0 || c.packed_b != 0) && c.a == DType::kF32 &&
         (rates.prefetches_into_l1 || rates.loses_by_fetching());
}

class Blocked {
 public:
  Blocked(const CandidateContext& context, const Form& form)
      : p_(context),
        form_(form),
        rates_(p_.rates),
        s_(p_.s),
        problem_(context.problem),
        rows_(form.transposed ? s_.n : s_.m),
        columns_(form.transposed ? s_.m : s_.n),
        row_bytes_(form.transposed ? s_.b_bytes : s_.input_bytes),
        column_bytes_(form.transposed ? s_.input_bytes : s_.b_bytes),
        turns_rows_(form.transposed ? problem_.trans_b == 0 : problem_.trans_a != 0),
        turns_columns_(form.transposed ? problem_.trans_a == 0 : problem_.trans_b != 0),
        exact_(problem_.a == DType::kI8),
        invariant_(s_.batch_invariant && !exact_) {}

  // Every register tile, depth and task tile of the form.
  void enumerate(std::vector<RankedPlan>* out) const {
    for (const RegisterTile& t : form_.tiles) {
      const std::string why = refusal(t);
      if (why.empty())
        append_depths(t, out);
      else
        reject(p_.context, config_of({t}, false), out, why);
    }
  }
  // A micro-kernel in C with panels as deep as K. It has the instructions of "panel", but sums stay in registers over
  // all of K, and panels of A are not copied beside the FMAs.
  void append_ukernel(const CompileConfig& ukernel, std::vector<RankedPlan>* out) const {
    const auto& config = ukernel.as<PanelUkernelConfig>();
    constexpr int64_t kTooDeep = 1 << 30;  // deeper than any L2 allows
    Shape shape{
        {static_cast<int32_t>(config.register_m), static_cast<int32_t>(config.register_n / rates_.lanes)}};
    if (const std::string why = refusal(shape.tile); !why.empty())
      return reject(p_.context, ukernel, out, why);
    shape.depth = std::min(round_up(s_.k, int64_t{rates_.lanes} * rates_.k_per_lane), kTooDeep);
    const size_t first = out->size();
    append_tiles(shape, out);
    for (size_t i = first; i < out->size(); ++i) (*out)[i].plan.config.ukernel = ukernel.ukernel;
  }

 private:
  struct Shape {
    RegisterTile tile;
    int64_t rows = 0, columns = 0, depth = 0;  // of a task; the depth in elements
  };

  std::string refusal(const RegisterTile& t) const;
  void append_depths(const RegisterTile& t, std::vector<RankedPlan>* out) const;
  void append_tiles(Shape shape, std::vector<RankedPlan>* out) const;
  CompileConfig config_of(const Shape& shape, bool is_split) const;
  TaskWork work_of(const Shape& shape, double rows, double columns, double k) const;
  double sums_a_cycle(double sums, int64_t chains) const;
  bool prices_narrow_pass(const Shape& shape) const;
  double narrow_wait(const Shape& shape) const;
  void count_packing(double rows, double columns, double k, TaskWork* w) const;
  void count_reading(const Shape& shape, double rows, double columns, double k, TaskWork* w) const;
  std::string recipe(const Shape& shape, int32_t splits) const;

  bool is_ukernel() const { return form_.kernel == KernelKind::kUkernel; }
  int64_t width(const RegisterTile& t) const { return int64_t{t.vectors} * rates_.lanes; }
  int64_t chains(const RegisterTile& t) const {
    return form_.in_place ? direct_chains(int64_t{t.rows} * t.vectors) : 1;
  }
  double packed_bytes(const Shape& shape) const {  // in L2 while rows pass by
    const double lines = double(shape.columns) + (form_.in_place ? 0 : shape.tile.rows);
    return lines * double(shape.depth) * 4 / rates_.k_per_lane;
  }
  bool has_narrow_passes_of(const Shape& shape) const {
    return form_.kernel == KernelKind::kPanelT
               ? has_narrow_passes(shape.tile.vectors, CpuFetch::kNoChoice)
               : form_.in_place && has_narrow_passes(shape.tile.vectors, fetch_of(shape));
  }
  // Whether the passes over a K block of panels prefetch the columns of the next one, which L2 holds beside it.
  bool fetches_block(const Shape& shape) const {
    constexpr double kHeld = 0.8;
    const double bytes =
        double(shape.columns) * double(shape.depth) * (4.0 / rates_.k_per_lane + column_bytes_);
    return !turns_columns_ && !is_ukernel() && shape.depth < s_.k && bytes <= kHeld * rates_.l2_bytes;
  }
  // What is prefetched of rows in place. Where prefetches compete with reads, only if several passes share them or
  // the rows do not share sets of L1.
  CpuFetch fetch_of(const Shape& shape) const {
    if (!rates_.loses_by_fetching()) return CpuFetch::kNext;
    if (shape.columns > width(shape.tile)) {
      const bool packs_across = !form_.transposed && !form_.packed_ahead && !turns_columns_;
      return packs_across && shape.depth < s_.k ? CpuFetch::kBoth : CpuFetch::kSpread;
    }
    return static_cast<int64_t>(double(s_.k) * row_bytes_) % (2 * kWayBytes) == 0 ? CpuFetch::kNone
                                                                                  : CpuFetch::kNext;
  }
  // Whether the loop over K copies the next panel of rows.
  bool copies_ahead(const Shape& shape) const {
    if (is_ukernel() || form_.in_place || turns_rows_) return false;
    if (form_.packed_ahead && packed_word(problem_.b) > rates_.k_per_lane) return false;
    const DType rows = form_.transposed ? problem_.b : problem_.a;
    return PanelRows{shape.rows, shape.tile.rows, static_cast<int64_t>(size_of(rows)) * 8, rates_.k_per_lane,
                     rates_.lanes}
        .copy_ahead(shape.depth, s_.k);
  }
  // Whether sums go from registers to D, without scratch memory.
  bool stores_directly(const Shape& shape, bool is_split) const {
    if (form_.transposed || is_ukernel() || form_.packed_ahead || shape.depth < s_.k) return false;
    return (form_.in_place || problem_.zero_b == Scale::kNone) && (is_split || has_short_epilogue(problem_));
  }
  // PackedConfig::pace, in half links of the dependency chain. Only one pass of one or two rows gains: more rows do
  // not wait for memory alone, and a core that prefetches into L1 needs none.
  int64_t pace_of(const RegisterTile& t) const {
    if (rates_.pace_bytes_per_second == 0 || rates_.prefetches_into_l1 || t.rows > 2 || s_.m > t.rows)
      return 0;
    const auto deep = std::max<int64_t>(rates_.k_per_lane, packed_word(problem_.b));
    const double bytes = double(width(t)) * double(deep) * s_.b_bytes;
    const double cycles = std::min<double>(kMostPace, bytes * rates_.clock_hz / rates_.pace_bytes_per_second);
    return std::lround(cycles / kPaceHalfLinkCycles) * kPaceHalfLinkCycles;
  }

  const CpuPricing p_;
  const Form& form_;
  const CpuRates& rates_;
  const MatmulSizes& s_;
  const ProblemClass& problem_;
  const int64_t rows_, columns_;           // extents of the problem
  const double row_bytes_, column_bytes_;  // of an element in memory
  const bool turns_rows_,
      turns_columns_;             // rows are packed along K, columns across it; others are transposed
  const bool exact_, invariant_;  // sums of i8 do not depend on the order
};

std::string Blocked::refusal(const RegisterTile& t) const {
  const int64_t sums = int64_t{t.rows} * t.vectors, need = sums * chains(t) + t.vectors + 1;
  const char* const of_rows = form_.transposed ? "columns: " : "rows: ";
  const char* const of_columns = form_.transposed ? "rows: " : "columns: ";
  const char* const rows_name = form_.transposed ? " for N " : " for M ";
  const char* const columns_name = form_.transposed ? " for M " : " for N ";
  if (need > rates_.registers)
    return absl::StrCat("tile needs ", need, " registers, the target has ", rates_.registers);
  if (problem_.packed_b != kNotPacked && width(t) % kPackedColumns != 0)
    return absl::StrCat("register_n ", width(t), " is not a multiple of ", kPackedColumns,
                        ", the columns of a packed panel");
  if (!form_.in_place && t.rows > rows_)
    return absl::StrCat("register tile has too many ", of_rows, t.rows, rows_name, rows_);
  if (form_.in_place) {
    if (t.rows == 8 && t.vectors == 1 && !rates_.prefetches_into_l1)
      return "a tile of 8 unpacked rows by one vector gains only on cores that read memory fast";
    if (invariant_ && chains(t) > 1) return "batch_invariant: sums even and odd K separately, unlike 'panel'";
    if (t.vectors > 1 && width(t) >= round_up(columns_, rates_.lanes) + rates_.lanes)
      return absl::StrCat("register tile has too many ", of_columns, width(t), columns_name, columns_);
  } else if (!form_.packed_ahead && !is_ukernel()) {
    if (sums < kFewSums && rates_.registers >= 32 && rows_ > kFewSums)
      return absl::StrCat("register tile has ", sums, " accumulators, fewer than ", kFewSums,
                          ": other tiles use more of the registers");
    if (t.vectors > 1 && rows_ > kFewSums &&
        round_up(columns_, width(t)) >= 2 * round_up(columns_, rates_.lanes))
      return absl::StrCat("at least half of the register tile would be padding: ", width(t),
                          form_.transposed ? " rows for M " : " columns for N ", columns_);
  }
  return "";
}

CompileConfig Blocked::config_of(const Shape& shape, bool is_split) const {
  const RegisterTile& t = shape.tile;
  CpuFields f;
  f.lanes = rates_.lanes;
  f.tile_m = shape.rows, f.tile_n = shape.columns, f.tile_k = shape.depth;
  f.register_m = t.rows, f.register_n = width(t);
  if (form_.transposed) f.transpose();
  f.split = is_split;
  f.copy_ahead = !is_split && copies_ahead(shape);
  f.store_directly = stores_directly(shape, is_split);
  if (form_.in_place)
    f.prefetch = static_cast<int64_t>(fetch_of(shape));
  else if (fetches_block(shape))
    f.prefetch = static_cast<int64_t>(CpuFetch::kSpread);
  if (form_.packed_ahead) f.pace = pace_of(t);
  f.prefetch_lines = form_.packed_ahead ? packed_prefetch_lines(t.rows, f.pace) : kPanelLines;
  f.chains = chains(t);
  f.unroll_k = direct_unroll(int64_t{t.rows} * t.vectors);
  f.piece = finished_piece(shape.rows, t.rows, rates_.lanes);
  if (has_narrow_passes_of(shape))
    f.narrow_passes = least_narrow_pass(shape.columns, width(t),
                                        form_.transposed ? least_rows(problem_, f.tile_m) : 1, rates_.lanes);
  switch (form_.kernel) {
    case KernelKind::kPanelT: return f.as<PanelTConfig>(form_.kernel);
    case KernelKind::kPacked: return f.as<PackedConfig>(form_.kernel);
    case KernelKind::kDirect: return f.as<DirectConfig>(form_.kernel);
    case KernelKind::kDirectA: return f.as<DirectAConfig>(form_.kernel);
    case KernelKind::kDirectPacked: return f.as<DirectPackedConfig>(form_.kernel);
    case KernelKind::kUkernel: return f.as<PanelUkernelConfig>(form_.kernel);
    default: return f.as<PanelConfig>(form_.kernel);
  }
}

void Blocked::count_packing(double rows, double columns, double k, TaskWork* w) const {
  // Words of bytes or pairs from lines across K are interleaved, which takes about as long as transposing them.
  const double words = k / rates_.k_per_lane;
  const auto pack = [&](double lines, bool turns, bool across) {
    const double vectors = lines * words / rates_.lanes;
    (turns || (across && rates_.k_per_lane > 1) ? w->turns : w->copies) += vectors;
    return vectors;
  };
  if (!form_.packed_ahead || form_.in_place) {
    const double lines = double(round_up(static_cast<int64_t>(columns), rates_.lanes));
    const double vectors = pack(lines, turns_columns_ && !form_.packed_ahead, !turns_columns_);
    const bool converts = form_.transposed ? rates_.converts_a : rates_.converts_b;
    if (converts) w->conversions += vectors * kConvertCycles;
    w->issue += vectors * s_.decode_cycles;
  }
  if (!form_.in_place) {
    const double vectors = pack(rows, turns_rows_, turns_rows_);
    if (form_.transposed ? rates_.converts_b : rates_.converts_a) w->conversions += vectors * kConvertCycles;
  }
  if (form_.transposed) w->turns += rows * columns / rates_.lanes;
  // A zero point needs the sum of every line in place.
  constexpr double kSumCycles = 3.2;  // per cache line
  if (form_.in_place && problem_.zero_a != 0) w->issue += rows * k / 64 * kSumCycles;
}

void Blocked::count_reading(const Shape& shape, double rows, double columns, double k, TaskWork* w) const {
  const double blocks = std::ceil(k / double(shape.depth)),
               tasks_of_columns = std::ceil(double(columns_) / columns),
               tasks_of_rows = std::ceil(double(rows_) / rows);
  const double row_memory = lathe::count_reading(
      p_,
      {rows * k * row_bytes_, double(rows_) * double(s_.k) * row_bytes_, tasks_of_columns, !form_.transposed},
      w);
  const double column_memory =
      lathe::count_reading(p_,
                           {columns * k * column_bytes_, double(columns_) * double(s_.k) * column_bytes_,
                            tasks_of_rows, form_.transposed},
                           w);
  // Where each run ends, what the hardware prefetched beyond it is lost, and another page begins.
  const auto along_k = [&](double memory, double lines) { return memory > 0 ? lines * blocks : 0; };
  const auto across_k = [&](double memory, double bytes) {
    return memory > 0 ? k * std::min(1.0, bytes / kPageBytes) : 0;
  };
  // Prefetching covers what the loops read while they multiply.
  const CpuFetch fetch = fetch_of(shape);
  const bool fetched = form_.in_place ? fetch != CpuFetch::kNone : copies_ahead(shape);
  const bool in_blocks = form_.in_place ? fetches_next(fetch) : fetches_block(shape);
  (fetched ? w->jumps : w->runs) +=
      turns_rows_ ? across_k(row_memory, double(rows_) * row_bytes_) : along_k(row_memory, rows);
  // A panel that was packed ahead has all of K.
  if (form_.packed_ahead)
    w->runs += blocks > 1 && column_memory > 0 ? columns / kPackedColumns * blocks : 0;
  else
    (in_blocks ? w->jumps : w->runs) += turns_columns_
                                            ? along_k(column_memory, columns)
                                            : across_k(column_memory, double(columns_) * column_bytes_);
  if (form_.in_place) w->narrow += row_memory / shape.tile.rows;
  if (form_.packed_ahead && !form_.in_place) w->narrow += column_memory / shape.tile.vectors;
  // Loops that read memory while they multiply run at its rate only with a pace, if one is known.
  if (rates_.pace_bytes_per_second > 0) {
    if (form_.in_place) w->unpaced += row_memory;
    if (form_.packed_ahead && !form_.in_place && pace_of(shape.tile) == 0) w->unpaced += column_memory;
  }
  if (!fetched) w->unfetched += row_memory;
  if (form_.packed_ahead && !form_.in_place) {
    if (packed_prefetch_lines(shape.tile.rows, pace_of(shape.tile)) == 0) w->unfetched += column_memory;
  } else {
    w->unfetched += column_memory * (in_blocks ? std::min(1.0, double(shape.depth) / k) : 1);
  }
}

// The FMAs that the loop over K starts in a cycle. With too few sums they wait for each other.
double Blocked::sums_a_cycle(double sums, int64_t chains) const {
  const double latency = rates_.k_per_lane == 2 ? kPairLatency : kFmaLatency;
  return std::min(rates_.fma_units, sums * double(chains) / (latency + 1));
}

// Other kernels and dtypes keep their prices: they were not measured with narrow passes.
bool Blocked::prices_narrow_pass(const Shape& shape) const {
  return form_.kernel == KernelKind::kDirect && rates_.k_per_lane == 2 && has_narrow_passes_of(shape) &&
         ceil_div(problem_.m_hi, int64_t{rates_.lanes}) <= kMostNarrowVectors;
}

// Cycles per step along K that a narrow last pass waits beyond its share of a whole pass: the mean over the vectors that
// the columns can have. Only M varies within a bucket.
double Blocked::narrow_wait(const Shape& shape) const {
  const RegisterTile& t = shape.tile;
  if (!prices_narrow_pass(shape)) return 0;
  const int64_t lanes = rates_.lanes, chains = this->chains(t), most = ceil_div(problem_.m_hi, lanes);
  const int64_t least = ceil_div(problem_.m_lo, lanes);
  const double whole = sums_a_cycle(double(t.rows) * t.vectors, chains);
  double waits = 0;
  for (int64_t vectors = least; vectors <= most; ++vectors) {
    const double sums = double(t.rows) * double(vectors % t.vectors);
    if (sums > 0) waits += sums / sums_a_cycle(sums, chains) - sums / whole;
  }
  return waits * rates_.product_instructions / double(most - least + 1);
}

TaskWork Blocked::work_of(const Shape& shape, double rows, double columns, double k) const {
  const RegisterTile& t = shape.tile;
  const bool as_packed =
      form_.packed_ahead && !form_.in_place;  // the loop reads what lathe_pack_weights stored
  TaskWork w;
  // Passes over rows, and vectors of columns in all passes over them. Only M varies within a bucket.
  const int64_t grain = has_narrow_passes_of(shape) ? rates_.lanes : width(t);
  const double row_passes =
      form_.transposed ? std::ceil(rows / t.rows) : padded_rows(problem_, rows, t.rows) / t.rows;
  const double lines = form_.transposed ? padded_rows(problem_, columns, grain)
                                        : double(round_up(static_cast<int64_t>(std::ceil(columns)), grain));
  // A narrow pass is part of a pass, even if it is the only one.
  const double column_passes = std::max(prices_narrow_pass(shape) ? 0.0 : 1.0, lines / double(width(t)));
  const double blocks = std::ceil(k / double(shape.depth)), words = k / rates_.k_per_lane;
  const double steps = row_passes * column_passes * words;

  const double sums = double(t.rows) * t.vectors;
  const double rate = sums_a_cycle(sums, chains(t));
  // VNNI multiplies unsigned by signed bytes, so bytes in place are shifted when they are read.
  const bool shifts = form_.in_place && exact_ && p_.context.facts.target.has("avx512vnni");
  const double arithmetic = sums * rates_.product_instructions / rate;
  const double loads = (t.rows + t.vectors) / rates_.loads_per_cycle;
  w.issue = steps * std::max(arithmetic, loads);
  w.issue += row_passes * words * narrow_wait(shape) * columns / double(columns_);
  w.loads = steps * std::min(arithmetic, loads);
  w.conversions = steps * kConvertCycles * (as_packed && rates_.converts_b ? t.vectors : shifts ? t.rows : 0);
  w.starts = row_passes * column_passes * blocks;
  w.sums = (blocks > 1                      ? 2 * blocks
            : stores_directly(shape, false) ? 0
                                            : 1) *
           row_passes * lines * t.rows * 4;

  // The columns of a K block stay in L2 unless L1 holds them; a panel of rows stays in L1 if it fits.
  constexpr double kShareOfL1 = 0.6, kShareOfL2 = 0.75;
  const double word = as_packed ? column_bytes_ * rates_.k_per_lane : 4;
  const double panel =
      std::min(double(shape.columns), lines) * std::min(double(shape.depth), k) * word / rates_.k_per_lane;
  // The first pass reads what was packed ahead from memory.
  const double streamed = (as_packed ? std::max(0.0, row_passes - 1) : row_passes) * lines * words * word;
  if (panel > kShareOfL2 * rates_.l2_bytes)
    w.l3 += streamed;
  else if (panel > kShareOfL1 * rates_.l1d_bytes)
    w.l2 += streamed;
  const double row_word = form_.in_place ? row_bytes_ * rates_.k_per_lane : 4;
  if (t.rows * std::min(double(shape.depth), k) * row_word / rates_.k_per_lane >
      kShareOfL1 * rates_.l1d_bytes)
    w.l2 += steps * t.rows * row_word * std::max(0.0, 1 - 1 / column_passes);
  // Rows in place that share sets of L1 with each other evict each other beside the panel.
  constexpr double kWays = 6;
  if (form_.in_place)
    w.conflicts =
        steps * std::max(0.0, lines_a_set(t.rows, static_cast<int64_t>(double(s_.k) * row_bytes_)) - kWays);
  count_packing(rows, columns, k, &w);
  count_reading(shape, rows, columns, k, &w);
  return w;
}

std::string Blocked::recipe(const Shape& shape, int32_t splits) const {
  if (rates_.k_per_lane == 4) return kExactRecipe;
  return absl::StrCat(
      rates_.product_recipe(), "; K ascending in blocks of ", shape.depth, ", summed in order; ",
      chains(shape.tile) > 1 ? "even and odd places of a block apart; " : "", merge_recipe(splits));
}

// Appends every task tile whose packed columns fit L2: the listed sizes, rounded to the register tile and cut to the
// problem.
void Blocked::append_tiles(Shape shape, std::vector<RankedPlan>* out) const {
  const RegisterTile& t = shape.tile;
  const double limit = (form_.in_place ? kDirectShare : kPanelShare) * rates_.l2_bytes;
  const int64_t most = form_.transposed || !packs_runs(problem_, rates_) ? kDirectColumns : kDirectRunColumns;
  const int64_t direct[] = {std::max<int64_t>(most / width(t), 1) * width(t)};
  // The smallest panels are legal with any L2, so that every class has a plan; their price reflects it.
  const bool shallow = shape.depth <= kInvariantDepth * rates_.k_per_lane;
  const bool is_limited = !(form_.packed_ahead && !form_.in_place);
  const auto listed = form_.in_place ? absl::Span<const int64_t>(direct) : form_.columns;
  const auto all_columns = task_sizes(listed, columns_, width(t));
  for (const int64_t rows : task_sizes(form_.rows, rows_, t.rows)) {
    for (const int64_t columns : all_columns) {
      shape.rows = rows, shape.columns = columns;
      const bool smallest = shallow && !is_ukernel() && columns == all_columns[0];
      if (is_limited && !smallest && packed_bytes(shape) > limit) {
        reject(p_.context, config_of(shape, false), out, "packed panels take ", int64_t(packed_bytes(shape)),
               " bytes, at most ", int64_t(limit), " bytes of L2 are used");
        continue;
      }
      Tasks tasks;
      tasks.m = form_.transposed ? shape.columns : shape.rows;
      tasks.n = form_.transposed ? shape.rows : shape.columns;
      tasks.least_chunk = 2 * (form_.in_place || form_.packed_ahead ? kInvariantDepth : shape.depth);
      const bool splits_words = form_.in_place && rates_.k_per_lane > 1;  // a split could begin within one
      if (splits_words && p_.context.split_k > 1) {
        reject(p_.context, config_of(shape, true), out, "does not split K of words of ", rates_.k_per_lane,
               " elements");
        continue;
      }
      tasks.can_split = !splits_words;
      append_tasks(
          p_, tasks,
          [&](double m, double n, double k) {
            return form_.transposed ? work_of(shape, n, m, k) : work_of(shape, m, n, k);
          },
          [&](bool is_split) { return config_of(shape, is_split); },
          [&](int32_t splits) { return recipe(shape, splits); }, out);
    }
  }
}

void Blocked::append_depths(const RegisterTile& t, std::vector<RankedPlan>* out) const {
  absl::InlinedVector<int64_t, 6> depths(form_.depths.begin(), form_.depths.end());
  if (invariant_) depths = {kInvariantDepth};
  const int64_t whole = round_up(ceil_div(s_.k, int64_t{rates_.k_per_lane}), int64_t{rates_.lanes});
  // "packed": a single pass over all of K, if what it needs of A stays in L2.
  if (form_.kernel == KernelKind::kPacked && !invariant_ && s_.m <= t.rows && whole > depths.back() &&
      double(t.rows) * double(whole) * 4 <= rates_.l2_bytes / 2)
    depths.push_back(whole);
  Shape shape{t};
  int64_t last_depth = 0;
  for (const int64_t depth : depths) {
    shape.depth = rates_.k_per_lane * (form_.in_place && !invariant_ ? std::min(depth, whole) : depth);
    if (shape.depth == std::exchange(last_depth, shape.depth)) continue;
    append_tiles(shape, out);
  }
}

// Why no form may serve the class, "" if some may.
std::string refusal_of(const CandidateContext& context, const Form& form) {
  const ProblemClass& c = context.problem;
  const int32_t per_lane = elements_a_lane(context);
  if (form.packed_ahead) {
    if (c.packed_b != kColumns16) return "needs packed B";
    if (is_blocks(c.b)) return "does not support B in blocks";
  } else if (std::string why = operands_refusal(c); !why.empty()) {
    return why;
  }
  if (std::string why = forced_split_refusal(context); !why.empty()) return why;
  const bool pairs = per_lane == 2 && c.b == DType::kBF16, bytes = c.a == DType::kI8;
  switch (form.kernel) {
    case KernelKind::kPanel: return c.zero_a != 0 ? "does not support a zero point of A, 'panel_t' does" : "";
    case KernelKind::kPanelT:
      return is_blocks(c.b) ? absl::StrCat("does not support B in ", name_of(c.b), ", 'panel' does") : "";
    case KernelKind::kDirectPacked:
      if (c.a != DType::kF32 || per_lane > 1) return "needs operands that are multiplied as f32";
      if (c.trans_a != 0) return "A is not K-contiguous";
      if (!packs_runs(c, CpuRates(context))) return "gains only on cores that read memory fast";
      if (MatmulSizes(c).m <= kMostAsPacked)
        return absl::StrCat("slower than 'packed' up to M ", kMostAsPacked, "; M is ", MatmulSizes(c).m);
      return "";
    case KernelKind::kDirect:
    case KernelKind::kDirectA:
      if (!pairs && (c.a != c.b || (c.a != DType::kF32 && !bytes)))
        return "supports f32, i8, and bf16 pairs with B in bf16";
      if (bytes && !multiplies_bytes(context.facts.target))
        return "target has no instruction that multiplies bytes";
      if (c.k % per_lane != 0) return absl::StrCat("K ", c.k, " is not a multiple of ", per_lane);
      if (form.kernel == KernelKind::kDirect) return c.trans_b == 0 ? "B is not K-contiguous" : "";
      if (bytes) return "for i8 it is no faster than 'direct'";
      if (c.a != c.b) return "A is rounded to bf16, so it cannot be read in place";
      if (c.trans_a != 0) return "A is not K-contiguous";
      if (c.n > kDirectAMaxN && !packs_runs(c, CpuRates(context)))
        return absl::StrCat("slower than 'panel' above N ", kDirectAMaxN, "; N is ", c.n);
      return "";
    default: return "";
  }
}

}  // namespace

void append_whole_panels(const CandidateContext& context, const CompileConfig& config,
                         std::vector<RankedPlan>* out) {
  Blocked(context, form_of(KernelKind::kUkernel)).append_ukernel(config, out);
}

void enumerate_matmul_blocked(const CandidateContext& context, std::vector<RankedPlan>* out) {
  for (const Form& form : kForms) {
    if (form.kernel == KernelKind::kUkernel) continue;
    if (const std::string why = refusal_of(context, form); !why.empty())
      reject(context, form.kernel, out, why);
    else
      Blocked(context, form).enumerate(out);
  }
}

}  // namespace lathe
