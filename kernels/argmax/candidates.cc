// Candidates of argmax: the kernel "rows" on every device. Comparisons are exact, so splits do not change the numeric
// recipe.
#include "kernels/argmax/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// Rows longer than this may be split, so that a few rows use the whole device.
constexpr int64_t kSplitFrom = 1024;

constexpr char kRecipe[] =
    "compares in f32; lowest index wins, first NaN wins; every split gives the same result";

// Vectors of values in flight on the CPU; each has a vector of columns beside it.
constexpr int32_t kCpuUnroll[] = {4, 8, 2, 1};
// Compare, two selects and the NaN test, for one vector of one accumulator.
constexpr double kVectorOps = 4, kOpLatency = 4;
// Cycles for f16 and bf16, which are scanned in blocks: two maxima for a vector of twice as many values, and a
// share of the block's end.
constexpr double kBlockedCycles = 1;

constexpr GpuRow kGpuRows[] = {{256, 1, 8}, {256, 1, 4}, {128, 1, 8},  {128, 1, 4},  {256, 0, 4}, {512, 0, 4},
                               {256, 0, 2}, {512, 0, 2}, {1024, 0, 4}, {1024, 0, 2}, {512, 0, 8}};
// Longest chunk, as a multiple of what its workgroup has in flight. With longer chunks the last workgroup
// ends late; with shorter ones other workgroups' loads no longer hide the tickets.
constexpr int32_t kMostRounds = 4;
// Registers of a thread beside its loads in flight: ptxas 13.0 for sm_90a takes 30 to 34 in all forms.
constexpr int32_t kThreadRegisters = 32;
// AMD: registers of a thread, and of each load in flight. They cover what LLVM 22.1 used in tests/gpu's sweep
// with waves of 64. With waves of 32 registers never limit the waves of a CU.
constexpr int32_t kAmdThreadRegisters = 24, kLoadRegisters = 6, kBF16LoadRegisters = 10;
// Estimates from instruction counts and latencies of Hopper: comparing one vector of a warp, in cycles of one
// of the four schedulers; the reductions over a warp and over a workgroup; storing a pair, two fences, the
// ticket, and reading the other chunks' pairs.
constexpr double kVectorCycles = 16, kWarpReduceSeconds = 0.1e-6, kGroupReduceSeconds = 0.2e-6,
                 kTicketSeconds = 1.5e-6;
// Time that a workgroup which follows another on its SM loses before its first load.
constexpr double kStartSeconds = 0.3e-6;

void append(const CompileConfig& config, int32_t splits, double seconds, int32_t resident,
            std::vector<RankedPlan>* out) {
  RankedPlan r;
  r.plan.resident = resident;
  r.plan.config = config;
  r.plan.launch.splits = splits;
  r.plan.predicted_seconds = seconds;
  r.plan.numeric_recipe = kRecipe;
  out->push_back(std::move(r));
}

// Numbers of chunks worth pricing: 1 and, for long rows, `workers`, which are divided among the rows. If a
// factor is forced, only that one.
SplitOptions row_splits(const CandidateContext& context, int64_t workers) {
  if (!splits_rows(context.problem)) return {1};
  if (context.split_k > 0) return {context.split_k};
  if (workers <= 1) return {1};
  return {1, static_cast<int32_t>(std::min<int64_t>(workers, 65535))};
}

// Chunks of each of the representative rows, computed as a launch does (core/recipe.cc).
int64_t chunks(const ProblemClass& c, int64_t wanted, int64_t granularity, int64_t most) {
  const auto length = static_cast<int64_t>(representative_length(c));
  const int64_t shared = std::max(ceil_div(wanted, representative_rows(c)), ceil_div(length, most));
  return normalize_splits(length, shared, granularity);
}

}  // namespace

// A class leaves the number of rows and their length open. Long rows are priced as in a decode step: sixteen
// of the bucket's length. Short rows are priced as in a router of experts: one for each token of a batch.
int64_t representative_rows(const ProblemClass& c) { return c.row_hi <= 1024 ? 1024 : 16; }
double representative_length(const ProblemClass& c) {
  return c.row_hi < Bucket::kOpenEnd ? c.row_hi : std::max<double>(c.row_lo, 131072);
}

bool splits_rows(const ProblemClass& c) { return c.row_lo > kSplitFrom; }

void append_cpu_rows(const CandidateContext& context, const CompileConfig& config, const ScanCycles& cycles,
                     std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  for (int32_t wanted : row_splits(context, rates.workers)) {
    const auto splits = static_cast<double>(chunks(c, wanted, 1, INT32_MAX));
    const double rows = static_cast<double>(representative_rows(c));
    const double tasks = rows * splits, length = std::ceil(representative_length(c) / splits);
    const double vectors = std::ceil(length / rates.lanes);
    // kInParts prefers a single stream on cores where one stream already reaches the full rate. Reading in
    // parts was not measured there.
    constexpr double kInParts = 0.95;
    const double bandwidth =
        cycles.in_parts ? kInParts * rates.bandwidth(tasks)
                        : cycles.reading * std::min(rates.bandwidth(tasks), rates.stream_bytes_per_second);
    const double task = CpuRates::overlap((vectors * cycles.vector + cycles.end) / rates.clock_hz,
                                          length * size_of(c.a) / bandwidth);
    // The second step reads `splits` pairs per row.
    const double merge =
        config.split() != kNoSplit ? kTaskSeconds * rows + tasks * kOpLatency / rates.clock_hz : 0;
    append(config, wanted, rates.schedule_seconds(tasks, task, task, tasks) + merge, 0, out);
  }
}

void enumerate_argmax_cpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const CpuRates rates(context);
  CpuRowsConfig config;
  config.tile_m = 1;
  config.register_m = 1;
  config.lanes = rates.lanes;
  config.split = splits_rows(c);
  for (int32_t unroll : kCpuUnroll) {
    config.register_n = unroll * rates.lanes;
    config.tile_n = config.register_n;
    const int32_t need = 3 * unroll + 4;  // values, columns, loaded; step, constants
    if (need > rates.registers) {
      out->push_back(rejected(
          config, absl::StrCat("tile needs ", need, " registers, the target has ", rates.registers)));
      continue;
    }
    const double step = c.a != DType::kF32 ? kBlockedCycles : std::max(kVectorOps / 2, kOpLatency / unroll);
    // At the end of a task, accumulators and then lanes are combined one after the other.
    append_cpu_rows(context, config, {step, (unroll + std::log2(rates.lanes)) * kOpLatency * 2}, out);
  }
}

namespace {

// Workgroups that fit on an SM or CU.
int32_t resident_of(const GpuRates& rates, DType type, const GpuRowsConfig& c) {
  const int32_t load = !rates.rocm ? 4 : type == DType::kBF16 ? kBF16LoadRegisters : kLoadRegisters;
  const int64_t registers = (rates.rocm ? kAmdThreadRegisters : kThreadRegisters) + load * c.loads;
  return rates.resident(c.threads, registers, 8.0 * c.threads);
}

// Time of one launch for the representative rows.
double gpu_seconds(const GpuRates& rates, const ProblemClass& c, const GpuRowsConfig& config, int64_t wanted,
                   double end_seconds) {
  const int64_t group = config.threads / config.tile_m;
  const auto rows = static_cast<double>(representative_rows(c));
  const double length = representative_length(c), vector = config.register_n / config.loads;
  const double splits = config.split ? chunks(c, wanted, config.tile_n / config.loads, config.chunk) : 1;
  const double groups = std::ceil(rows / config.tile_m) * splits;
  const double resident = resident_of(rates, c.a, config);
  // Each round of a thread's loads waits for memory once. The warps of a scheduler compare their vectors one
  // after the other.
  const double vectors = std::ceil(std::ceil(length / splits) / vector / group);
  const double rounds = std::ceil(vectors / config.loads);
  const double sharing =
      std::min(resident, std::ceil(groups / rates.units)) * config.threads / rates.wave / 4;
  double workgroup =
      rounds * kMemorySeconds + vectors * std::max(1.0, sharing) * kVectorCycles / rates.clock_hz;
  workgroup += (group > rates.wave ? kGroupReduceSeconds : kWarpReduceSeconds) + end_seconds;
  if (config.split == kMergeLast && splits > 1) workgroup += kTicketSeconds;
  const double waves = std::ceil(groups / (rates.units * resident));
  const double memory = kMemorySeconds + rows * length * size_of(c.a) / rates.memory_bytes_per_second;
  const double merge = config.split == kMergeStep ? rates.launch_seconds + 2 * kMemorySeconds : 0;
  return rates.launch_seconds + std::max(memory, waves * workgroup + (waves - 1) * kStartSeconds) + merge;
}

}  // namespace

GpuRowsConfig gpu_rows(const CandidateContext& context, const GpuRow& row) {
  const ProblemClass& c = context.problem;
  const auto vector = c.alignment == Alignment::kByte ? 1 : static_cast<int32_t>(16 / size_of(c.a));
  GpuRowsConfig config;
  config.threads = row.threads;
  config.tile_m = row.waves == 0 ? 1 : row.threads / (row.waves * wave_size(context.facts.target));
  config.register_m = 1;
  config.loads = row.unroll;
  config.register_n = row.unroll * vector;
  config.tile_n = row.threads / config.tile_m * config.register_n;
  return config;
}

void append_gpu_rows(const CandidateContext& context, GpuRowsConfig config, const UkernelRef& ukernel,
                     double end_seconds, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  const GpuRates rates(context.facts);
  if (config.threads > rates.max_threads)
    return out->push_back(rejected(
        {config, ukernel}, absl::StrCat("threads ", config.threads, " > ", int64_t(rates.max_threads))));
  const int32_t resident = resident_of(rates, c.a, config);
  if (resident < 1) return out->push_back(rejected({config, ukernel}, kNoPlace));
  for (int32_t wanted : row_splits(context, static_cast<int64_t>(2 * rates.units))) {
    if (wanted == 1 && context.split_k == 0) {
      append({config, ukernel}, 1, gpu_seconds(rates, c, config, 1, end_seconds), resident, out);
      continue;
    }
    for (int32_t split : splits_of(context.facts.target, wanted)) {
      config.split = split;
      config.chunk = kMostRounds * config.tile_n;
      if (config.tile_m > 1)
        out->push_back(rejected({config, ukernel},
                                absl::StrCat("a split needs one row per workgroup, not ", config.tile_m)));
      else
        append({config, ukernel}, wanted, gpu_seconds(rates, c, config, wanted, end_seconds), resident, out);
    }
  }
}

void enumerate_argmax_gpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  for (const GpuRow& row : kGpuRows) append_gpu_rows(context, gpu_rows(context, row), {}, 0, out);
}

}  // namespace lathe
