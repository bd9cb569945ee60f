// What the GPU families share: the cost of merging splits, and whose numeric recipe is batch invariant.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/matmul/candidates.h"

namespace lathe {

double gpu_merge_seconds(const GpuRates& rates, const MatmulSizes& s, double splits, int32_t split,
                         double tiles) {
  if (split == kNoSplit) return 0;
  const double parts = double(s.m) * s.n * 4 * splits, out = double(s.m) * s.n * s.output_bytes;
  const double rate = rates.memory_bytes_per_second * (parts <= rates.l2_bytes / 2 ? kL2OverMemory : 1);
  if (split == kMergeStep) return rates.launch_seconds + (parts + out) / rate;
  if (split == kMergeCluster) return kMemorySeconds;
  // Only as many units merge as there are tiles; each draws no more than its share of the rate.
  const double share = std::min(1.0, tiles / rates.units);
  return 2 * kMemorySeconds + (parts + out) / (rate * share);
}

std::string invariance_refusal(const CandidateContext& context, absl::string_view family) {
  const ProblemClass& c = context.problem;
  if (c.determinism != Determinism::kBatchInvariant) return "";
  if (context.split_k > 1)
    return absl::StrCat("batch_invariant: split_k ", context.split_k, " forced, the recipe has 1 split");
  const bool half = c.a == DType::kF16 || c.a == DType::kBF16;
  const absl::string_view recipe = half && sm_version(context.facts.target) >= 80 ? "mma" : "simt";
  if (family == recipe || c.a == DType::kI8) return "";
  return absl::StrCat("batch_invariant: the recipe of ", name_of(c.a), " on ", context.facts.target.arch,
                      " is that of ", recipe);
}

}  // namespace lathe
