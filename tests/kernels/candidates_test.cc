// The families' tables: every legal row keeps the device's limits, no prediction beats the device's roofline,
// and two predictions are worked out by hand.
#include "kernels/candidates.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/packed.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/dot.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

std::vector<RankedPlan> candidates(const ProblemClass& c, const DeviceFacts& facts, int32_t workers = 1,
                                   int32_t split_k = 0) {
  std::vector<RankedPlan> out;
  const CandidateContext context{c, facts, workers, split_k};
  for (const KernelFamily& family : kernel_families())
    if (family.op == c.op && family.backend == facts.target.backend) family.enumerate(context, &out);
  return out;
}

std::vector<ProblemClass> sample_classes() {
  std::vector<ProblemClass> classes;
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {8, 4096}, {456, 51234}, {4096, 4096}, {17, 8191}, {128256, 4096}})
    for (int64_t m : {1, 2, 3, 5, 8, 13, 16, 17, 33, 65, 129, 257, 4000})
      for (DType t : {DType::kF32, DType::kBF16})
        for (int layout = 0; layout < 4; ++layout) {
          ProblemClass c = matmul_class(t, t, n, k, m_bucket(m));
          c.trans_a = layout & 1;
          c.trans_b = layout >> 1;
          classes.push_back(c);
        }
  return classes;
}

void check_cpu_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  const int lanes = vector_lanes(f.target), registers = vector_registers(f.target);
  EXPECT_EQ(c.lanes, lanes);
  EXPECT_GE(c.register_m, 1);
  EXPECT_GE(c.register_n, 1);
  EXPECT_EQ(c.tile_m % c.register_m, 0);
  EXPECT_EQ(c.tile_n % c.register_n, 0);
  if (c.kernel == "dot" || c.kernel == "dot_t") {
    EXPECT_LE(c.register_m * c.register_n + std::min(c.register_m, c.register_n) + 1, registers);
    EXPECT_EQ(p.trans_b, 1);
    EXPECT_EQ(p.trans_a, 0);
    if (c.kernel == "dot")
      EXPECT_GE(c.tile_m, p.m_hi);
    else
      EXPECT_GE(c.tile_n, p.n);
  } else {
    // What is read as vectors: columns of D, and its rows in the transposed form.
    const bool transposed = c.kernel == "panel_t" || c.kernel == "direct";
    const int scalars = transposed ? c.register_n : c.register_m;
    const int vector_elements = transposed ? c.register_m : c.register_n;
    ASSERT_EQ(vector_elements % lanes, 0);
    const int vectors = vector_elements / lanes;
    EXPECT_LE(scalars * vectors + vectors + 1, registers);
  }
  if (c.kernel == "outer") {
    EXPECT_EQ(p.trans_b, 0);
    EXPECT_GE(c.tile_m, p.m_hi);
  }
  if (c.kernel == "panel" || c.kernel == "panel_t") {
    EXPECT_GT(c.tile_k, 0);
    const bool pairs = p.a == DType::kBF16 && (f.target.has("avx512bf16") || f.target.has("bf16"));
    const int per_lane = p.a == DType::kI8 ? 4 : pairs ? 2 : 1;  // of 4 bytes
    EXPECT_EQ(c.tile_k % (lanes * per_lane), 0);
    const int packed = c.kernel == "panel" ? c.tile_n + c.register_m : c.tile_m + c.register_n;
    EXPECT_LE(packed * c.tile_k * 4.0 / per_lane, 0.75 * f.fact_or("l2_bytes", 0));
  }
}

// Tiles of warps, stages of both operands in shared memory.
void check_mma_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  const int wave = wave_size(f.target), edge = c.kernel == "mma32" ? 32 : 16;
  EXPECT_TRUE(f.target.backend == Backend::kRocm || c.kernel == "mma");
  EXPECT_EQ((c.tile_m / c.register_m) * (c.tile_n / c.register_n) * wave, c.threads);
  EXPECT_EQ(c.tile_m % c.register_m, 0);
  EXPECT_EQ(c.tile_n % c.register_n, 0);
  EXPECT_EQ(c.register_m % edge, 0);
  EXPECT_EQ(c.register_n % edge, 0);
  const double element = size_of(p.a);
  EXPECT_EQ(static_cast<int>(c.tile_k * element) % 32, 0);
  EXPECT_GE(c.stages, 2);
  EXPECT_LE(c.stages * (c.tile_m + c.tile_n) * c.tile_k * element, f.fact_or("shared_memory_bytes", 0));
  EXPECT_LE(c.threads, f.fact_or("max_workgroup_size", 0));
  EXPECT_LE(c.register_m * c.register_n / wave, 128);
}

// The tile is all of K; the ukernel stages unroll_k of it at a time.
void check_ukernel_limits(CompileConfig c, const ProblemClass& p, const DeviceFacts& f) {
  EXPECT_GE(c.tile_k, p.k);
  c.kernel = "mma", c.tile_k = c.unroll_k;
  check_mma_limits(c, p, f);
}

// Subgroups of 16 lanes, matrix instructions of 8 x 16 x 16, 128 registers of 16 lanes a thread.
void check_xegpu_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  EXPECT_TRUE(f.target.arch == "pvc" || f.target.arch == "bmg") << f.target.arch;
  EXPECT_TRUE(p.a == DType::kF16 || p.a == DType::kBF16);
  EXPECT_EQ(p.trans_a, 0);
  EXPECT_EQ(p.alignment, Alignment::k16);
  EXPECT_GE(std::min(p.k, p.trans_b ? p.k : p.n), 32) << "rows of 64 bytes";
  EXPECT_EQ((p.k | (p.trans_b ? p.k : p.n)) % 2, 0) << "rows of whole 4 bytes";
  EXPECT_EQ((c.tile_m / c.register_m) * (c.tile_n / c.register_n) * 16, c.threads);
  EXPECT_EQ(c.tile_m % c.register_m, 0);
  EXPECT_EQ(c.tile_n % c.register_n, 0);
  EXPECT_EQ(c.register_m % 8, 0);
  EXPECT_EQ(c.register_n % 16, 0);
  EXPECT_EQ(c.tile_k % 16, 0);
  EXPECT_LE(c.threads, f.fact_or("max_workgroup_size", 0));
  // Sums, and both operands of one step of K.
  EXPECT_LE((c.register_m * c.register_n + (c.register_m + c.register_n) * 16 / 2) / 16, 128);
}

void check_simt_limits(const CompileConfig& c, const DeviceFacts& f) {
  EXPECT_EQ(c.kernel, "simt");
  EXPECT_EQ((c.tile_m / c.register_m) * (c.tile_n / c.register_n), c.threads);
  EXPECT_EQ(c.tile_m % c.register_m, 0);
  EXPECT_EQ(c.tile_n % c.register_n, 0);
  EXPECT_EQ(c.threads % wave_size(f.target), 0);
  EXPECT_LE(c.threads, f.fact_or("max_workgroup_size", 0));
  // Rows are padded by a vector of up to four elements.
  const double rows = c.tile_m + std::gcd(c.register_m, 4) + c.tile_n + std::gcd(c.register_n, 4);
  EXPECT_LE(4.0 * c.stages * rows * c.tile_k, f.fact_or("shared_memory_bytes", 0));
  EXPECT_LE(c.register_m * c.register_n + c.register_m + c.register_n, 255);
}

TEST(Candidates, LegalRowsKeepTheDevicesLimits) {
  for (const DeviceFacts& f : shipped_facts())
    for (const ProblemClass& c : sample_classes())
      for (const RankedPlan& r : candidates(c, f, 4)) {
        if (!r.rejection.empty()) continue;
        if (f.target.backend == Backend::kCpu)
          check_cpu_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel == "mma" || r.plan.config.kernel == "mma32")
          check_mma_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel == "ukernel")
          check_ukernel_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel == "xegpu")
          check_xegpu_limits(r.plan.config, c, f);
        else
          check_simt_limits(r.plan.config, f);
        EXPECT_EQ(r.plan.config.split != kNoSplit, r.plan.launch.splits > 1);
        EXPECT_GE(r.plan.launch.splits, 1);
        EXPECT_LE(r.plan.launch.splits, c.k);
        EXPECT_FALSE(r.plan.numeric_recipe.empty());
        // The text takes longer than the checks: written for a failure alone.
        if (HasFailure())
          FAIL() << f.name << " " << to_json(c).dump() << " " << to_json(r.plan.config).dump();
      }
}

// Neither the arithmetic nor the bytes that must move can be had faster, whatever the kernel.
TEST(Candidates, NoPredictionBeatsTheRoofline) {
  constexpr int32_t kWorkers = 8;
  for (const DeviceFacts& f : shipped_facts()) {
    const bool cpu = f.target.backend == Backend::kCpu;
    const double bandwidth = f.fact_or("memory_bytes_per_second", 0);
    for (const ProblemClass& c : sample_classes()) {
      const double flops_f32 =
          cpu ? kWorkers * 2.0 * vector_lanes(f.target) * f.fact_or("fma_units", 0) * f.fact_or("clock_hz", 0)
              : f.fact_or("flops_f32", 0);
      // CDNA's matrix units multiply f32 too, at a quarter of f16's rate at most (CDNA2's).
      const double matrix = f.fact_or("flops_matrix_f16", 0);
      const double f32_most =
          f.target.backend == Backend::kRocm ? std::max(flops_f32, matrix / 4) : flops_f32;
      // AVX512-BF16 multiplies twice as many bf16, AVX512-VNNI four times as many bytes.
      const double wider = c.a == DType::kBF16 && (f.target.has("avx512bf16") || f.target.has("bf16"))    ? 2
                           : c.a == DType::kI8 && (f.target.has("avx512vnni") || f.target.has("dotprod")) ? 4
                                                                                                          : 1;
      const double flops_most = cpu ? wider * f32_most : c.a == DType::kF32 ? f32_most : matrix;
      const auto floor_at = [&](double m, double flops) {
        const double n = c.n, k = c.k;
        const double bytes = (m * k + k * n) * size_of(c.a) + m * n * size_of(c.d);
        return std::max(2 * m * n * k / flops, bytes / bandwidth);
      };
      // The lower end of the bucket: less work than whichever M stands for it.
      const double floor = floor_at(c.m_lo, flops_most);
      double best = 1e9;
      for (const RankedPlan& r : candidates(c, f, kWorkers)) {
        if (!r.rejection.empty()) continue;
        ASSERT_TRUE(std::isfinite(r.plan.predicted_seconds));
        ASSERT_GE(r.plan.predicted_seconds, floor)
            << f.name << " " << to_json(c).dump() << " " << to_json(r.plan.config).dump();
        best = std::min(best, r.plan.predicted_seconds);
      }
      // Nor may the best be absurd: 2048 rows, the most that is priced, over 8 columns waste half of every
      // vector. Operands aligned to an element alone may have to do without matrix instructions.
      const double most = floor_at(std::min<double>(c.m_hi, 2048), flops_f32);
      ASSERT_LT(best, 20 * most + 50e-6) << f.name << " " << to_json(c).dump();
    }
  }
}

TEST(Candidates, HalfPrecisionWeightsStreamFaster) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  auto best = [&](DType t) {
    ProblemClass c = matmul_class(t, DType::kF32, 4096, 4096, {1, 1});
    c.trans_b = 1;
    double seconds = 1;
    for (const RankedPlan& r : candidates(c, f))
      if (r.rejection.empty()) seconds = std::min(seconds, r.plan.predicted_seconds);
    return seconds;
  };
  EXPECT_LT(best(DType::kF16), 0.75 * best(DType::kF32));
  EXPECT_GT(best(DType::kF16), 0.45 * best(DType::kF32));
}

DeviceFacts synthetic(const std::string& target, const std::map<std::string, double>& values) {
  DeviceFacts f;
  f.name = "synthetic";
  f.target = parse_target(target).value();
  for (const auto& [name, value] : values) f.facts[name] = {value, "test"};
  return f;
}

// 1x512x1024 f32, one worker, 1 GHz, 1 GB/s: four tasks of 128 columns.
//   a task: 16 groups of 8 columns x (64 vectors of K x 7.45 cycles + 8 sums x 5 to add their lanes) = 8268.8
//   cycles, where 7.45 = 8 FMAs that wait for 5 cycles of latency, a tenth of 9 loads at 2 a cycle, and A's
//   line out of L2, since A and 8 rows of B are more than L1; it reads 129 rows of 4096 bytes and writes 512:
//   528,896 bytes, 528.896 us, and for every byte of B 600 / 4096 more for rows side by side and 4.1e-12 *
//   1e9 for each of A's bytes, an eighth; a quarter of the 8.2688 us shows; and costs 0.2 us to start.
TEST(Candidates, DotPredictionByHand) {
  const DeviceFacts f = synthetic("x86-64-avx512", {{"clock_hz", 1e9},
                                                    {"fma_units", 2},
                                                    {"l1d_bytes", 32768},
                                                    {"l2_bytes", 1 << 20},
                                                    {"l3_bytes", 1 << 24},
                                                    {"memory_bytes_per_second", 1e9},
                                                    {"core_bytes_per_second", 1e9}});
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 512, 1024, {1, 1});
  c.trans_b = 1;
  int found = 0;
  for (const RankedPlan& r : candidates(c, f)) {
    const CompileConfig& g = r.plan.config;
    if (!r.rejection.empty() || g.kernel != "dot" || g.register_n != 8 || g.tile_n != 128) continue;
    ++found;
    const double lost = 600.0 / 4096 + 4.1e-3 / 8;
    EXPECT_NEAR(r.plan.predicted_seconds, 4 * (528.896e-6 * (1 + lost) + 0.25 * 8.2688e-6 + 0.2e-6), 1e-12);
  }
  EXPECT_EQ(found, 1);
}

DeviceFacts zen4() {
  return synthetic("x86-64-avx512bf16", {{"clock_hz", 3.55e9},
                                         {"fma_units", 1},
                                         {"l1d_bytes", 32 << 10},
                                         {"l2_bytes", 1 << 20},
                                         {"l3_bytes", 32 << 20},
                                         {"memory_bytes_per_second", 460.8e9},
                                         {"core_bytes_per_second", 25e9},
                                         {"pace_bytes_per_second", 35e9}});
}

// Twice the FMAs of Zen 4, and a core that reads faster.
DeviceFacts zen5() {
  return synthetic("x86-64-avx512bf16", {{"clock_hz", 3.9e9},
                                         {"fma_units", 2},
                                         {"l1d_bytes", 48 << 10},
                                         {"l2_bytes", 1 << 20},
                                         {"l3_bytes", 32 << 20},
                                         {"memory_bytes_per_second", 576e9},
                                         {"core_bytes_per_second", 40e9}});
}

// The config of least predicted time for M rows of a Linear layer.
CompileConfig cheapest(DType type, int64_t m, int64_t n, int64_t k, const DeviceFacts& facts = zen4()) {
  ProblemClass c = matmul_class(type, type, n, k, {m, m});
  c.trans_b = 1;
  if (type == DType::kI8) c.d = DType::kI32;
  const std::vector<RankedPlan> all = candidates(c, facts);
  const RankedPlan* best = nullptr;
  for (const RankedPlan& r : all)
    if (r.rejection.empty() && (!best || r.plan.predicted_seconds < best->plan.predicted_seconds)) best = &r;
  return best ? best->plan.config : CompileConfig();
}

// What a short row of B is costs a single row of A more than waiting for one column's sum.
TEST(Candidates, ASingleRowReadsShortRowsOneAfterTheOther) {
  for (const auto& [type, k] :
       {std::pair{DType::kF32, 512}, {DType::kF32, 1024}, {DType::kBF16, 1536}, {DType::kI8, 4096}}) {
    const CompileConfig c = cheapest(type, 1, 8192, k);
    EXPECT_EQ(c.kernel, "dot") << name_of(type);
    EXPECT_EQ(c.register_n, 1) << name_of(type) << " k " << k;
  }
  EXPECT_GT(cheapest(DType::kF32, 1, 4096, 4096).register_n, 1);
}

// 5 rows of 1024 and as much of 2 columns lie in 32 KiB, of 4 they do not.
TEST(Candidates, FewColumnsLeaveARowsInL1) { EXPECT_EQ(cheapest(DType::kF32, 5, 8192, 1024).register_n, 2); }

// What measuring all candidates found there: a core that reads slowly gains by more rows of B side by side,
// and what L1 takes of 4 rows and 6 columns fits beside their products, while A and B fit L2.
TEST(Candidates, FewRowsOnZen4) {
  const auto best = [](int64_t m, int64_t n, int64_t k) { return cheapest(DType::kF32, m, n, k); };
  EXPECT_EQ(best(1, 4096, 4096).register_n, 8);
  EXPECT_EQ(best(2, 4096, 4096).register_n, 8);
  for (int64_t m : {4, 5, 8, 12}) {
    EXPECT_EQ(best(m, 4096, 4096).kernel, "dot") << m;
    EXPECT_EQ(best(m, 4096, 4096).register_m * best(m, 4096, 4096).register_n, m == 5 ? 20 : 24) << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 0) << m;
  }
  for (int64_t m : {1, 2, 3})
    EXPECT_EQ(best(m, 4096, 4096).stages, static_cast<int32_t>(DotFetch::kAhead)) << m;
  EXPECT_EQ(best(4, 4096, 14336).stages,
            static_cast<int32_t>(DotFetch::kAhead));  // L2 would lose what is next
  for (int64_t m : {4, 8, 12})
    EXPECT_EQ(best(m, 4096, 4096).stages, static_cast<int32_t>(DotFetch::kNext)) << m;
  EXPECT_EQ(best(6, 4096, 4096).register_m, 6);
  EXPECT_GT(best(8, 2048, 14336).tile_k, 0);
  EXPECT_EQ(best(8, 8192, 1024).register_m, 8);
  for (int64_t m : {16, 32, 64}) {
    EXPECT_EQ(best(m, 4096, 4096).kernel, "direct") << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 65536 / m) << m;  // a quarter of L2
  }
}

// K by N, rows of A a multiple of 4 KiB apart: more of them than a set of L1 has ways cost what L2 does.
TEST(Candidates, RowsInOneSetOfL1AreNotTakenManyAtOnce) {
  const auto best = [](int64_t k, int32_t rows, int32_t columns) {
    double seconds = 1;
    for (const RankedPlan& r :
         candidates(matmul_class(DType::kF32, DType::kF32, 4096, k, {16, 16}), zen4())) {
      const CompileConfig& c = r.plan.config;
      if (r.rejection.empty() && c.kernel == "outer" && c.register_m == rows && c.register_n == columns)
        seconds = std::min(seconds, r.plan.predicted_seconds);
    }
    EXPECT_LT(seconds, 1) << rows;
    return seconds;
  };
  EXPECT_GT(best(4096, 16, 16), 1.5 * best(4096, 8, 48));
  EXPECT_LT(best(4112, 16, 16), 1.1 * best(4112, 8, 48));
}

// Loops that would outrun memory are held to its rate, in whole links of a chain: those that the arithmetic
// or a weight in blocks holds longer are not, nor is any where no rate is known.
TEST(Candidates, LoopsOverMemoryAreHeldToItsRate) {
  const DeviceFacts held = zen4();
  DeviceFacts free = held;
  free.facts.erase("pace_bytes_per_second");
  for (int64_t m : {1, 2, 3, 4, 5}) {
    const CompileConfig c = cheapest(DType::kF32, m, 6144, 4096, held);
    EXPECT_GT(c.pace, 0) << m;
    EXPECT_EQ(c.pace % kPaceLinkCycles, 0) << m;
    // Of the columns' lines, one each, at 3.55 GHz / 35 GB/s a byte.
    EXPECT_NEAR(c.pace, c.unroll_k * c.register_n * 64 * 3.55 / 35, kPaceLinkCycles) << m;
    EXPECT_EQ(cheapest(DType::kF32, m, 6144, 4096, free).pace, 0) << m;
  }
  EXPECT_EQ(cheapest(DType::kF32, 16, 6144, 4096, held).pace, 0);
  // A row of an odd number of lines goes line by line, in half a link more.
  const CompileConfig even = cheapest(DType::kI8, 1, 5120, 2944, held);
  const CompileConfig odd = cheapest(DType::kI8, 1, 5120, 2880, held);
  for (const CompileConfig& c : {even, odd}) EXPECT_EQ(c.register_n, 1);
  EXPECT_EQ(even.unroll_k, 2);
  EXPECT_EQ(even.pace, 12);
  EXPECT_EQ(odd.unroll_k, 1);
  EXPECT_EQ(odd.pace, 6);
  EXPECT_EQ(cheapest(DType::kI8, 1, 5120, 2880, free).unroll_k, 2);
  // A rate that no request could carry is as good as the slowest that one can.
  DeviceFacts slow = held;
  slow.facts["pace_bytes_per_second"].value = 1e6;
  ProblemClass streamed = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {1, 1});
  streamed.trans_b = 1;
  for (const int16_t packed : {kNotPacked, kColumns16}) {
    streamed.packed_b = packed;
    for (const RankedPlan& r : candidates(streamed, slow)) EXPECT_LE(r.plan.config.pace, kMostPace);
  }
  ProblemClass blocks = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {1, 1});
  blocks.trans_b = 1;
  blocks.b = DType::kQ4_0;
  int found = 0;
  for (const RankedPlan& r : candidates(blocks, held)) {
    if (!r.rejection.empty()) continue;
    EXPECT_EQ(r.plan.config.pace, 0);
    ++found;
  }
  EXPECT_GT(found, 0);
}

// Few columns: the rows of A, of which there are more, are streamed.
TEST(Candidates, NarrowWeightsAreMultipliedTurned) {
  for (int64_t n : {8, 17}) {
    const CompileConfig c = cheapest(DType::kF32, 512, n, 4096);
    EXPECT_EQ(c.kernel, "dot_t") << n;
    EXPECT_EQ(c.pace, 0) << "A comes from caches";
  }
  EXPECT_NE(cheapest(DType::kF32, 8, 17, 4096).kernel, "dot_t");
}

// What measuring all candidates found there: rows of A from L2 are in B's way from 7 rows of 4096 on, few
// rows of B do better with what comes next in L2, padding 8 rows to 16 costs what one pass over B does not
// save, seven rows of B lose lines of L1, and 8 sums wait for each other.
TEST(Candidates, FewRowsOnZen5) {
  const auto best = [](int64_t m) { return cheapest(DType::kF32, m, 4096, 4096, zen5()); };
  for (int64_t m : {1, 2, 3, 4, 5, 6}) {
    EXPECT_EQ(best(m).kernel, "dot") << m;
    EXPECT_EQ(best(m).register_m, m);
    EXPECT_EQ(best(m).register_n, m == 3 || m == 4 ? 6 : 4) << m;
    EXPECT_EQ(best(m).stages, static_cast<int32_t>(DotFetch::kNear)) << m;
  }
  for (int64_t m : {7, 8, 10, 12}) {
    EXPECT_EQ(best(m).kernel, "dot") << m;
    EXPECT_GT(best(m).tile_k, 0) << m;
    EXPECT_EQ(best(m).register_m, m);
    EXPECT_EQ(best(m).stages, static_cast<int32_t>(DotFetch::kBoth)) << m;
  }
  for (int64_t m : {16, 24, 32}) {
    EXPECT_EQ(best(m).kernel, "direct") << m;
    EXPECT_EQ(best(m).register_n, 6) << m;
    EXPECT_LT(best(m).tile_k, 4096) << m;
  }
}

TEST(Candidates, BlocksOfKAreAsLongAsEachOther) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 8192, 1024, {5, 5});
  c.trans_b = 1;
  int found = 0;
  for (const RankedPlan& r : candidates(c, zen4())) {
    const CompileConfig& g = r.plan.config;
    if (!r.rejection.empty() || g.kernel != "dot" || g.tile_k == 0) continue;
    EXPECT_LT(ceil_div(1024, g.tile_k) * g.tile_k - 1024, 16 * ceil_div(1024, g.tile_k)) << g.tile_k;
    ++found;
  }
  EXPECT_GT(found, 0);
}

// 64x640x1024 f32 on ten units at 1 GHz and 128 FMA lanes: one workgroup of 64x64 a unit, 8 waves, FMAs at
// 0.85 of 16 / (16 + 4) for the loads beside them: 8,388,608 flops at 0.68 of 256e9 a second.
TEST(Candidates, SimtPredictionByHand) {
  const DeviceFacts f = synthetic("sm_90a", {{"compute_units", 10},
                                             {"clock_hz", 1e9},
                                             {"memory_bytes_per_second", 1e12},
                                             {"l2_bytes", 1 << 20},
                                             {"shared_memory_bytes", 65536},
                                             {"registers_per_unit", 65536},
                                             {"max_workgroup_size", 1024},
                                             {"launch_seconds", 1e-6},
                                             {"flops_f32", 2.56e12}});
  const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 640, 1024, {33, 64});
  int found = 0;
  for (const RankedPlan& r : candidates(c, f)) {
    const CompileConfig& g = r.plan.config;
    if (!r.rejection.empty() || g.tile_m != 64 || g.tile_n != 64 || g.tile_k != 16 || g.threads != 256 ||
        g.split != 0)
      continue;
    ++found;
    // Every unit stages 1024 elements of 64 rows and 64 columns: 10 instructions for each 32, 2.5 a cycle.
    const double staging = 1024 * 128 * 10 / (32 * 2.5e9);
    EXPECT_NEAR(r.plan.predicted_seconds, 1e-6 + 8388608 / (256e9 * 0.68) + staging, 1e-12);
  }
  EXPECT_EQ(found, 1);
}

TEST(Candidates, RejectionsNameLimitAndValue) {
  std::string all;
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {65, 128}), shipped_facts("gfx942")))
    all += r.rejection + "\n";
  EXPECT_THAT(all, HasSubstr("smem 133120 > 65536"));  // 4 * (256 + 4 + 256 + 4) * 64
  all.clear();
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {4, 4}), shipped_facts("x86-64-avx2")))
    all += r.plan.config.kernel + ": " + r.rejection + "\n";
  EXPECT_THAT(all, HasSubstr("panel: registers 31 > 16"));  // 14 x 2 sums, 2 of B, 1 of A
  EXPECT_THAT(all, HasSubstr("panel: register rows 6 > M 4"));
  EXPECT_THAT(all, HasSubstr("panel: packed panels"));  // 1024 columns * 256 * 4 > 3/4 of 512 KB
  EXPECT_THAT(all, HasSubstr("dot: B is not K-contiguous"));
}

// Idle workers are given splits of a long K, one worker never.
TEST(Candidates, SplitsFillIdleWorkers) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 456, 51234, m_bucket(123));
  auto best = [&](int32_t workers) {
    RankedPlan winner;
    for (const RankedPlan& r : candidates(c, f, workers))
      if (r.rejection.empty() &&
          (winner.plan.predicted_seconds == 0 || r.plan.predicted_seconds < winner.plan.predicted_seconds))
        winner = r;
    return winner.plan;
  };
  EXPECT_EQ(best(1).launch.splits, 1);
  EXPECT_GT(best(64).launch.splits, 1);
  EXPECT_LT(best(64).predicted_seconds, best(8).predicted_seconds);
  EXPECT_LT(best(8).predicted_seconds, best(1).predicted_seconds);
}

// 16-bit operands that are aligned to their elements alone: tensor cores, from where their tile is not mostly
// empty.
TEST(Candidates, TensorCoresServeUnalignedOperandsToo) {
  for (const DeviceFacts& facts : shipped_facts()) {
    if (sm_version(facts.target) < 80) continue;
    for (int64_t m : {64, 512, 4000}) {
      ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 4096, 4096, m_bucket(m));
      c.alignment = Alignment::kElement;
      std::map<std::string, double> best;
      for (const RankedPlan& r : candidates(c, facts)) {
        if (!r.rejection.empty()) continue;
        const auto [at, fresh] = best.emplace(r.plan.config.kernel, r.plan.predicted_seconds);
        at->second = std::min(at->second, r.plan.predicted_seconds);
        if (r.plan.config.kernel == "mma") EXPECT_EQ(r.plan.config.stages, 2);
      }
      ASSERT_TRUE(best.count("mma") && best.count("simt")) << facts.name;
      EXPECT_LT(best["mma"], best["simt"]) << facts.name << " m " << m;
    }
  }
}

// 64 tiles of 16 x 64 against weights of 32 MiB, twice what half of L2 holds: all at once they read
// everything once, and as often if eight workgroups share each tile's K.
TEST(Candidates, SplitsReadNoWeightTwice) {
  DeviceFacts facts = shipped_facts("sm_90a");
  facts.facts["l2_bytes"].value = 32 << 20;
  const GpuRates rates(facts);
  const MatmulSizes sizes(matmul_class(DType::kBF16, DType::kBF16, 4096, 4096, m_bucket(16)));
  const double weights = 4096. * 4096 * 2, activations = 16. * 4096 * 2;
  for (double splits : {1, 8})
    EXPECT_NEAR(gpu_read_bytes(rates, sizes, {16, 64, splits}, /*slots=*/1024, /*high=*/1),
                weights + activations, 1)
        << splits;
  // Two waves of 32 need A twice; rows in four tiles, a wave each, need B four times.
  EXPECT_NEAR(gpu_read_bytes(rates, sizes, {16, 64, 1}, /*slots=*/32, /*high=*/1), weights + 2 * activations,
              1);
  EXPECT_NEAR(gpu_read_bytes(rates, sizes, {4, 64, 1}, /*slots=*/64, /*high=*/1), 4 * weights + activations,
              1);
}

TEST(Candidates, ArgmaxSplitsLongRowsOnly) {
  for (const DeviceFacts& f : shipped_facts())
    for (const Bucket& row : row_buckets())
      for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
        const bool cpu = f.target.backend == Backend::kCpu;
        size_t legal = 0;
        for (const RankedPlan& r : candidates(argmax_class(t, row), f, 16)) {
          if (!r.rejection.empty()) continue;
          ++legal;
          const CompileConfig& config = r.plan.config;
          EXPECT_TRUE(config.kernel == "rows" || config.kernel == "ukernel");
          if (row.lo <= 1024) EXPECT_EQ(config.split, kNoSplit);
          EXPECT_TRUE(r.plan.launch.splits == 1 || config.split != kNoSplit);
          EXPECT_TRUE(config.tile_m == 1 || config.split == kNoSplit);
          // Several L2s: nothing has shown yet that what one workgroup stored is seen by another in time.
          if (wave_size(f.target) == 64) EXPECT_LE(config.split, kMergeStep) << f.name;
          if (cpu) {
            EXPECT_EQ(config.split, row.lo > 1024);
            EXPECT_EQ(config.lanes, vector_lanes(f.target));
            EXPECT_EQ(config.register_n % vector_lanes(f.target), 0);
          } else {
            EXPECT_LE(config.threads, f.fact_or("max_workgroup_size", 0));
            EXPECT_EQ(config.threads % config.tile_m, 0);
            EXPECT_EQ(config.threads / config.tile_m % wave_size(f.target), 0);
            EXPECT_EQ(config.tile_n, config.threads / config.tile_m * config.register_n);
            EXPECT_EQ(config.register_n % config.unroll_k, 0);
          }
        }
        EXPECT_GT(legal, 0u) << f.name;
      }
}

// On CUDA: short rows a warp each, long ones split, and one launch in any case.
TEST(Candidates, ArgmaxIsOneLaunchOnCuda) {
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend != Backend::kCuda) continue;
    for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte})
      for (const Bucket& row : row_buckets())
        for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
          ProblemClass c = argmax_class(t, row);
          c.alignment = alignment;
          const RankedPlan* best = nullptr;
          const std::vector<RankedPlan> all = candidates(c, f, 16);
          for (const RankedPlan& r : all)
            if (r.rejection.empty() &&
                (best == nullptr || r.plan.predicted_seconds < best->plan.predicted_seconds))
              best = &r;
          ASSERT_NE(best, nullptr);
          const CompileConfig& config = best->plan.config;
          EXPECT_NE(config.split, kMergeStep) << f.name;
          // Read element by element a row is long.
          if (row.hi <= 1024 && alignment != Alignment::kByte)
            EXPECT_EQ(config.threads / config.tile_m, 32) << f.name;
          // A few units draw all that an L4's memory gives.
          if (row.lo > 16384 && f.fact_or("memory_bytes_per_second", 0) > 1e12)
            EXPECT_EQ(config.split, kMergeLast) << f.name;
        }
  }
}

}  // namespace
}  // namespace lathe
