// The CPU's matmul candidates: one prediction computed by hand, and the choices that measurements of all
// candidates found best on each CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"
#include "tests/kernels/candidates_fixture.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// M = 1, N = 512, K = 1024 in f32 with one worker at 1 GHz and 1 GB/s: four tasks of 128 columns each.
//   Compute: 16 groups of 8 columns x (64 vectors of K x 7.45 cycles + 8 accumulators x 5 cycles to add the
//   lanes) = 8268.8 cycles. The 7.45 are 5 for the latency of the FMAs, a tenth of the 4.5 for 9 loads, and 2
//   for A's line from L2, because L1 does not hold A and 8 rows of B. A quarter of this time is not hidden.
//   Memory: 129 rows of 4096 bytes read and 512 bytes written, 528.896 us. This grows by 600 / 4096 because 8
//   rows are read side by side, and by 4.1e-12 s/B * 1e9 B/s / 8 because A is read again for every 8 rows.
//   Starting a task costs 0.2 us.
TEST(Candidates, DotPredictionMatchesHandCalculation) {
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

// Zen 5 has twice the FMA units of Zen 4, and one core reads faster.
DeviceFacts zen5() {
  return synthetic("x86-64-avx512bf16", {{"clock_hz", 3.9e9},
                                         {"fma_units", 2},
                                         {"l1d_bytes", 48 << 10},
                                         {"l2_bytes", 1 << 20},
                                         {"l3_bytes", 32 << 20},
                                         {"memory_bytes_per_second", 576e9},
                                         {"core_bytes_per_second", 40e9},
                                         {"pace_bytes_per_second", 43e9}});
}

// Zen 3 has AVX2 and half of Zen 4's L2. Software prefetch costs bandwidth: it takes the buffers that the
// hardware prefetchers need.
DeviceFacts zen3() {
  return synthetic("x86-64-avx2", {{"clock_hz", 3.2e9},
                                   {"fma_units", 2},
                                   {"l1d_bytes", 32 << 10},
                                   {"l2_bytes", 512 << 10},
                                   {"l3_bytes", 32 << 20},
                                   {"memory_bytes_per_second", 204.8e9},
                                   {"core_bytes_per_second", 20e9},
                                   {"ahead_bytes_per_second", 12e9}});
}

// The config with the shortest predicted time.
CompileConfig cheapest(const ProblemClass& c, const DeviceFacts& facts) {
  const std::vector<RankedPlan> all = candidates(c, facts);
  const RankedPlan* best = nullptr;
  for (const RankedPlan& r : all)
    if (r.rejection.empty() && (!best || r.plan.predicted_seconds < best->plan.predicted_seconds)) best = &r;
  return best ? best->plan.config : CompileConfig();
}
// The same for M rows of a linear layer (B stored N by K).
CompileConfig cheapest(DType type, int64_t m, int64_t n, int64_t k, const DeviceFacts& facts = zen4()) {
  ProblemClass c = matmul_class(type, type, n, k, {m, m});
  c.trans_b = 1;
  if (type == DType::kI8) c.d = DType::kI32;
  return cheapest(c, facts);
}

// Emerald Rapids, a CPU with AMX.
DeviceFacts tiles() {
  return synthetic("x86-64-amx", {{"clock_hz", 2.7e9},
                                  {"fma_units", 2},
                                  {"l1d_bytes", 48 << 10},
                                  {"l2_bytes", 2 << 20},
                                  {"l3_bytes", 300 << 20},
                                  {"memory_bytes_per_second", 358.4e9},
                                  {"core_bytes_per_second", 21e9},
                                  {"stream_bytes_per_second", 13e9}});
}

// With few rows a kernel reads 16 columns of B over the whole K in one run. With many it uses 2x2 tiles.
TEST(Candidates, ChoosesAmxForBf16AndI8) {
  for (DType type : {DType::kBF16, DType::kI8}) {
    for (int64_t m : {16, 64, 512}) EXPECT_EQ(cheapest(type, m, 4096, 4096, tiles()).kernel, "amx_t") << m;
    EXPECT_EQ(cheapest(type, 1, 4096, 4096, tiles()).kernel, "dot");
    EXPECT_EQ(cheapest(type, 16, 4096, 4096, tiles()).stages, static_cast<int32_t>(CpuFetch::kNone));
    EXPECT_EQ(cheapest(type, 16, 4096, 4096, tiles()).tile_k, 4096);
    EXPECT_EQ(cheapest(type, 512, 4096, 4096, tiles()).register_m, 32);
    EXPECT_EQ(cheapest(type, 512, 4096, 4096, tiles()).register_n, 32);
    EXPECT_NE(cheapest(type, 512, 4096, 4096).kernel.substr(0, 3), "amx");  // Zen 4
  }
  EXPECT_NE(cheapest(DType::kF32, 512, 4096, 4096, tiles()).kernel.substr(0, 3), "amx");
}

TEST(Candidates, AmxRejectionsGiveReasons) {
  const auto reason = [](const ProblemClass& c, absl::string_view kernel) {
    std::string why;
    for (const RankedPlan& r : candidates(c, tiles()))
      if (r.plan.config.kernel == kernel) {
        if (r.rejection.empty()) return std::string();
        if (why.empty()) why = r.rejection;
      }
    return why;
  };
  ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 512, 1000, {512, 512});
  c.trans_b = 1;
  EXPECT_EQ(reason(c, "amx_t"), "");
  EXPECT_EQ(reason(c, "amx_packed"), "B is not packed");
  for (const RankedPlan& r : candidates(c, tiles()))  // K is not a multiple of 32
    if (r.plan.config.kernel == "amx_t" && r.rejection.empty())
      EXPECT_EQ(r.plan.config.stages, static_cast<int32_t>(CpuFetch::kCopied));
  c.packed_b = kColumns16;
  EXPECT_EQ(reason(c, "amx_t"), "B is packed");
  EXPECT_EQ(reason(c, "amx_packed"), "K 1000 is no multiple of 32");
  c = matmul_class(DType::kBF16, DType::kBF16, 512, 1024, {512, 512});
  c.determinism = Determinism::kBatchInvariant;
  EXPECT_EQ(reason(c, "amx"), "batch_invariant: rows of every M come from panels");
  c = matmul_class(DType::kI8, DType::kI32, 512, 1024, {512, 512});
  c.determinism = Determinism::kBatchInvariant;
  EXPECT_EQ(reason(c, "amx"), "");
  c.zero_a = 1;
  EXPECT_EQ(reason(c, "amx"), "zero point: sums of B's columns are other kernels'");
  EXPECT_EQ(reason(matmul_class(DType::kF16, DType::kF32, 512, 1024, {512, 512}), "amx"),
            "operands are not i8, or bf16 multiplied in pairs");
}

// With M = 1 and short rows of B, one column at a time reads B sequentially. Columns side by side lose what was
// prefetched at the end of each row; this costs more than the FMA latency of a single accumulator.
TEST(Candidates, SingleRowReadsShortColumnsOneByOne) {
  for (const auto& [type, k] :
       {std::pair{DType::kF32, 512}, {DType::kF32, 1024}, {DType::kBF16, 1536}, {DType::kI8, 4096}}) {
    const CompileConfig c = cheapest(type, 1, 8192, k);
    EXPECT_EQ(c.kernel, "dot") << name_of(type);
    EXPECT_EQ(c.register_n, 1) << name_of(type) << " k " << k;
  }
  EXPECT_GT(cheapest(DType::kF32, 1, 4096, 4096).register_n, 1);
}

// L1 (32 KiB) holds 5 rows of A and 2 columns of B with K = 1024, but not 4 columns.
TEST(Candidates, KeepsRowsOfAInL1) { EXPECT_EQ(cheapest(DType::kF32, 5, 8192, 1024).register_n, 2); }

// A core that reads memory slowly gains from more rows of B side by side. The L1 fills of a 4x6 tile overlap with
// its FMAs as long as L2 holds A and the columns.
TEST(Candidates, ChoosesMeasuredBestForFewRowsOnZen4) {
  const auto best = [](int64_t m, int64_t n, int64_t k) { return cheapest(DType::kF32, m, n, k); };
  EXPECT_EQ(best(1, 4096, 4096).register_n, 8);
  EXPECT_EQ(best(2, 4096, 4096).register_n, 8);
  for (int64_t m : {4, 5, 8, 12}) {
    EXPECT_EQ(best(m, 4096, 4096).kernel, "dot") << m;
    EXPECT_EQ(best(m, 4096, 4096).register_m * best(m, 4096, 4096).register_n, m == 5 ? 20 : 24) << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 0) << m;
  }
  for (int64_t m : {1, 2, 3})
    EXPECT_EQ(best(m, 4096, 4096).stages, static_cast<int32_t>(CpuFetch::kAhead)) << m;
  EXPECT_EQ(best(4, 4096, 14336).stages,
            static_cast<int32_t>(CpuFetch::kAhead));  // L2 would evict the next columns before they are read
  for (int64_t m : {4, 8, 12})
    EXPECT_EQ(best(m, 4096, 4096).stages, static_cast<int32_t>(CpuFetch::kNext)) << m;
  EXPECT_EQ(best(6, 4096, 4096).register_m, 6);
  EXPECT_GT(best(8, 2048, 14336).tile_k, 0);
  EXPECT_EQ(best(8, 8192, 1024).register_m, 8);
  for (int64_t m : {16, 32, 64}) {
    EXPECT_EQ(best(m, 4096, 4096).kernel, "direct") << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 65536 / m) << m;  // the panel takes a quarter of L2
  }
}

// Converting f16 leaves memory time to deliver the first lines of a row, so whole rows beat blocks of K. Decoding
// q4_0 takes registers, so at most 8 rows of accumulators fit beside it.
TEST(Candidates, ChoosesMeasuredBestForConvertedWeightsOnZen4) {
  const auto best = [](DType b, int64_t m, int64_t n, int64_t k) {
    ProblemClass c = matmul_class(DType::kF32, DType::kF32, n, k, {m, m});
    c.b = b;
    c.trans_b = 1;
    return cheapest(c, zen4());
  };
  for (const int64_t k : {1024, 4096}) {
    const CompileConfig c = best(DType::kF16, 16, 8192, k);
    EXPECT_EQ(c.kernel, "dot") << k;
    EXPECT_EQ(c.tile_k, 0) << k;
    EXPECT_EQ(c.register_m * c.register_n, 24) << k;
  }
  for (const int64_t m : {12, 16, 24, 32}) EXPECT_LE(best(DType::kQ4_0, m, 4096, 4096).register_m, 8) << m;
}

// Rows of A that are a multiple of 4 KiB apart fall into one set of L1. More rows than the set has ways must be
// read from L2 at every step.
TEST(Candidates, AvoidsManyRowsInOneL1Set) {
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

// A loop that could run faster than memory is paced to the memory's rate, in whole links of a dependency chain.
// A loop that is slower anyway is not paced: many rows, or weights in blocks. Nor is any if the rate is unknown.
TEST(Candidates, PacesLoopsToMemoryRate) {
  const DeviceFacts held = zen4();
  DeviceFacts free = held;
  free.facts.erase("pace_bytes_per_second");
  for (int64_t m : {1, 2, 3, 4, 5}) {
    const CompileConfig c = cheapest(DType::kF32, m, 6144, 4096, held);
    EXPECT_GT(c.pace, 0) << m;
    EXPECT_EQ(c.pace % kPaceLinkCycles, 0) << m;
    // Each turn reads a cache line of every column, and a byte takes 3.55 GHz / 35 GB/s cycles.
    EXPECT_NEAR(c.pace, c.unroll_k * c.register_n * 64 * 3.55 / 35, kPaceLinkCycles) << m;
    EXPECT_EQ(cheapest(DType::kF32, m, 6144, 4096, free).pace, 0) << m;
  }
  EXPECT_EQ(cheapest(DType::kF32, 16, 6144, 4096, held).pace, 0);
  // A row with an odd number of cache lines is read line by line, which needs half a link.
  const CompileConfig even = cheapest(DType::kI8, 1, 5120, 2944, held);
  const CompileConfig odd = cheapest(DType::kI8, 1, 5120, 2880, held);
  for (const CompileConfig& c : {even, odd}) EXPECT_EQ(c.register_n, 1);
  EXPECT_EQ(even.unroll_k, 2);
  EXPECT_EQ(even.pace, 12);
  EXPECT_EQ(odd.unroll_k, 1);
  EXPECT_EQ(odd.pace, 6);
  EXPECT_EQ(cheapest(DType::kI8, 1, 5120, 2880, free).unroll_k, 2);
  // A compile request cannot carry a pace above kMostPace, so a slower memory gets kMostPace.
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

// Where prefetching ahead costs bandwidth, the hardware prefetchers serve a single row, and a single pass over
// lines that share cache sets. Several passes share the prefetch of the next lines. `indifferent` has no such cost.
TEST(Candidates, ChoosesPrefetchOnZen3) {
  DeviceFacts indifferent = zen3();
  indifferent.facts["ahead_bytes_per_second"].value = 20e9;
  const auto stages = [](int64_t m, int64_t n, int64_t k, const DeviceFacts& facts) {
    return static_cast<CpuFetch>(cheapest(DType::kF32, m, n, k, facts).stages);
  };
  for (int64_t k : {1024, 2880, 4096}) {
    EXPECT_EQ(stages(1, 4096, k, zen3()), CpuFetch::kNone) << k;
    EXPECT_EQ(stages(1, 4096, k, indifferent), CpuFetch::kAhead) << k;
    EXPECT_EQ(stages(3, 4096, k, zen3()), CpuFetch::kNext) << k;
    EXPECT_EQ(cheapest(DType::kF32, 16, 4096, k, zen3()).kernel, "direct") << k;
    EXPECT_EQ(stages(16, 4096, k, zen3()), k == 4096 ? CpuFetch::kNone : CpuFetch::kNext) << k;
    for (int64_t m : {16, 64, 512}) EXPECT_EQ(stages(m, 4096, k, indifferent), CpuFetch::kNext) << k;
    for (int64_t m : {32, 64, 512}) EXPECT_EQ(stages(m, 4096, k, zen3()), CpuFetch::kSpread) << m << " " << k;
  }
  // The panel takes a quarter of L2; the accumulators must fit beside it.
  const CompileConfig c = cheapest(DType::kF32, 512, 4096, 4096, zen3());
  EXPECT_EQ(c.tile_k, 512);
  EXPECT_LT(c.tile_n, 2048);
}

// On a core that reads fast the hardware prefetchers serve one row. A few rows prefetch into L1 and are paced.
// More rows multiply in blocks of K that keep A in L1, and all passes share the prefetch of the next columns.
TEST(Candidates, ChoosesPrefetchOnZen5) {
  for (int64_t k : {1024, 2880, 4096, 8192}) {
    const auto of = [&](int64_t m) { return cheapest(DType::kF32, m, 4096, k, zen5()); };
    const auto fetch = [&](int64_t m) { return static_cast<CpuFetch>(of(m).stages); };
    EXPECT_EQ(fetch(1), CpuFetch::kNone) << k;
    EXPECT_EQ(of(1).pace, 0) << k;
    for (int64_t m : {2, 3, 4}) {
      EXPECT_EQ(fetch(m), CpuFetch::kNear) << m << " " << k;
      EXPECT_GT(of(m).pace, 0) << m << " " << k;
      EXPECT_EQ(of(m).tile_k, 0) << m << " " << k;
    }
    for (int64_t m : {7, 8}) {
      const CompileConfig c = of(m);
      EXPECT_EQ(c.tile_k > 0, k > 1024) << m << " " << k;
      if (c.tile_k == 0) continue;
      EXPECT_EQ(fetch(m), CpuFetch::kSpread) << m << " " << k;
      EXPECT_GT(c.pace, 0) << m << " " << k;
      // L1 holds A, the tile's columns and the prefetched ones. Rows at multiples of 1 KiB (a quarter of a cache way)
      // would share sets.
      EXPECT_LE((c.tile_m + c.register_n + 6) * int64_t{c.tile_k} * 4, 48 << 10) << m << " " << k;
      EXPECT_NE(c.tile_k % 256, 0) << m << " " << k;
    }
  }
}

// With M = 1 the hardware prefetchers do the work. A few rows prefetch tiles ahead into L1, more rows into L2, and
// many rows prefetch the next block row by row.
TEST(Candidates, ChoosesPrefetchForKByNWeightsOnZen5) {
  for (int64_t k : {1024, 2880, 4096}) {
    const auto of = [&](int64_t m, const DeviceFacts& facts) {
      return cheapest(matmul_class(DType::kF32, DType::kF32, 4096, k, {m, m}), facts);
    };
    for (const auto& [m, fetch] : {std::pair{1, CpuFetch::kNone},
                                   {2, CpuFetch::kNear},
                                   {4, CpuFetch::kNear},
                                   {8, CpuFetch::kAhead},
                                   {16, CpuFetch::kAhead},
                                   {64, CpuFetch::kSpread}}) {
      EXPECT_EQ(of(m, zen5()).kernel, "outer") << m << " " << k;
      EXPECT_EQ(static_cast<CpuFetch>(of(m, zen5()).stages), fetch) << m << " " << k;
      EXPECT_EQ(static_cast<CpuFetch>(of(m, zen4()).stages), CpuFetch::kNext) << m << " " << k;
    }
  }
}

// "outer" is legal while three quarters of L2 hold its accumulators (M rows by 240 columns) and two blocks of B
// (128 rows by 240 columns each): up to M = 563 with 1 MiB of L2, and M = 153 with half of that.
TEST(Candidates, ChoosesFamilyForManyRowsOfKByNWeights) {
  const auto kernel = [](int64_t m, const DeviceFacts& facts) {
    return cheapest(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {m, m}), facts).kernel;
  };
  for (int64_t m : {64, 128, 256}) EXPECT_EQ(kernel(m, zen5()), "outer") << m;
  for (int64_t m : {300, 512}) EXPECT_EQ(kernel(m, zen5()), "direct_a") << m;
  for (const DeviceFacts& facts : {zen4(), zen3(), tiles()}) EXPECT_EQ(kernel(512, facts), "panel");
  EXPECT_EQ(kernel(150, zen3()), "outer");
  EXPECT_EQ(kernel(160, zen3()), "panel");
  std::string why;
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {160, 160}), zen3()))
    if (r.plan.config.kernel == "outer") why = r.rejection;
  EXPECT_EQ(why, "sums and blocks of 399360 bytes > 393216 of L2");
}

// Nothing prefetches the first block of K that is packed, so a small weight that is packed (a router with 32
// columns) gets short blocks. A weight that is read in place gets longer ones.
TEST(Candidates, PacksSmallWeightsInShortBlocks) {
  const CompileConfig router = cheapest(DType::kF32, 64, 32, 2880, zen5());
  EXPECT_EQ(router.kernel, "direct_a");
  EXPECT_LE(router.tile_k, 512);
  EXPECT_GE(cheapest(DType::kF32, 64, 4096, 4096, zen5()).tile_k, 1024);
}

// On a core that reads fast, many rows of f32 convert the packed panels of B into f32 panels first.
TEST(Candidates, ConvertsPackedPanelsForManyF32Rows) {
  const auto kernel = [](DType a, DType b, int64_t m, const DeviceFacts& facts) {
    ProblemClass c = matmul_class(a, b, 4096, 4096, {m, m});
    c.trans_b = 1, c.packed_b = kColumns16;
    return cheapest(c, facts).kernel;
  };
  for (DType b : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t m : {200, 512}) EXPECT_EQ(kernel(DType::kF32, b, m, zen5()), "direct_packed") << m;
    EXPECT_EQ(kernel(DType::kF32, b, 128, zen5()), "packed");
    EXPECT_EQ(kernel(DType::kF32, b, 512, zen4()), "packed");
  }
  for (DType of : {DType::kF16, DType::kBF16, DType::kI8})
    EXPECT_EQ(kernel(of, of, 512, zen5()), "packed") << name_of(of);
  ProblemClass turned = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {512, 512});
  turned.trans_a = 1, turned.packed_b = kColumns16;
  EXPECT_EQ(cheapest(turned, zen5()).kernel, "packed");
}

// If L1 holds the row of A, the columns of B are read one by one in wide vectors; otherwise four side by side.
TEST(Candidates, ChoosesMeasuredBestForOneRowOf16BitWeightsOnZen5) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (int64_t k : {1024, 2880, 4096, 8192, 14336}) {
      ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, k, {1, 1});
      c.trans_b = 1;
      c.b = type;
      const CompileConfig best = cheapest(c, zen5());
      const bool is_held = k * 4 < 48 << 10;
      EXPECT_EQ(static_cast<CpuFetch>(best.stages), is_held ? CpuFetch::kFar : CpuFetch::kNear) << k;
      EXPECT_EQ(best.lanes, is_held ? 64 : 16) << k;
      EXPECT_EQ(best.register_n, is_held ? 1 : 4) << k;
      EXPECT_EQ(cheapest(c, zen4()).lanes, 16) << k;
    }
  }
}

// The next columns are prefetched into L1 on a core that reads fast, and into L2 on others.
TEST(Candidates, ChoosesPrefetchForInt8MathOnBlockWeights) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {4, 4});
  c.trans_b = 1;
  c.b = DType::kQ4_0;
  c.math = Math::kInt8;
  EXPECT_EQ(cheapest(c, zen5()).kernel, "bytes");
  EXPECT_EQ(static_cast<CpuFetch>(cheapest(c, zen5()).stages), CpuFetch::kNear);
  EXPECT_EQ(cheapest(c, zen4()).kernel, "bytes");
  EXPECT_EQ(static_cast<CpuFetch>(cheapest(c, zen4()).stages), CpuFetch::kNext);
}

TEST(Candidates, ArgmaxReadsShortBlocksOnZen5) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ProblemClass c = argmax_class(type, row_buckets().back());
    EXPECT_EQ(cheapest(c, zen5()).ukernel.function, absl::StrCat("lathe_argmax_short_", name_of(type)));
    EXPECT_EQ(cheapest(c, zen4()).ukernel.function, absl::StrCat("lathe_argmax_row_", name_of(type)));
  }
}

// These cores read a single stream slowly, so the kernel reads several parts of a row at once.
TEST(Candidates, ArgmaxReadsRowsInPartsOnZen3AndEmeraldRapids) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Bucket& bucket : row_buckets()) {
      const ProblemClass c = argmax_class(type, bucket);
      for (const DeviceFacts& facts : {zen3(), tiles()})
        EXPECT_EQ(cheapest(c, facts).ukernel.function, absl::StrCat("lathe_argmax_parts_", name_of(type)));
    }
  }
}

// With few columns and many rows the kernel streams A, which is then the larger operand.
TEST(Candidates, ChoosesDotTForFewColumns) {
  for (int64_t n : {8, 17}) {
    const CompileConfig c = cheapest(DType::kF32, 512, n, 4096);
    EXPECT_EQ(c.kernel, "dot_t") << n;
    EXPECT_EQ(c.pace, 0) << "A is read from caches";
  }
  EXPECT_NE(cheapest(DType::kF32, 8, 17, 4096).kernel, "dot_t");
}

// One pass multiplies all rows up to 12, since a "direct" kernel would pad them to 16. Tiles of many rows and few
// columns prefetch into L1 and L2. More than 6 columns of "direct" would evict each other from L1.
TEST(Candidates, ChoosesMeasuredBestForFewRowsOnZen5) {
  const auto best = [](int64_t m) { return cheapest(DType::kF32, m, 4096, 4096, zen5()); };
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12}) {
    EXPECT_EQ(best(m).kernel, "dot") << m;
    EXPECT_EQ(best(m).register_m, m);
    EXPECT_EQ(best(m).tile_k > 0, m > 6) << m;
  }
  for (int64_t m : {11, 12}) EXPECT_EQ(best(m).stages, static_cast<int32_t>(CpuFetch::kBoth)) << m;
  for (int64_t m : {24, 32}) {
    EXPECT_EQ(best(m).kernel, "direct") << m;
    EXPECT_EQ(best(m).register_n, 6) << m;
    EXPECT_LT(best(m).tile_k, 4096) << m;
  }
}

// Columns of K = 2880 do not share sets of L1, so Zen 5 multiplies 16 rows by eight columns over the whole K. This
// tile is offered only to cores that read fast.
TEST(Candidates, ChoosesEightColumnsForSixteenRowsOnZen5) {
  const CompileConfig best = cheapest(DType::kF32, 16, 5760, 2880, zen5());
  EXPECT_EQ(best.kernel, "direct");
  EXPECT_EQ(best.register_m, 16);
  EXPECT_EQ(best.register_n, 8);
  EXPECT_EQ(best.tile_k, 2880);
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 5760, 2880, {16, 16});
  c.trans_b = 1;
  for (const RankedPlan& r : candidates(c, zen4())) {
    const CompileConfig& g = r.plan.config;
    if (r.rejection.empty() && g.kernel == "direct") EXPECT_FALSE(g.register_m == 16 && g.register_n == 8);
  }
}

TEST(Candidates, DividesKIntoEqualBlocks) {
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

}  // namespace
}  // namespace lathe
