// Shared by the GPU families: the cost of merging splits, and which family may serve batch-invariant
// requests.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/matrix_instruction.h"

namespace lathe {
namespace {

// Cost of a cluster merge: two cluster barriers, and reading the sums of each split (docs/gpu-speed.md).
constexpr double kClusterSeconds = 0.7e-6, kClusterSecondsOfSplit = 0.15e-6;
// Bytes a cycle that an SM reads from the shared memory of its cluster's other workgroups when all read at
// once: 3.3 TB/s over H100's 132 SMs (W. Luo et al., "Dissecting the NVIDIA Hopper Architecture through
// Microbenchmarking and Multiple Level Analysis", 2025).
constexpr double kClusterBytesPerCycle = 14;
// From L2 into one SM: its port is 64 bytes wide, and half of that is sustained (estimate).
constexpr double kPortBytesPerCycle = 32;
// Cost of launching a second step, and of the counter and fences when the last workgroup merges
// (docs/gpu-speed.md).
constexpr double kStepSeconds = 1.2e-6, kLastSeconds = 1.05e-6;
// Elements that a workgroup merges per memory latency: four for each of 256 threads.
constexpr double kMergedByTurn = 1024;
// The part of the first memory latency that hides behind the counter update (docs/gpu-speed.md).
constexpr double kHiddenTurn = 0.4;

}  // namespace

double gpu_merge_seconds(const GpuRates& rates, const MatmulSizes& s, double splits, int32_t split,
                         double tiles) {
  if (split == kNoSplit) return 0;
  const double parts = double(s.m) * s.n * 4 * splits, out = double(s.m) * s.n * s.output_bytes;
  const double rate = rates.memory_bytes_per_second * (parts <= rates.l2_bytes / 2 ? kL2OverMemory : 1);
  if (split == kMergeStep) return kStepSeconds + (parts + out) / rate;
  if (split == kMergeCluster) {
    const double tile = double(s.m) * s.n / tiles * 4, elsewhere = (splits - 1) / splits;
    return kClusterSeconds + splits * kClusterSecondsOfSplit +
           tile * elsewhere / (kClusterBytesPerCycle * rates.clock_hz);
  }
  // Only as many SMs merge as there are tiles, and each is limited by its port.
  const double ports = std::min(tiles, rates.units) * kPortBytesPerCycle * rates.clock_hz;
  const double turns = double(s.m) * s.n / tiles / kMergedByTurn * std::ceil(splits / 4);
  return kLastSeconds +
         std::max((parts + out) / std::min(rate, ports), (turns - kHiddenTurn) * kMemorySeconds);
}

double gpu_read_bytes(const GpuRates& rates, const MatmulSizes& s, const GpuTile& tile, double slots,
                      double high) {
  const double once = (s.m * s.input_bytes + s.n * s.b_bytes) * s.k;
  if (once <= rates.l2_bytes / 2) return once;
  const double tiles_m = std::ceil(s.m / tile.m), tiles_n = std::ceil(s.n / tile.n), all = tiles_m * tiles_n;
  const double wave = std::min(all * tile.splits, slots);  // workgroups that run at the same time
  const double planes = std::max(1.0, wave / all);         // splits of K that they cover
  high = std::min({high, tiles_m, wave / planes});
  const double wide = std::clamp(wave / planes / high, 1.0, tiles_n);
  const double waves = std::max(1.0, all * tile.splits / slots);
  const double depth = std::ceil(s.k / tile.splits);
  return std::max(once, waves * planes * depth * (high * tile.m * s.input_bytes + wide * tile.n * s.b_bytes));
}

void append_mma_splits(const CandidateContext& context, const MatmulSizes& s, const MmaShape& shape,
                       Plan plan, const std::function<double(int32_t, int32_t)>& predict,
                       const std::function<std::string(int32_t)>& recipe, std::vector<RankedPlan>* out) {
  const double tiles = double(ceil_div(s.m, shape.tile_m)) * ceil_div(s.n, shape.tile_n);
  const double slots = GpuRates(context.facts).units * plan.resident;
  constexpr int64_t kLeastBlocks = 4;  // in a split of K
  for (int32_t wanted : split_options(context, s.k, tiles, slots, kLeastBlocks * shape.tile_k)) {
    // A split that the oracle chooses ends at the end of a stage; a forced one may end inside a stage.
    const ProblemClass& c = context.problem;
    const int64_t least = mma_split_granularity(shape.instruction.amd(), s.k, shape.tile_k, c.a, c.b);
    const int64_t granularity = context.split_k > 0 ? least : std::max(least, shape.tile_k);
    const int32_t splits = normalize_splits(s.k, wanted, granularity);
    for (int32_t split : splits_of(context.facts.target, splits)) {
      plan.config.set_split(split);
      plan.launch.splits = splits;
      plan.predicted_seconds = predict(splits, split);
      plan.numeric_recipe = recipe(splits);
      out->push_back({plan, ""});
    }
  }
}

std::string invariance_refusal(const CandidateContext& context, KernelKind family) {
  const ProblemClass& c = context.problem;
  if (c.determinism != Determinism::kBatchInvariant) return "";
  if (context.split_k > 1)
    return absl::StrCat("batch_invariant needs split_k 1, but split_k ", context.split_k, " is forced");
  const bool half = (c.a == DType::kF16 || c.a == DType::kBF16) && !is_blocks(c.b);
  const Target& target = context.facts.target;
  const bool mma = target.backend == Backend::kRocm ? find_amd_instruction(target.arch, c.a, 16) != nullptr
                                                    : sm_version(target) >= 80;
  const KernelKind recipe = half && mma ? KernelKind::kMma : KernelKind::kSimt;
  if (family == recipe || c.a == DType::kI8) return "";
  return absl::StrCat("batch_invariant needs the numeric recipe of '", name_of(recipe), "' for ",
                      name_of(c.a), " on ", context.facts.target.arch);
}

}  // namespace lathe
