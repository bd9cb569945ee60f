// "wgmma" on Hopper: matmul with warpgroup instructions fed by TMA. The rows of the table are tiles;
// clusters, splits and the number of stages are enumerated for each.
#include "kernels/matmul/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/wgmma/shape.h"

namespace lathe {
namespace {

struct Row {
  int32_t tile_m, tile_n;
  int32_t row_bytes;  // bytes of tile_k
  int32_t consumers;  // warpgroups that multiply
  int32_t swap;
};
constexpr Row kRows[] = {
    // D = A B: 64 or 128 rows of A for each warpgroup.
    {256, 128, 128, 2, 0},
    {128, 256, 128, 2, 0},
    {128, 224, 128, 2, 0},
    {128, 192, 128, 2, 0},
    {128, 160, 128, 2, 0},
    {192, 128, 128, 3, 0},
    {128, 128, 128, 2, 0},
    {128, 128, 128, 1, 0},
    {128, 96, 128, 2, 0},
    {128, 64, 128, 2, 0},
    {64, 256, 128, 1, 0},
    {64, 192, 128, 1, 0},
    {64, 128, 128, 1, 0},
    {64, 64, 128, 1, 0},
    // swap: D^T = B^T A^T. The weight's N lies along the instruction's 64 rows, so that M may be small.
    {64, 128, 128, 2, 1},
    {64, 128, 128, 1, 1},
    {64, 64, 256, 1, 1},
    {32, 128, 256, 2, 1},
    {32, 128, 128, 1, 1},
    {32, 64, 256, 1, 1},
    {16, 64, 512, 1, 1},
    {16, 128, 256, 2, 1},
    {16, 128, 128, 1, 1},
    {16, 64, 256, 1, 1},
    {8, 64, 512, 1, 1},
    {8, 128, 256, 2, 1},
    {8, 128, 128, 1, 1},
    {8, 64, 256, 1, 1},
};
constexpr int64_t kSwapRows = 64;  // largest M for which the product may be transposed

constexpr int64_t kMostStages = 16, kLeastStages = 3;
// Cycles to set up a stage's two mbarriers, one after the other, before the first copy (estimate).
constexpr double kStageSetupCycles = 40;
constexpr int32_t kMostClusterSplits = 8;  // workgroups of a portable cluster

// Share of the matrix rate that products reach on an H200; its power limit holds large ones to 740 TFLOP/s
// (docs/gpu-speed.md). A single multiplying warpgroup waits between its groups of products (estimate).
constexpr double kMatrixEfficiency = 0.72, kLoneEfficiency = 0.62;
// A further factor for fp8, whose K blocks are added by the CUDA cores (estimate).
constexpr double kApartEfficiency = 0.85;
// Share of the FMA rate at which sums are multiplied by scales (estimate).
constexpr double kScalingRate = 0.5;
// Both operands of an instruction come from shared memory, at 128 bytes a cycle.
constexpr double kSharedBytesPerCycle = 128;
// From L2 to one SM: the width of its port; and to each SM if all read (docs/gpu-speed.md).
constexpr double kUnitL2BytesPerCycle = 64, kAllL2BytesPerCycle = 36;
// From memory to one SM (docs/gpu-speed.md: 20 SMs read 2.4 TB/s).
constexpr double kUnitMemoryBytesPerCycle = 62;
// Share of the memory rate that long streams reach, and the latency of a stage (docs/gpu-speed.md).
constexpr double kMemoryEfficiency = 0.9, kStageSeconds = 1.3e-6;
// The latency that cover() assumes: larger than the mean, to cover the slowest stages.
constexpr double kSafeStageSeconds = 2e-6;
// Share of the L2 time that is not hidden. It makes the oracle prefer the tile that reads less from L2.
constexpr double kExposedL2 = 0.08, kExposedL2OfFewRows = 0.03;
// Epilogue: cycles per element of the tile when TMA stores it, and when threads store it row by row
// (docs/gpu-speed.md); cycles to start and end it.
constexpr double kCopyCycles = 0.08, kStoreCycles = 0.16, kStoreStartCycles = 800;

// What is enumerated for each row of the table.
struct Choice {
  int32_t cluster_m = 1, cluster_n = 1, splits = 1, split = kNoSplit;
};

int32_t tile_k_of(const Row& r, const ProblemClass& c) {
  return r.row_bytes / static_cast<int32_t>(size_of(wgmma_element(c.a)));
}

WgmmaInput input_of(const ProblemClass& c, const Row& r, const Choice& choice, int64_t stages) {
  WgmmaInput in;
  in.element_bytes = size_of(wgmma_element(c.a));
  in.tile_m = r.tile_m, in.tile_n = r.tile_n, in.tile_k = tile_k_of(r, c);
  in.promotes = is_f8(wgmma_element(c.a));
  in.scaled = wgmma_scaled(c.a, c.b);
  in.stages = stages;
  in.threads = 128 * (r.consumers + 1);
  in.cluster_m = choice.cluster_m, in.cluster_n = choice.cluster_n;
  in.cluster_k = choice.split == kMergeCluster ? choice.splits : 1;
  in.swap = r.swap != 0;
  in.a_k_major = c.trans_a == 0, in.b_k_major = c.trans_b != 0;
  in.compares = c.op == Op::kMatmulArgmax;
  in.lists_rows = lists_rows(c.rows);
  // gelu and silu are not cheap.
  in.plain_store = c.rows == Rows::kPlain && !in.compares && choice.split == kNoSplit && size_of(c.d) == 2 &&
                   c.c == DType::kNone && c.residual == DType::kNone &&
                   (c.activation == Activation::kNone || c.activation == Activation::kRelu);
  return in;
}

// Bytes of a workgroup's stages that are in flight. These stages are not: the one that is multiplied; the one
// before it, whose products are not finished yet (unless `promotes`); and half of the time one that has
// arrived and waits.
double in_flight(const WgmmaShape& shape) {
  const double held = (shape.in.promotes ? 1 : 2) + 0.5;
  return (double(shape.in.stages) - held) * double(shape.stage_bytes);
}

// The largest number of stages that leaves room for `resident` workgroups on an SM.
WgmmaShape fill(const ProblemClass& c, const Row& r, const Choice& choice, const GpuRates& rates,
                int64_t resident) {
  const double room = (rates.shared_memory_bytes + 1024) / resident - 1024;
  const auto needs = [&](int64_t stages) {
    const WgmmaShape shape(input_of(c, r, choice, stages));
    return double(shape.shared_bytes + shape.static_bytes());
  };
  int64_t stages = kMostStages;
  while (stages > 2 && needs(stages) > room) --stages;
  return WgmmaShape(input_of(c, r, choice, stages));
}

// The fewest stages that keep enough bytes in flight for an SM's share of the memory rate: the rate times the
// latency (J. D. C. Little, "A Proof for the Queuing Formula L = lambda W", Operations Research 9(3), 1961).
// If those do not fit, as many as fit.
WgmmaShape cover(const ProblemClass& c, const Row& r, const Choice& choice, const GpuRates& rates,
                 const WgmmaShape& deepest) {
  const double share = kMemoryEfficiency * rates.memory_bytes_per_second / rates.units;
  for (int64_t stages = kLeastStages; stages < deepest.in.stages; ++stages) {
    WgmmaShape shape(input_of(c, r, choice, stages));
    if (double(deepest.resident) * in_flight(shape) >= share * kSafeStageSeconds) return shape;
  }
  return deepest;
}

// gelu computes eight erf at once and needs more registers than other epilogues: with 104 beside the
// accumulators ptxas 13.0 still spills, with 112 it does not.
constexpr int64_t kGeluRegisters = 112;

// The same beside two sets of accumulators with scales: ptxas 13.0 spills with 24 registers, and with 80 if there is
// code for scales of 32 and of 128 and a set is large.
int64_t scaled_registers(const WgmmaShape& shape) {
  return shape.in.scaled < 128 && shape.sums > 32 ? 88 : 40;
}

std::string check(const ProblemClass& c, const GpuRates& rates, const MatmulSizes& s, const Row& r,
                  const WgmmaShape& shape) {
  if (!shape.defect().empty()) return shape.defect();
  if (c.activation == Activation::kGelu && shape.spare_registers < kGeluRegisters)
    return absl::StrCat("gelu needs ", kGeluRegisters,
                        " registers per thread beside the accumulators, but only ", shape.spare_registers,
                        " are left");
  if (shape.in.scaled > 0 && shape.spare_registers < scaled_registers(shape))
    return absl::StrCat("scales need ", scaled_registers(shape),
                        " registers per thread beside the accumulators, but only ", shape.spare_registers,
                        " are left");
  const int64_t shared = shape.shared_bytes + shape.static_bytes();
  if (shared > rates.shared_memory_bytes)
    return absl::StrCat("smem ", shared, " > ", int64_t(rates.shared_memory_bytes));
  if (WgmmaShape::kAllRegisters > int64_t(rates.registers))
    return absl::StrCat("registers per workgroup ", WgmmaShape::kAllRegisters, " > ",
                        int64_t(rates.registers));
  if (double(shape.in.threads) > std::min(rates.max_threads, rates.threads_per_unit))
    return absl::StrCat("threads ", shape.in.threads, " > ",
                        int64_t(std::min(rates.max_threads, rates.threads_per_unit)));
  const int64_t cluster = shape.in.cluster_m * shape.in.cluster_n * shape.in.cluster_k;
  if (double(cluster) > rates.units)
    return absl::StrCat("cluster size ", cluster, " > compute units ", int64_t(rates.units));
  if (shape.in.stages < kLeastStages) return absl::StrCat("stages ", shape.in.stages, " < ", kLeastStages);
  if (shape.in.scaled > 0 && !r.swap && kTallLines % r.tile_n != 0)
    return absl::StrCat("tile_n ", r.tile_n, " does not divide the ", kTallLines, " columns of a scale of B");
  if (r.swap && s.m > kSwapRows)
    return absl::StrCat("transposed supports M up to ", kSwapRows, ", not ", s.m);
  if (r.swap && s.m > r.tile_m)
    return absl::StrCat("transposed supports M up to tile_m ", r.tile_m, ", not ", s.m);
  // As in "skinny": most groups read their weights once.
  if (const int64_t rows = std::min(2 * s.m, kSwapRows); r.swap && is_grouped(c.rows) && r.tile_m < rows)
    return absl::StrCat("transposed tile_m ", r.tile_m, " has no room for ", rows,
                        " rows, twice a mean group");
  if (r.tile_m > std::max<int64_t>(r.swap ? 8 : 64, 2 * s.m))
    return absl::StrCat("tile_m ", r.tile_m, " > 2 * M ", s.m);
  return "";
}

// Tiles along M that consecutive workgroups take before they move on along N: those that run together cover
// about a square of D.
int32_t raster_of(const Row& r, const Choice& choice, double workgroups) {
  const double square = std::sqrt(workgroups * r.tile_n / r.tile_m) / choice.cluster_m;
  return static_cast<int32_t>(std::clamp(std::exp2(std::round(std::log2(square))), 1.0, 16.0));
}

double predict(const GpuRates& rates, const MatmulSizes& s, const Row& r, const Choice& choice,
               const WgmmaShape& shape, double matrix_flops) {
  const double tiles_m = std::ceil(double(s.m) / r.tile_m), tiles_n = std::ceil(double(s.n) / r.tile_n);
  const double tiles = tiles_m * tiles_n * choice.splits;
  const double steps = std::ceil(std::ceil(double(s.k) / choice.splits) / double(shape.in.tile_k));
  const double per_unit = std::ceil(tiles / rates.units), active = std::min(tiles, rates.units);
  const double together = std::min<double>(shape.resident, per_unit);  // workgroups that share an SM

  const double columns = double(shape.q().width),
               products = double(shape.consumers * shape.blocks * shape.steps);
  const double product = std::max(2 * 64 * columns * 16 / (matrix_flops / rates.units),
                                  (64 + columns) * 32 / (kSharedBytesPerCycle * rates.clock_hz));
  const double efficiency = (r.consumers * together > 1 ? kMatrixEfficiency : kLoneEfficiency) *
                            (shape.in.promotes ? kApartEfficiency : 1);
  const double matrix = products * product / efficiency;
  // A warpgroup multiplies and then scales. Others multiply meanwhile.
  const double scaling = 2 * double(r.tile_m) * r.tile_n * double(shape.groups()) /
                         (rates.flops / 2 / rates.units * kScalingRate);
  const double compute =
      per_unit * steps * std::max({matrix, scaling, (matrix + scaling) / (r.consumers * together)});

  const double fetched = double(shape.a.bytes) / choice.cluster_n + double(shape.b.bytes) / choice.cluster_m;
  const double from_l2 = std::max(per_unit * steps * shape.stage_bytes / kUnitL2BytesPerCycle,
                                  tiles * steps * fetched / (kAllL2BytesPerCycle * rates.units)) /
                         rates.clock_hz;

  const double slots = rates.units * shape.resident;
  const double high = std::min(tiles_m, double(raster_of(r, choice, slots)) * choice.cluster_m);
  const double read =
      gpu_read_bytes(rates, s, {double(r.tile_m), double(r.tile_n), double(choice.splits)}, slots, high);
  const double output_bytes = choice.splits > 1 ? 4 * choice.splits : shape.in.compares ? 0 : s.output_bytes;
  const double written = double(s.m) * s.n * output_bytes;
  const double of_a_unit =
      std::min(together * in_flight(shape) / kStageSeconds, kUnitMemoryBytesPerCycle * rates.clock_hz);
  const double rate = std::min(kMemoryEfficiency * rates.memory_bytes_per_second, active * of_a_unit);
  const double memory = (read + (choice.split == kMergeCluster ? 0 : written)) / rate;

  const double store =
      (r.tile_m * r.tile_n * (shape.copies_out() ? kCopyCycles : kStoreCycles) + kStoreStartCycles) /
      rates.clock_hz;
  const double setup = double(shape.in.stages) * kStageSetupCycles / rates.clock_hz;
  // A cluster runs within one GPC, which has an even number of SMs, so clusters of more than two leave some
  // SMs of a GPC empty: up to an eighth. Workgroups that find no place run afterwards (docs/gpu-speed.md).
  const bool crowded = choice.split == kMergeCluster && choice.splits > 2;
  const double clustered = crowded ? slots * (1 - double(choice.splits) / 64) : slots;
  const double alone = std::ceil(tiles / clustered) > std::ceil(tiles / slots)
                           ? std::max({compute / per_unit, from_l2 / per_unit, read / tiles / of_a_unit})
                           : 0;
  return rates.launch_seconds + setup + kMemorySeconds + std::max({compute, from_l2, memory}) + alone +
         (r.swap ? kExposedL2OfFewRows : kExposedL2) * from_l2 + std::ceil(per_unit / together) * store +
         gpu_merge_seconds(rates, s, choice.splits, choice.split, tiles_m * tiles_n);
}

WgmmaConfig config_of(const Row& r, const Choice& choice, const WgmmaShape& shape, const GpuRates& rates,
                      const MatmulSizes& s, bool open, bool grouped) {
  WgmmaConfig config;
  config.tile_m = r.tile_m, config.tile_n = r.tile_n, config.tile_k = shape.in.tile_k;
  config.register_m = shape.register_m(), config.register_n = shape.register_n();
  config.threads = shape.in.threads, config.stages = shape.in.stages;
  config.split = choice.split;
  config.cluster_m = choice.cluster_m, config.cluster_n = choice.cluster_n;
  config.cluster_k = shape.in.cluster_k;
  config.transposed = r.swap;
  config.plain_store = shape.in.plain_store;
  // A persistent workgroup loads its next tile while it stores the last; one that merges takes a single tile.
  // The grid fills the device because the class does not know the batch; idle workgroups end at once.
  const int32_t cluster = choice.cluster_m * choice.cluster_n;
  // A grouped product's workgroups take tiles of all groups, on the whole device.
  const double units = rates.units * (grouped ? kGroupsAtOnce : 1);
  const auto slots = static_cast<int32_t>(units * shape.resident) / cluster * cluster;
  const int64_t tiles = round_up(ceil_div(s.m, r.tile_m), choice.cluster_m) *
                        round_up(ceil_div(s.n, r.tile_n), choice.cluster_n) * choice.splits;
  const bool one_launch = choice.split == kMergeLast || choice.split == kMergeCluster;
  if (!one_launch && (open || tiles > slots || cluster > 1 || grouped)) {
    config.persistent = slots;
    config.raster = raster_of(r, choice, slots);
  }
  return config;
}

// Why the family does not support the class, "" if it does.
std::string refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (context.facts.target.arch != "sm_90a") return absl::StrCat(context.facts.target.arch, " has no wgmma");
  const bool in_blocks = is_blocks(c.a) && is_blocks(c.b);
  const DType a = in_blocks ? wgmma_element(c.a) : c.a, b = in_blocks ? wgmma_element(c.b) : c.b;
  const bool multiplies = is_f8(a) ? is_f8(b) && !is_fnuz(a) && !is_fnuz(b)
                                   : a == b && !is_blocks(a) && (size_of(a) == 2 || a == DType::kI8);
  if (!multiplies) return absl::StrCat("wgmma does not multiply ", name_of(c.a), " by ", name_of(c.b));
  if (c.alignment != Alignment::k16) return "rows are not aligned to 16 bytes";
  if (c.rows == Rows::kDeviceM)
    return absl::StrCat("rows ", name_of(c.rows), ": TMA stores whole boxes, beyond the rows that exist");
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: the order of sums along K depends on the tile";
  return "";
}

using Choices = absl::InlinedVector<Choice, 8>;
Choices choices_of(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& s,
                   const Row& r) {
  const int64_t tiles_m = ceil_div(s.m, r.tile_m), tiles_n = ceil_div(s.n, r.tile_n);
  const int64_t tile_k = tile_k_of(r, context.problem);
  Choices choices;
  int32_t most_splits = 1;
  constexpr int64_t kLeastBlocks = 4;  // in a split of K
  for (int32_t wanted :
       split_options(context, s.k, double(tiles_m * tiles_n), rates.units, kLeastBlocks * tile_k)) {
    const int32_t splits = normalize_splits(s.k, wanted, tile_k);
    if (splits == 1) {
      choices.push_back({1, 1, 1, kNoSplit});
      if (tiles_m > 1 && !r.swap && !is_grouped(context.problem.rows)) choices.push_back({2, 1, 1, kNoSplit});
      if (tiles_n > 1 && r.tile_m >= 64 && !lists_rows(context.problem.rows))
        choices.push_back({1, 2, 1, kNoSplit});
      continue;
    }
    for (int32_t split : {kMergeLast, kMergeStep}) choices.push_back({1, 1, splits, split});
    most_splits = std::max(most_splits, splits);
  }
  // A cluster holds exactly the splits, and its size is a power of two. Sizes below twice the largest number
  // of splits are tried.
  for (int32_t splits = 2; splits <= kMostClusterSplits; splits *= 2) {
    const bool wanted = context.split_k > 0 ? splits == most_splits : splits < 2 * most_splits;
    if (wanted && normalize_splits(s.k, splits, tile_k) == splits)
      choices.push_back({1, 1, splits, kMergeCluster});
  }
  return choices;
}

}  // namespace

void enumerate_matmul_wgmma(const CandidateContext& context, std::vector<RankedPlan>* out) {
  if (std::string reason = refusal(context); !reason.empty()) {
    out->push_back(rejected(WgmmaConfig(), std::move(reason)));
    return;
  }
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  const MatmulSizes s(c);
  const double matrix_flops = context.facts.fact_or("flops_matrix_f16", 16 * rates.flops);
  const bool open = c.m_hi >= Bucket::kOpenEnd, grouped = is_grouped(c.rows);
  const auto add = [&](const WgmmaShape& shape, const Choice& choice, const Row& r) {
    RankedPlan plan;
    plan.plan.config = config_of(r, choice, shape, rates, s, open, grouped);
    plan.plan.launch.splits = choice.splits;
    plan.plan.predicted_seconds = predict(rates, s, r, choice, shape, matrix_flops);
    plan.plan.resident = static_cast<int32_t>(shape.resident);
    const std::string separate =
        shape.in.scaled > 0 ? absl::StrCat(", each ", shape.in.scaled, " summed separately and scaled; ")
        : shape.in.promotes ? ", each summed separately; "
                            : "; ";
    plan.plan.numeric_recipe =
        absl::StrCat("wgmma ", name_of(c.a), c.a == DType::kI8 ? " to i32" : " to f32",
                     "; K ascending in blocks of ", shape.in.tile_k, separate, merge_recipe(choice.splits));
    out->push_back(std::move(plan));
  };
  for (const Row& r : kRows) {
    for (const Choice& choice : choices_of(context, rates, s, r))
      for (int64_t resident : {1, 2}) {
        const WgmmaShape deepest = fill(c, r, choice, rates, resident);
        if (resident > 1 && deepest.resident < 2) continue;  // same plan with fewer stages
        if (std::string reason = check(c, rates, s, r, deepest); !reason.empty()) {
          if (resident == 1)
            out->push_back(
                rejected(config_of(r, choice, deepest, rates, s, open, grouped), std::move(reason)));
          continue;
        }
        const WgmmaShape covering = cover(c, r, choice, rates, deepest);
        add(deepest, choice, r);
        if (covering.in.stages < deepest.in.stages && covering.resident == deepest.resident)
          add(covering, choice, r);
      }
  }
}

}  // namespace lathe
