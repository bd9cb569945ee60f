// "tcgen05" on Blackwell: products of MXFP8, MXFP4 or NVFP4 (MXFP8 also by MXFP4) by instructions that apply scales.
// The rows of the table are widths of the tile; the number of stages is enumerated for each.
#include "kernels/matmul/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/tcgen05/shape.h"

namespace lathe {
namespace {

constexpr int64_t kWidths[] = {256, 192, 128, 64};  // tile_n
constexpr int64_t kMostStages = 8, kLeastStages = 3;

// Rates relative to f16's (NVIDIA Blackwell Architecture Technical Brief): fp8 twice, fp4 four times.
double relative_rate(DType t) { return block_elements(t) / double(size_of(t)) > 1 ? 4 : 2; }

// Nothing of this family was measured; all of the following are estimates. Share of the matrix rate that large products
// reach, and that one workgroup on an SM reaches alone.
constexpr double kMatrixEfficiency = 0.75, kLoneEfficiency = 0.65;
// From L2 to one SM, and to each SM if all read (those of an H200, docs/gpu-speed.md).
constexpr double kUnitL2BytesPerCycle = 64, kAllL2BytesPerCycle = 36;
// Share of the memory rate that long streams reach, from memory to one SM, and the latency of a stage.
constexpr double kMemoryEfficiency = 0.9, kUnitMemoryBytesPerCycle = 62, kStageSeconds = 1.5e-6;
// Epilogue: cycles per element of the tile; cycles to start and end it, with the allocation of tensor memory.
constexpr double kStoreCycles = 0.16, kStoreStartCycles = 1500;

std::string refusal(const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (context.facts.target.arch != "sm_100a")
    return absl::StrCat(context.facts.target.arch, " has no tcgen05");
  if (std::string reason = Tcgen05Shape::refusal(c.a, c.b); !reason.empty()) return reason;
  if (c.alignment != Alignment::k16) return "rows are not aligned to 16 bytes";
  if (c.rows == Rows::kDeviceM)
    return absl::StrCat("rows ", name_of(c.rows), ": M is known on the host only");
  if (c.determinism == Determinism::kBatchInvariant)
    return "batch_invariant: simt serves every alignment and M";
  if (context.split_k > 1) return absl::StrCat("split_k ", context.split_k, ": K is not split");
  return "";
}

std::string check(const ProblemClass& c, const GpuRates& rates, const MatmulSizes& s,
                  const Tcgen05Shape& shape) {
  if (!shape.defect().empty()) return shape.defect();
  if (const int64_t shared = shape.shared_bytes() + shape.static_bytes();
      double(shared) > rates.shared_memory_bytes)
    return absl::StrCat("smem ", shared, " > ", int64_t(rates.shared_memory_bytes));
  if (shape.stages < kLeastStages) return absl::StrCat("stages ", shape.stages, " < ", kLeastStages);
  // Experts of a few tokens take the time of reading their weights.
  if (Tcgen05Shape::kTileM > 2 * s.m && !is_grouped(c.rows))
    return absl::StrCat("tile_m ", Tcgen05Shape::kTileM, " > 2 * M ", s.m);
  if (shape.tile_n > std::max<int64_t>(64, 2 * s.n))
    return absl::StrCat("tile_n ", shape.tile_n, " > 2 * N ", s.n);
  return "";
}

// The largest number of stages that leaves room for `resident` workgroups on an SM.
Tcgen05Shape fill(const ProblemClass& c, int64_t width, const GpuRates& rates, int64_t resident) {
  const double room = (rates.shared_memory_bytes + 1024) / double(resident) - 1024;
  const auto shape = [&](int64_t stages) {
    return Tcgen05Shape(c.a, c.b, width, stages, lists_rows(c.rows));
  };
  int64_t stages = kMostStages;
  while (stages > 2 && double(shape(stages).shared_bytes() + shape(stages).static_bytes()) > room) --stages;
  return shape(stages);
}

double predict(const CandidateContext& context, const GpuRates& rates, const MatmulSizes& s,
               const Tcgen05Shape& shape) {
  const double tile_m = Tcgen05Shape::kTileM, tile_n = double(shape.tile_n);
  const double tiles_m = std::ceil(double(s.m) / tile_m), tiles_n = std::ceil(double(s.n) / tile_n);
  const double tiles = tiles_m * tiles_n, steps = std::ceil(double(s.k) / double(shape.tile_k()));
  const double per_unit = std::ceil(tiles / rates.units), active = std::min(tiles, rates.units);
  const double together = std::min<double>(double(shape.resident()), per_unit);

  const double matrix = context.facts.fact_or("flops_matrix_f16", 16 * rates.flops) * relative_rate(shape.a);
  const double products = 2 * tile_m * tile_n * double(shape.tile_k()) / (matrix / rates.units);
  const double compute = per_unit * steps * products / (together > 1 ? kMatrixEfficiency : kLoneEfficiency);

  const double unpacked = shape.unpacks_b() ? double(shape.b_bytes()) / 2 : 0;
  const double stage = double(shape.stage_bytes() + shape.scale_bytes()) - unpacked;
  const double from_l2 =
      std::max(per_unit / kUnitL2BytesPerCycle, tiles / (kAllL2BytesPerCycle * rates.units)) * steps * stage /
      rates.clock_hz;

  const double slots = rates.units * double(shape.resident());
  const double read = gpu_read_bytes(rates, s, {tile_m, tile_n, 1}, slots, tiles_m);
  const double written = double(s.m) * double(s.n) * s.output_bytes;
  const double of_a_unit = std::min(together * double(shape.stages - 1) * stage / kStageSeconds,
                                    kUnitMemoryBytesPerCycle * rates.clock_hz);
  const double memory =
      (read + written) / std::min(kMemoryEfficiency * rates.memory_bytes_per_second, active * of_a_unit);
  const double store = (tile_m * tile_n * kStoreCycles + kStoreStartCycles) / rates.clock_hz;
  return rates.launch_seconds + kMemorySeconds + kStageSeconds + std::max({compute, from_l2, memory}) +
         std::ceil(per_unit / together) * store;
}

}  // namespace

void enumerate_matmul_tcgen05(const CandidateContext& context, std::vector<RankedPlan>* out) {
  Tcgen05Config config;
  if (std::string reason = refusal(context); !reason.empty()) {
    out->push_back(rejected(config, std::move(reason)));
    return;
  }
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  const MatmulSizes s(c);
  for (const int64_t width : kWidths)
    for (const int64_t resident : {1, 2}) {
      const Tcgen05Shape shape = fill(c, width, rates, resident);
      if (resident > 1 && shape.resident() < 2) continue;  // same plan with fewer stages
      config.tile_m = Tcgen05Shape::kTileM, config.tile_n = width, config.tile_k = shape.tile_k();
      config.threads = Tcgen05Shape::kThreads;
      config.stages = shape.stages;
      if (std::string reason = check(c, rates, s, shape); !reason.empty()) {
        if (resident == 1) out->push_back(rejected(config, std::move(reason)));
        continue;
      }
      RankedPlan plan;
      plan.plan.config = config;
      plan.plan.predicted_seconds = predict(context, rates, s, shape);
      plan.plan.resident = static_cast<int32_t>(shape.resident());
      plan.plan.numeric_recipe =
          absl::StrCat("tcgen05 ", name_of(c.a), " by ", name_of(c.b), " to f32; K ascending in steps of ",
                       shape.tile_k() / Tcgen05Shape::kSteps, "; ", merge_recipe(1));
      out->push_back(std::move(plan));
    }
}

}  // namespace lathe
