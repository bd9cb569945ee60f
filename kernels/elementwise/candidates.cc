// Candidates of elementwise: the kernel "rows" on every device. A class has neither sizes nor a program, so the price
// is that of reading and writing memory for activations of a typical size.
#include "kernels/elementwise/candidates.h"

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

constexpr double kRows = 2048, kColumns = 4096;
constexpr char kRecipe[] = "element by element; f16 and bf16 are rounded after every operation";

// Sixteen f32 along M fill a cache line.
constexpr int32_t kCpuTileM = 16;
constexpr int32_t kCpuTileN[] = {4096, 1024, 16384};
constexpr int32_t kCpuUnroll[] = {2, 1, 4};
// Cycles of a vector (its loads, its store, two or three operations) and of a step of the loop in addition.
constexpr double kVectorCycles = 4, kStepCycles = 2;

struct GpuRow {
  int32_t threads, across, rows;  // threads along a row (0: all), rows of a thread
};
constexpr GpuRow kGpuRows[] = {{256, 0, 1},  {256, 0, 4}, {256, 64, 1},
                               {256, 64, 4}, {128, 0, 1}, {512, 0, 1}};
// Time that a workgroup loses before its first load, and a thread's registers in addition to those of its vectors.
constexpr double kStartSeconds = 0.3e-6;
constexpr int32_t kThreadRegisters = 32;

double bytes_an_element(const ProblemClass& c) {
  double bytes = 0;
  for (DType t : {c.a, c.b, c.c, c.residual, c.d}) bytes += static_cast<double>(size_of(t));
  return bytes;
}

void append(const CandidateContext& context, const CompileConfig& config, double seconds, int32_t resident,
            std::vector<RankedPlan>* out) {
  if (context.split_k > 0) return reject(context, config, out, "does not support split_k ", context.split_k);
  if (!context.wants(seconds)) return;
  RankedPlan r;
  r.plan.config = config;
  r.plan.resident = resident;
  r.plan.predicted_seconds = seconds;
  r.plan.numeric_recipe = kRecipe;
  out->push_back(std::move(r));
}

}  // namespace

void enumerate_elementwise_cpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const CpuRates rates(context);
  const double bytes = bytes_an_element(context.problem);
  CpuRowsConfig config;
  config.lanes = rates.lanes;
  config.tile_m = kCpuTileM;
  config.register_m = 1;
  for (int32_t tile_n : kCpuTileN) {
    config.tile_n = tile_n;
    for (int32_t unroll : kCpuUnroll) {
      config.register_n = unroll * rates.lanes;
      const double tasks = std::ceil(kRows / kCpuTileM) * std::ceil(kColumns / tile_n);
      const double elements = kRows * kColumns / tasks, vectors = elements / rates.lanes;
      const double compute = vectors * (kVectorCycles + kStepCycles / unroll) / rates.clock_hz;
      const double task = CpuRates::overlap(compute, elements * bytes / rates.bandwidth(tasks));
      append(context, config, rates.schedule_seconds(tasks, task, task, tasks), 0, out);
    }
  }
}

void enumerate_elementwise_gpu(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const GpuRates rates(context.facts);
  const ProblemClass& c = context.problem;
  size_t widest = size_of(c.d);
  for (DType t : {c.a, c.b, c.c, c.residual, c.bias}) widest = std::max(widest, size_of(t));
  // If all operands are aligned, a thread takes 16 bytes of the widest one. Otherwise it takes one element,
  // and adjacent threads take adjacent elements.
  const auto vector = c.alignment == Alignment::k16 ? static_cast<int32_t>(16 / widest) : 1;
  for (const GpuRow& row : kGpuRows) {
    const int32_t across = row.across == 0 ? row.threads : row.across;
    GpuRowsConfig config;
    config.threads = row.threads;
    config.register_m = row.rows;
    config.register_n = vector;
    config.tile_m = row.threads / across * row.rows;
    config.tile_n = across * vector;
    if (config.threads > rates.max_threads) {
      reject(context, config, out, "threads ", config.threads, " > ", int64_t(rates.max_threads));
      continue;
    }
    const int32_t resident = rates.resident(row.threads, kThreadRegisters, 1);
    if (resident < 1) {
      reject(context, config, out, kNoPlace);
      continue;
    }
    const double groups = std::ceil(kRows / config.tile_m) * std::ceil(kColumns / config.tile_n);
    const double waves = std::ceil(groups / (rates.units * resident));
    const double memory = kRows * kColumns * bytes_an_element(c) / rates.memory_bytes_per_second;
    const double alone = waves * (kMemorySeconds * row.rows + kStartSeconds);
    append(context, config, rates.launch_seconds + std::max(memory, alone) + 0.1 * std::min(memory, alone),
           resident, out);
  }
}

}  // namespace lathe
