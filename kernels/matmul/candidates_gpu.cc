// What the GPU families' cost models share.
#include <algorithm>

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

}  // namespace lathe
