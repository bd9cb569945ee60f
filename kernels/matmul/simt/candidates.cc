// "simt" on GPUs: matmul with f32 FMAs (i8: i32). A workgroup stages tile_m x tile_k of A and tile_k x tile_n
// of B in shared memory as f32; each thread accumulates register_m x register_n of the tile.
#include "kernels/matmul/candidates.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// wave64, wave32: registers of a thread on AMD, in waves of 64 and of 32 lanes. They are the most that LLVM
// 22.1 used in tests/gpu's sweep; its scheduler aims at an occupancy, so it may use more than the kernel needs.
struct Row {
  int32_t tile_m, tile_n, tile_k, threads, register_m, register_n, stages, wave64, wave32;
};
// (tile_m / register_m) * (tile_n / register_n) == threads in every row.
constexpr Row kRows[] = {
    {1, 128, 32, 128, 1, 1, 1, 144, 144},    {2, 128, 32, 128, 2, 1, 1, 160, 144},
    {4, 128, 32, 128, 4, 1, 1, 160, 168},    {8, 64, 32, 128, 2, 2, 1, 104, 120},
    {8, 128, 32, 128, 4, 2, 1, 168, 168},    {16, 64, 32, 128, 4, 2, 1, 128, 144},
    {16, 128, 16, 128, 4, 4, 1, 152, 144},   {32, 64, 16, 128, 4, 4, 1, 128, 144},
    {32, 128, 16, 128, 8, 4, 1, 120, 216},   {64, 64, 16, 256, 4, 4, 1, 112, 120},
    {64, 64, 16, 128, 8, 4, 1, 120, 192},    {64, 64, 32, 256, 4, 4, 1, 128, 144},
    {64, 128, 16, 256, 8, 4, 1, 128, 192},   {64, 128, 16, 128, 8, 8, 1, 168, 216},
    {128, 64, 16, 256, 8, 4, 1, 96, 192},    {128, 128, 8, 256, 8, 8, 1, 128, 168},
    {128, 128, 16, 256, 8, 8, 1, 168, 192},  {128, 128, 32, 256, 8, 8, 1, 240, 240},
    {256, 256, 64, 1024, 8, 8, 1, 256, 256},
};
constexpr int32_t kInvariantDepth = 16;  // batch_invariant: one K order for all M

constexpr int32_t kDecodeRegisters = 16;      // AMD: the most that a block format adds in the same sweep
constexpr int32_t kMaxThreadRegisters = 255;  // CUDA Programming Guide, table of technical specifications
// Share of the FMA rate that barriers and address arithmetic leave; waves that keep an SM or a CU busy.
constexpr double kEfficiency = 0.85, kBusyWaves = 8;
// Shared memory delivers 128 bytes a cycle (CUDA: 32 banks of 4 bytes; CDNA3 ISA guide: 128 bytes). Lanes of
// a wave that read the same row share the read, so that about half of the requested bytes are moved.
constexpr double kSharedBytesPerCycle = 128, kSharedReuse = 2;
// Instructions to stage one element: load, mask, convert, store, and the addresses (estimate); and to decode one of
// a block format, with its share of the scales (estimate).
constexpr double kStagingInstructions = 10, kDecodeInstructions = 6;
// Share of memory bandwidth when elements are read one by one; loads of 16 bytes reach 0.85 to 0.93 (estimate).
constexpr double kMemoryEfficiency = 0.75;

// The most that ptxas 13.0 needs for sm_90a: accumulators, operands, each staged element with its address,
// and the rest.
int32_t thread_registers(const GpuRates& rates, const MatmulSizes& s, const Row& r) {
  if (rates.rocm)
    return (rates.wave == 64 ? r.wave64 : r.wave32) + (s.blocks + s.a_blocks) * kDecodeRegisters;
  const int32_t staged = static_cast<int32_t>(ceil_div((r.tile_m + r.tile_n) * r.tile_k, r.threads));
  return r.register_m * r.register_n + r.register_m + r.register_n + 3 * staged + 48;
}
// As simt/emit.cc allocates: rows of both operands are padded by one vector against bank conflicts, and B
// starts at a whole vector.
double shared_bytes(const Row& r) {
  constexpr int64_t kVector = 4;
  const int64_t a = int64_t{r.tile_m + std::gcd(r.register_m, kVector)} * r.tile_k;
  const int64_t b = int64_t{r.tile_n + std::gcd(r.register_n, kVector)} * r.tile_k;
  return 4.0 * r.stages * (round_up(a, kVector) + b);
}

int32_t resident_of(const GpuRates& rates, const MatmulSizes& s, const Row& r) {
  return rates.resident(r.threads, thread_registers(rates, s, r), shared_bytes(r));
}

std::string check(const GpuRates& rates, const MatmulSizes& s, const Row& r) {
  const auto over = [](const char* what, double value, double limit) {
    return absl::StrCat(what, " ", int64_t(value), " > ", int64_t(limit));
  };
  if (r.threads > rates.max_threads) return over("threads", r.threads, rates.max_threads);
  if (shared_bytes(r) > rates.shared_memory_bytes)
    return over("smem", shared_bytes(r), rates.shared_memory_bytes);
  if (thread_registers(rates, s, r) > kMaxThreadRegisters)
    return over("registers per thread", thread_registers(rates, s, r), kMaxThreadRegisters);
  if (double(thread_registers(rates, s, r)) * r.threads > rates.registers)
    return over("registers per workgroup", double(thread_registers(rates, s, r)) * r.threads,
                rates.registers);
  if (resident_of(rates, s, r) < 1) return kNoPlace;
  if (s.batch_invariant && r.tile_k != kInvariantDepth)
    return absl::StrCat("batch_invariant needs tile_k ", kInvariantDepth, ", not ", r.tile_k);
  // Reject a tile if less than an eighth of its rows would be used. Tiles of at most 8 rows serve M = 1.
  if (!s.batch_invariant && r.tile_m > 8 && r.tile_m > 8 * s.m)
    return absl::StrCat("tile_m ", r.tile_m, " > 8 * M ", s.m);
  return "";
}

double predict(const GpuRates& rates, const MatmulSizes& s, const Row& r, double splits, int32_t split) {
  const double row_tiles = std::ceil(double(s.m) / r.tile_m),
               column_tiles = std::ceil(double(s.n) / r.tile_n);
  const double groups = row_tiles * column_tiles * splits, k = std::ceil(double(s.k) / splits);
  const double steps = std::ceil(k / r.tile_k);
  const double resident = resident_of(rates, s, r);
  const double per_unit = std::ceil(groups / rates.units);  // workgroups that the busiest SM runs
  const double waves = std::min(resident, per_unit) * r.threads / rates.wave;
  // Loads from shared memory, of two values each, take issue slots from the FMAs.
  const double fmas = r.register_m * r.register_n, loads = (r.register_m + r.register_n) / 2.0;
  const double efficiency = kEfficiency * fmas / (fmas + loads) * std::min(1.0, waves / kBusyWaves);

  // CDNA's rate assumes packed FMAs, which LLVM does not form here (tests/gpu/amd_sweep_test.cc).
  const double rate = rates.rocm && rates.wave == 64 ? rates.flops / 2 : rates.flops;
  const double flops = 2.0 * r.tile_m * r.tile_n * steps * r.tile_k;
  const double compute = per_unit * flops / (rate / rates.units * efficiency);
  const double shared = per_unit * r.threads * (r.register_m + r.register_n) * 4.0 * steps * r.tile_k /
                        kSharedReuse / (kSharedBytesPerCycle * rates.clock_hz);
  const double staged =
      (double(r.tile_m) + r.tile_n) * r.tile_k * kStagingInstructions +
      (s.blocks * double(r.tile_n) + s.a_blocks * double(r.tile_m)) * r.tile_k * kDecodeInstructions;
  const double staging = per_unit * steps * staged / rates.wave / (kIssuePerCycle * rates.clock_hz);
  const double latency = std::ceil(per_unit / resident) * (steps + 2) * kMemorySeconds / r.stages;
  const double out_bytes = double(s.m) * s.n * (splits > 1 ? 4 * splits : s.output_bytes);
  const double of_a = double(s.m) * s.k * s.input_bytes, of_b = double(s.n) * s.k * s.b_bytes;
  const double once = of_a + of_b + out_bytes;
  const double moved = column_tiles * of_a + row_tiles * of_b + out_bytes;
  const double memory_rate = kMemoryEfficiency * rates.memory_bytes_per_second;
  const double memory = std::max(once, moved / kL2OverMemory) / memory_rate;
  return rates.launch_seconds + std::max({compute + staging, shared, latency, memory}) +
         gpu_merge_seconds(rates, s, splits, split, row_tiles * column_tiles);
}

}  // namespace

void enumerate_matmul_simt(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const GpuRates rates(context.facts);
  const MatmulSizes s(context.problem);
  for (const Row& r : kRows) {
    SimtConfig config;
    config.tile_m = r.tile_m;
    config.tile_n = r.tile_n;
    config.tile_k = r.tile_k;
    config.register_m = r.register_m;
    config.register_n = r.register_n;
    config.threads = r.threads;
    config.stages = r.stages;
    std::string reason = check(rates, s, r);
    if (reason.empty()) reason = invariance_refusal(context, KernelKind::kSimt);
    for (const DType t : {context.problem.a, context.problem.b})
      if (const int64_t block = block_elements(t); is_blocks(t) && block % r.tile_k != 0)
        reason = absl::StrCat("tile_k ", r.tile_k, " does not divide a block of ", block);
    if (!reason.empty()) {
      out->push_back(rejected(config, std::move(reason)));
      continue;
    }
    const double tiles = double(ceil_div(s.m, r.tile_m)) * ceil_div(s.n, r.tile_n);
    // Splits fill every SM or CU with a few workgroups.
    constexpr double kGroupsPerUnit = 4;
    for (int32_t splits :
         split_options(context, s.k, tiles, kGroupsPerUnit * rates.units, 4 * int64_t{r.tile_k})) {
      for (int32_t split : splits_of(context.facts.target, splits)) {
        config.split = split;
        RankedPlan plan;
        plan.plan.config = config;
        plan.plan.launch.splits = splits;
        plan.plan.predicted_seconds = predict(rates, s, r, splits, split);
        plan.plan.resident = resident_of(rates, s, r);
        plan.plan.numeric_recipe =
            context.problem.a == DType::kI8
                ? kExactRecipe
                : absl::StrCat("fma f32; K ascending in blocks of ", r.tile_k, "; ", merge_recipe(splits));
        out->push_back(std::move(plan));
      }
    }
  }
}

}  // namespace lathe
