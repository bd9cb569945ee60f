// argmax: "rows" on every device. Exact comparisons: the numeric recipe is the same whatever the split.
#include "kernels/argmax/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// Rows and row length of a class are open: priced as a decode step sees them, a few rows of the bucket's
// length.
constexpr double kRows = 4;
double representative_length(const ProblemClass& c) {
  return c.row_hi < Bucket::kOpenEnd ? c.row_hi : std::max<double>(c.row_lo, 131072);
}
// Rows longer than this carry a second step, so that a few of them may use the whole device.
constexpr int64_t kSplitFrom = 1024;

constexpr char kRecipe[] = "compare f32; lowest index wins, first NaN wins; any split gives the same";

// Vectors of values in flight on the CPU; each has a vector of indices beside it.
constexpr int32_t kCpuUnroll[] = {4, 8, 2, 1};
// Compare, two selects and the unordered test for NaN, for one vector of one accumulator.
constexpr double kVectorOps = 4, kOpLatency = 4;

struct GpuRow {
  int32_t threads, unroll;
};
constexpr GpuRow kGpuRows[] = {{256, 4}, {256, 2}, {512, 4}, {128, 4}};

void append(const CompileConfig& config, int32_t splits, double seconds, std::vector<RankedPlan>* out) {
  RankedPlan r;
  r.plan.config = config;
  r.plan.launch.splits = splits;
  r.plan.predicted_seconds = seconds;
  r.plan.numeric_recipe = kRecipe;
  out->push_back(std::move(r));
}

// 1, and for long rows what fills `workers` with kRows rows, in chunks no shorter than `least` in the
// bucket's shortest row.
SplitOptions row_splits(const CandidateContext& context, double workers, int64_t least) {
  const ProblemClass& c = context.problem;
  if (c.row_lo <= kSplitFrom) return {1};
  if (context.split_k > 0) return {context.split_k};
  SplitOptions options = {1};
  for (double rows : {kRows, 1.0}) {
    const int64_t splits =
        std::min<int64_t>(static_cast<int64_t>(std::ceil(workers / rows)), c.row_lo / least);
    if (splits > options.back()) options.push_back(static_cast<int32_t>(splits));
  }
  return options;
}

}  // namespace

void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  CompileConfig config;
  config.kernel = "rows";
  config.tile_m = 1;
  config.register_m = 1;
  config.lanes = rates.lanes;
  config.split = c.row_lo > kSplitFrom;
  for (int32_t unroll : kCpuUnroll) {
    config.register_n = unroll * rates.lanes;
    config.tile_n = config.register_n;
    const int32_t need = 3 * unroll + 4;  // values, indices, loaded; step, constants
    if (need > rates.registers) {
      out->push_back(rejected(config, absl::StrCat("registers ", need, " > ", rates.registers)));
      continue;
    }
    for (int32_t splits : row_splits(context, rates.workers, 256)) {
      const double tasks = kRows * splits, length = std::ceil(representative_length(c) / splits);
      const double vectors = std::ceil(length / rates.lanes);
      const double step = std::max(kVectorOps / 2, kOpLatency / unroll) + (c.a != DType::kF32 ? 1 : 0);
      // The lanes and the accumulators of a task are folded one after the other at its end.
      const double fold = (unroll + std::log2(rates.lanes)) * kOpLatency * 2;
      const double task =
          std::max((vectors * step + fold) / rates.clock_hz, length * size_of(c.a) / rates.bandwidth(tasks));
      // The second step reads `splits` pairs a row.
      const double merge = config.split ? kTaskSeconds * kRows + tasks * kOpLatency / rates.clock_hz : 0;
      append(config, splits, rates.schedule_seconds(tasks, task, task) + merge, out);
    }
  }
}

void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  CompileConfig config;
  config.kernel = "rows";
  config.tile_m = 1;
  config.register_m = 1;
  config.split = c.row_lo > kSplitFrom;
  for (const GpuRow& r : kGpuRows) {
    config.threads = r.threads;
    config.register_n = r.unroll;
    config.tile_n = r.threads * r.unroll;
    if (r.threads > rates.max_threads) {
      out->push_back(
          rejected(config, absl::StrCat("threads ", r.threads, " > ", int64_t(rates.max_threads))));
      continue;
    }
    for (int32_t splits : row_splits(context, 4 * rates.units, config.tile_n)) {
      const double groups = kRows * splits, length = representative_length(c) / splits;
      const double rounds = std::ceil(groups / (rates.units * std::floor(2048.0 / r.threads)));
      const double latency = rounds * (std::ceil(length / config.tile_n) + 2) * kMemorySeconds;
      const double memory = kRows * representative_length(c) * size_of(c.a) / rates.memory_bytes_per_second;
      append(config, splits,
             rates.launch_seconds * (config.split ? 2 : 1) + std::max(latency, memory) +
                 (config.split ? 2 * kMemorySeconds + splits * 1e-9 : 0),
             out);
    }
  }
}

}  // namespace lathe
