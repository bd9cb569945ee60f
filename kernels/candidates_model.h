// Shared by the families' cost models: a device's rates, read from its facts once per enumeration, and how
// tasks are spread over workers. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/candidates.h"

namespace lathe {

// A dependent FMA may start every 4 cycles: Intel since Skylake, Zen 2 and 3, Neoverse V1 (vendors' guides).
constexpr double kFmaLatency = 4;
// Extra cycles to convert a vector of 16-bit floats to f32. vcvtph2ps is two uops on Intel and AMD; bf16 takes
// a zero-extending load and a shift (uops.info). They share ports with the FMAs. NEON: one fcvtl or shll each.
constexpr double kConvertCycles = 1;
constexpr double kPageBytes = 4096;
// Groups of a grouped product that run on a GPU at the same time, each on a part of it.
constexpr double kGroupsAtOnce = 8;
// Taking a task and entering it; waking the workers and waiting for the last one.
constexpr double kTaskSeconds = 0.2e-6;
constexpr double kForkSeconds = 5e-6;

// Elements of K that one lane of a matmul kernel's vectors multiplies at once.
inline int32_t elements_a_lane(const CandidateContext& context) {
  if (has_row_lengths(context.problem.op)) return 1;
  if (context.problem.a == DType::kI8) return 4;
  const Target& target = context.facts.target;
  if (is_blocks(context.problem.b)) return 1;
  const bool bf16 = context.problem.a == DType::kBF16 || context.problem.math == Math::kBf16;
  return bf16 && (target.has("avx512bf16") || target.has("bf16")) ? 2 : 1;
}
// Whether one instruction multiplies four bytes per lane and adds the products.
inline bool multiplies_bytes(const Target& target) {
  return target.has("avx512vnni") || target.has("dotprod");
}

// How many of a dimension's tiles are as large as its largest one.
inline double whole_tiles(double size, double tile) { return std::max(1.0, std::floor(size / tile)); }

struct CpuRates {
  explicit CpuRates(const CandidateContext& context)
      : workers(std::max(context.workers, 1)),
        lanes(vector_lanes(context.facts.target)),
        registers(vector_registers(context.facts.target)),
        late(context.problem.rows == Rows::kIndexed ? 0 : 0.1),  // then workers go on with the next group
        k_per_lane(elements_a_lane(context)),
        rounds_a(context.problem.math == Math::kBf16 && k_per_lane == 2),
        converts_a(context.problem.a != DType::kF32 && k_per_lane == 1),
        converts_b(context.problem.b != DType::kF32 && !is_blocks(context.problem.b) && k_per_lane == 1),
        // Without such an instruction x86 needs two products of 16-bit words and two adds, and also widens
        // the operands; NEON multiplies the bytes one by one.
        product_instructions(k_per_lane != 4 || multiplies_bytes(context.facts.target) ? 1
                             : context.facts.target.arch == "x86-64"                   ? 4
                                                                                       : 16),
        // Vector loads a cycle: two on x86 since Haswell and on Neoverse N1, three on V1 and V2 (vendors'
        // guides, and LLVM's scheduling models, which are made from Arm's). Four FMA units identify V1 and V2.
        loads_per_cycle(
            context.facts.target.arch == "aarch64" && context.facts.fact_or("fma_units", 2) >= 4 ? 3 : 2),
        clock_hz(context.facts.fact_or("clock_hz", 2.5e9)),
        fma_units(context.facts.fact_or("fma_units", 2)),
        l1d_bytes(context.facts.fact_or("l1d_bytes", 32 << 10)),
        l2_bytes(context.facts.fact_or("l2_bytes", 512 << 10)),
        l3_bytes(context.facts.fact_or("l3_bytes", 8 << 20)),
        core_bytes_per_second(context.facts.fact_or("core_bytes_per_second", 10e9)),
        memory_bytes_per_second(context.facts.fact_or("memory_bytes_per_second", 20e9)),
        prefetches_into_l1(context.facts.fact_or("prefetch_into_l1", 0) > 0),
        pace_bytes_per_second(context.facts.fact_or("pace_bytes_per_second", 0)),
        ahead_bytes_per_second(context.facts.fact_or("ahead_bytes_per_second", core_bytes_per_second)),
        stream_bytes_per_second(context.facts.fact_or("stream_bytes_per_second", ahead_bytes_per_second)) {}

  // Rate at which each of `tasks` (at most `workers` of them) can read memory while the others read, too.
  double bandwidth(double tasks) const {
    return std::min(core_bytes_per_second, memory_bytes_per_second / std::min<double>(workers, tasks));
  }
  // FMAs of full vectors a cycle with that many independent accumulators. One cycle is added to the latency,
  // because the loads in between make the issue uneven.
  double fma_rate(double accumulators) const { return std::min(fma_units, accumulators / (kFmaLatency + 1)); }
  // Computing and reading memory overlap, but not fully: a quarter of the shorter of the two stays exposed.
  // Fitted to dot kernels of 16 rows.
  static double overlap(double compute_seconds, double memory_seconds) {
    return std::max(compute_seconds, memory_seconds) + 0.25 * std::min(compute_seconds, memory_seconds);
  }
  // Cycles of one step of a register tile: the longer of FMAs and loads, which go to different ports, and the shorter.
  struct Step {
    double longer, shorter;
  };
  Step step(double accumulators, double loads) const {
    const double arithmetic = accumulators * product_instructions / fma_rate(accumulators);
    const double load = loads / loads_per_cycle;
    return {std::max(arithmetic, load), std::min(arithmetic, load)};
  }
  // The same as one number, with conversions: all share the front end.
  double step_cycles(double accumulators, double loads, double converted) const {
    const Step s = step(accumulators, loads);
    return s.longer + 0.1 * s.shorter + converted * kConvertCycles;
  }
  bool loses_by_fetching() const { return ahead_bytes_per_second < core_bytes_per_second; }
  const char* product_recipe() const {
    if (rounds_a) return "A rounded to bf16, bf16 pairs to f32";
    return k_per_lane == 2 ? "bf16 pairs to f32" : "fma f32";
  }
  // Workers take tasks as they become free, and the last worker ends late by part of a task. `whole` tasks take as long
  // as the largest one, and the busiest worker has its share of them. If one task alone is shorter, it comes last.
  // `task_seconds`: to take a task and enter it.
  double schedule_seconds(double tasks, double average, double largest, double whole,
                          double task_seconds = kTaskSeconds) const {
    if (workers == 1 || tasks <= 1) return tasks * (average + task_seconds);
    const double rounds = std::ceil(tasks / workers), whole_rounds = std::ceil(whole / workers);
    double busiest = std::max({largest, rounds * average, whole_rounds * largest});
    if (tasks - whole == 1 && whole_rounds < rounds)
      busiest = whole_rounds * largest + tasks * average - whole * largest;
    return busiest + late * largest + rounds * task_seconds + kForkSeconds;
  }

  int32_t workers, lanes, registers;
  double late;                  // how long the others wait for the last worker, in tasks
  int32_t k_per_lane;           // see elements_a_lane
  bool rounds_a;                // f32 A is rounded to bf16
  bool converts_a, converts_b;  // elements are converted to f32
  double product_instructions;  // instructions for a vector of products
  double loads_per_cycle, clock_hz, fma_units, l1d_bytes, l2_bytes, l3_bytes;
  double core_bytes_per_second, memory_bytes_per_second;
  bool prefetches_into_l1;         // software prefetches should bring lines into L1 (Zen 5), not only into L2
  double pace_bytes_per_second;    // rate that loops over memory are throttled to; 0: no throttle
  double ahead_bytes_per_second;   // with software prefetch
  double stream_bytes_per_second;  // of a single stream
};

// Latency of a load from memory: about half a microsecond on Hopper, more on CDNA3 (estimate).
constexpr double kMemorySeconds = 0.6e-6;
// L2 delivers about twice as much as memory.
constexpr double kL2OverMemory = 2;

// Instructions that an SM or CU starts per cycle. Each of its four parts could start one; in code that moves
// elements one by one, waits and bank conflicts leave about 2.5 (estimate).
constexpr double kIssuePerCycle = 2.5;

// The reason for rejecting a plan for which resident() is 0.
constexpr char kNoPlace[] = "a workgroup does not fit on a compute unit";

struct GpuRates {
  explicit GpuRates(const DeviceFacts& facts)
      : rocm(facts.target.backend == Backend::kRocm),
        wave(wave_size(facts.target)),
        units(std::max(1.0, facts.fact_or("compute_units", 64))),
        clock_hz(facts.fact_or("clock_hz", 1.5e9)),
        memory_bytes_per_second(facts.fact_or("memory_bytes_per_second", 1e12)),
        l2_bytes(facts.fact_or("l2_bytes", 4 << 20)),
        shared_memory_bytes(facts.fact_or("shared_memory_bytes", 48 << 10)),
        registers(facts.fact_or("registers_per_unit", 65536)),
        threads_per_unit(facts.fact_or("threads_per_unit", 2048)),
        max_threads(std::min(facts.fact_or("max_workgroup_size", 1024), threads_per_unit)),
        launch_seconds(facts.fact_or("launch_seconds", 3e-6)),
        flops(facts.fact_or("flops_f32", 10e12)) {}

  // Workgroups that fit on an SM or CU together. CUDA: at least one.
  int32_t resident(int64_t threads, int64_t thread_registers, double shared_bytes) const {
    if (rocm) return amd_resident(threads, thread_registers, shared_bytes);
    const double file =
        double(round_up(thread_registers, 8) * threads);  // units of 8 (CUDA C++ Programming Guide)
    return static_cast<int32_t>(std::max(
        1.0, std::min({shared_memory_bytes / shared_bytes, registers / file, threads_per_unit / threads})));
  }
  // SIMDs of a CU: four on CDNA, two on RDNA (CDNA3 and RDNA3 instruction set guides).
  double simds() const { return wave == 64 ? 4 : 2; }

  bool rocm;
  int32_t wave;
  double units, clock_hz, memory_bytes_per_second, l2_bytes, shared_memory_bytes, registers;
  double threads_per_unit, max_threads;  // of an SM or CU, and of a workgroup
  double launch_seconds, flops;

 private:
  // A wave's registers all come from one SIMD, which allocates them per lane in steps of 8 (CDNA) or of 24
  // out of 1536 (RDNA). LDS is allocated in steps of 1/128 (512 bytes of 64 KB, 1280 of 160 KB), and there
  // are barriers for 16 workgroups (LLVM's AMDGPUBaseInfo).
  int32_t amd_resident(int64_t threads, int64_t thread_registers, double shared_bytes) const {
    constexpr double kGroups = 16;
    const auto granule = static_cast<double>(round_up(thread_registers, wave == 64 ? 8 : 24));
    const double lanes = simds() * wave, most = threads_per_unit / lanes;  // most: waves of a SIMD
    const double waves = simds() * std::min(most, std::floor(registers / lanes / granule));
    const double step = shared_memory_bytes / 128, shared = std::ceil(shared_bytes / step) * step;
    const double by_waves = waves * wave / double(threads);
    return static_cast<int32_t>(std::min({kGroups, by_waves, shared_memory_bytes / shared}));
  }
};

// Who may merge the partial results of so many splits: the last workgroup to arrive, or a second step. On
// ROCm the last workgroup may do so only if one L2 serves the device, and it ran only in an emulator. CDNA
// has an L2 per die, so a second step merges there until hardware has shown that other workgroups' stores are
// visible after the ticket.
using SplitKinds = absl::InlinedVector<int32_t, 2>;
inline bool may_merge_last(const Target& target) {
  return target.backend == Backend::kCuda ||
         (target.backend == Backend::kRocm &&
          (absl::StartsWith(target.arch, "gfx11") || absl::StartsWith(target.arch, "gfx12")));
}
inline SplitKinds splits_of(const Target& target, int32_t splits) {
  if (splits == 1) return {kNoSplit};
  return may_merge_last(target) ? SplitKinds{kMergeLast, kMergeStep} : SplitKinds{kMergeStep};
}

// The M at which a class is priced: the bucket's upper end, or 2048 if it is open.
inline int64_t representative_m(const ProblemClass& c) {
  return c.m_hi < Bucket::kOpenEnd ? c.m_hi : std::max<int64_t>(c.m_lo, 2048);
}

// The number of splits of `length` if each but the last is the same multiple of `granularity` and none is
// empty. A launch computes the same.
inline int32_t normalize_splits(int64_t length, int64_t wanted, int64_t granularity) {
  const int64_t chunk = round_up(ceil_div(length, std::max<int64_t>(wanted, 1)), granularity);
  return static_cast<int32_t>(std::max<int64_t>(1, ceil_div(length, std::max<int64_t>(chunk, 1))));
}

// Split factors worth pricing, in ascending order: only the forced one, or else 1 and, if `tasks` leave
// workers idle, those that fill the workers once and twice with chunks of at least `least_chunk`. GPUs also
// get factors that leave some SMs idle, because every split makes the merge longer, and no factor overfills a
// wave of workgroups.
using SplitOptions = absl::InlinedVector<int32_t, 5>;
inline SplitOptions split_options(const CandidateContext& context, int64_t length, double tasks,
                                  double workers, int64_t least_chunk) {
  const ProblemClass& c = context.problem;
  const int64_t piece = c.packed_b != kNotPacked ? packed_word(c.b) : block_elements(c.b);
  if (context.split_k > 0) return {normalize_splits(length, context.split_k, piece)};
  SplitOptions options = {1};
  if (context.problem.determinism == Determinism::kBatchInvariant || tasks >= workers) return options;
  const bool cpu = context.facts.target.backend == Backend::kCpu;
  for (double rounds : {0.25, 0.5, 1.0, 2.0}) {
    if (cpu && rounds < 1) continue;
    const double filling = rounds * workers / tasks;
    const auto wanted = static_cast<int64_t>(cpu ? std::ceil(filling) : std::floor(filling));
    const int32_t splits = normalize_splits(length, std::min(wanted, length / least_chunk), piece);
    if (splits > options.back()) options.push_back(splits);
  }
  return options;
}

// The end of every numeric recipe.
inline std::string merge_recipe(int32_t splits) {
  return splits > 1 ? absl::StrCat(splits, " splits; merged in ascending order") : "1 split; no merge";
}

inline RankedPlan rejected(CompileConfig config, std::string reason) {
  RankedPlan r;
  r.plan.config = std::move(config);
  r.rejection = std::move(reason);
  return r;
}

// Appends the row as rejected if rejected plans are wanted. `reason`: arguments for absl::StrCat.
template <typename... Reason>
void reject(const CandidateContext& context, const CompileConfig& config, std::vector<RankedPlan>* out,
            const Reason&... reason) {
  if (context.wants_rejected()) out->push_back(rejected(config, absl::StrCat(reason...)));
}
// The same for a kernel before its numbers are known.
template <typename... Reason>
void reject(const CandidateContext& context, KernelKind kernel, std::vector<RankedPlan>* out,
            const Reason&... reason) {
  const ConfigFamily family = family_of(kernel, context.problem.op, context.facts.target.backend);
  reject(context, CompileConfig(family, kernel), out, reason...);
}

}  // namespace lathe
