// The CPU's matmul: a prediction worked out by hand, and what measuring all candidates found.
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
    if (!r.rejection.empty() || g.kernel != KernelKind::kDot || g.register_n != 8 || g.tile_n != 128)
      continue;
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
                                         {"core_bytes_per_second", 40e9},
                                         {"pace_bytes_per_second", 43e9}});
}

// By AVX2, without the second level's megabyte; fetching ahead holds the buffers that its prefetchers leave
// free.
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

// The config of least predicted time.
CompileConfig cheapest(const ProblemClass& c, const DeviceFacts& facts) {
  const std::vector<RankedPlan> all = candidates(c, facts);
  const RankedPlan* best = nullptr;
  for (const RankedPlan& r : all)
    if (r.rejection.empty() && (!best || r.plan.predicted_seconds < best->plan.predicted_seconds)) best = &r;
  return best ? best->plan.config : CompileConfig();
}
// The same for M rows of a Linear layer.
CompileConfig cheapest(DType type, int64_t m, int64_t n, int64_t k, const DeviceFacts& facts = zen4()) {
  ProblemClass c = matmul_class(type, type, n, k, {m, m});
  c.trans_b = 1;
  if (type == DType::kI8) c.d = DType::kI32;
  return cheapest(c, facts);
}

// Emerald Rapids.
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

// 16 columns of a weight by all of K in one run, and where there is more to multiply rows copied into L1.
TEST(Candidates, TilesMultiplyBf16AndBytes) {
  for (DType type : {DType::kBF16, DType::kI8}) {
    for (int64_t m : {16, 64, 512})
      EXPECT_EQ(name_of(cheapest(type, m, 4096, 4096, tiles()).kernel), "amx_t") << m;
    EXPECT_EQ(name_of(cheapest(type, 1, 4096, 4096, tiles()).kernel), "dot");
    EXPECT_EQ(cheapest(type, 16, 4096, 4096, tiles()).prefetch, static_cast<int32_t>(CpuFetch::kNone));
    EXPECT_EQ(cheapest(type, 16, 4096, 4096, tiles()).tile_k, 4096);
    EXPECT_EQ(cheapest(type, 512, 4096, 4096, tiles()).register_m, 32);
    EXPECT_EQ(cheapest(type, 512, 4096, 4096, tiles()).register_n, 32);
    EXPECT_NE(name_of(cheapest(type, 512, 4096, 4096).kernel).substr(0, 3), "amx");  // Zen 4
  }
  EXPECT_NE(name_of(cheapest(DType::kF32, 512, 4096, 4096, tiles()).kernel).substr(0, 3), "amx");
}

TEST(Candidates, WhyTilesAreRefused) {
  const auto reason = [](const ProblemClass& c, absl::string_view kernel) {
    std::string why;
    for (const RankedPlan& r : candidates(c, tiles()))
      if (name_of(r.plan.config.kernel) == kernel) {
        if (r.rejection.empty()) return std::string();
        if (why.empty()) why = r.rejection;
      }
    return why;
  };
  ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 512, 1000, {512, 512});
  c.trans_b = 1;
  EXPECT_EQ(reason(c, "amx_t"), "");
  EXPECT_EQ(reason(c, "amx_packed"), "B is not packed");
  for (const RankedPlan& r : candidates(c, tiles()))  // K is no multiple of 32
    if (r.plan.config.kernel == KernelKind::kAmxT && r.rejection.empty())
      EXPECT_EQ(r.plan.config.copy_rows, 1);
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

// What a short row of B is costs a single row of A more than waiting for one column's sum.
TEST(Candidates, ASingleRowReadsShortRowsOneAfterTheOther) {
  for (const auto& [type, k] :
       {std::pair{DType::kF32, 512}, {DType::kF32, 1024}, {DType::kBF16, 1536}, {DType::kI8, 4096}}) {
    const CompileConfig c = cheapest(type, 1, 8192, k);
    EXPECT_EQ(name_of(c.kernel), "dot") << name_of(type);
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
    EXPECT_EQ(name_of(best(m, 4096, 4096).kernel), "dot") << m;
    EXPECT_EQ(best(m, 4096, 4096).register_m * best(m, 4096, 4096).register_n, m == 5 ? 20 : 24) << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 0) << m;
  }
  for (int64_t m : {1, 2, 3})
    EXPECT_EQ(best(m, 4096, 4096).prefetch, static_cast<int32_t>(CpuFetch::kAhead)) << m;
  EXPECT_EQ(best(4, 4096, 14336).prefetch,
            static_cast<int32_t>(CpuFetch::kAhead));  // L2 would lose what is next
  for (int64_t m : {4, 8, 12})
    EXPECT_EQ(best(m, 4096, 4096).prefetch, static_cast<int32_t>(CpuFetch::kNext)) << m;
  EXPECT_EQ(best(6, 4096, 4096).register_m, 6);
  EXPECT_GT(best(8, 2048, 14336).tile_k, 0);
  EXPECT_EQ(best(8, 8192, 1024).register_m, 8);
  for (int64_t m : {16, 32, 64}) {
    EXPECT_EQ(name_of(best(m, 4096, 4096).kernel), "direct") << m;
    EXPECT_EQ(best(m, 4096, 4096).tile_k, 65536 / m) << m;  // a quarter of L2
  }
}

// What converted rows wait for their first lines is little where they are short, and the sums of many rows
// have no registers beside blocks (Zen 4: f16 weights, M = 16 by 8192 x 1024, 8x3 by whole rows 2.6 ms, in
// blocks 2.9; q4_0, M = 24 by 4096 x 4096, 8x2 9.5 ms, 11x2 17.0).
TEST(Candidates, ConvertedRowsOnZen4) {
  const auto best = [](DType b, int64_t m, int64_t n, int64_t k) {
    ProblemClass c = matmul_class(DType::kF32, DType::kF32, n, k, {m, m});
    c.b = b;
    c.trans_b = 1;
    return cheapest(c, zen4());
  };
  for (const int64_t k : {1024, 4096}) {
    const CompileConfig c = best(DType::kF16, 16, 8192, k);
    EXPECT_EQ(name_of(c.kernel), "dot") << k;
    EXPECT_EQ(c.tile_k, 0) << k;
    EXPECT_EQ(c.register_m * c.register_n, 24) << k;
  }
  for (const int64_t m : {12, 16, 24, 32}) EXPECT_LE(best(DType::kQ4_0, m, 4096, 4096).register_m, 8) << m;
}

// K by N, rows of A a multiple of 4 KiB apart: more of them than a set of L1 has ways cost what L2 does.
TEST(Candidates, RowsInOneSetOfL1AreNotTakenManyAtOnce) {
  const auto best = [](int64_t k, int32_t rows, int32_t columns) {
    double seconds = 1;
    for (const RankedPlan& r :
         candidates(matmul_class(DType::kF32, DType::kF32, 4096, k, {16, 16}), zen4())) {
      const CompileConfig& c = r.plan.config;
      if (r.rejection.empty() && c.kernel == KernelKind::kOuter && c.register_m == rows &&
          c.register_n == columns)
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

// Where fetching ahead is a loss a row by itself is left to the core's prefetchers, as is one pass over lines
// that share sets; several passes share what comes next. Without that fact nothing changes.
TEST(Candidates, FetchingOnZen3) {
  DeviceFacts indifferent = zen3();
  indifferent.facts["ahead_bytes_per_second"].value = 20e9;
  const auto stages = [](int64_t m, int64_t n, int64_t k, const DeviceFacts& facts) {
    return static_cast<CpuFetch>(cheapest(DType::kF32, m, n, k, facts).prefetch);
  };
  for (int64_t k : {1024, 2880, 4096}) {
    EXPECT_EQ(stages(1, 4096, k, zen3()), CpuFetch::kNone) << k;
    EXPECT_EQ(stages(1, 4096, k, indifferent), CpuFetch::kAhead) << k;
    EXPECT_EQ(stages(3, 4096, k, zen3()), CpuFetch::kNext) << k;
    EXPECT_EQ(name_of(cheapest(DType::kF32, 16, 4096, k, zen3()).kernel), "direct") << k;
    EXPECT_EQ(stages(16, 4096, k, zen3()), k == 4096 ? CpuFetch::kNone : CpuFetch::kNext) << k;
    for (int64_t m : {16, 64, 512}) EXPECT_EQ(stages(m, 4096, k, indifferent), CpuFetch::kNext) << k;
    for (int64_t m : {32, 64, 512}) EXPECT_EQ(stages(m, 4096, k, zen3()), CpuFetch::kSpread) << m << " " << k;
  }
  // A quarter of L2 for the panel, and what it leaves for the sums.
  const CompileConfig c = cheapest(DType::kF32, 512, 4096, 4096, zen3());
  EXPECT_EQ(c.tile_k, 512);
  EXPECT_LT(c.tile_n, 2048);
}

// A core that reads fast leaves one row to its prefetchers, fetches a few near, held to its rate, and what
// comes next by all passes over a tile's columns where blocks of K keep A in L1, but for K of two blocks.
TEST(Candidates, FetchingOnZen5) {
  for (int64_t k : {1024, 2880, 4096, 8192}) {
    const auto of = [&](int64_t m) { return cheapest(DType::kF32, m, 4096, k, zen5()); };
    const auto fetch = [&](int64_t m) { return static_cast<CpuFetch>(of(m).prefetch); };
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
      // A, a tile's columns and those fetched; no rows a quarter of a way apart.
      EXPECT_LE((c.tile_m + c.register_n + 6) * int64_t{c.tile_k} * 4, 48 << 10) << m << " " << k;
      EXPECT_NE(c.tile_k % 256, 0) << m << " " << k;
    }
  }
}

// Weights stored K by N: a row is left to the core's prefetchers, a few fetch tiles ahead into L1 and some
// into L2, many the next block's rows one after the other.
TEST(Candidates, WeightsStoredKByNOnZen5) {
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
      EXPECT_EQ(name_of(of(m, zen5()).kernel), "outer") << m << " " << k;
      EXPECT_EQ(static_cast<CpuFetch>(of(m, zen5()).prefetch), fetch) << m << " " << k;
      EXPECT_EQ(static_cast<CpuFetch>(of(m, zen4()).prefetch), CpuFetch::kNext) << m << " " << k;
    }
  }
}

// By 4096 x 4096 M = 512 "direct_a" 71.4 ms, "panel" 77; "outer" as far as L2 holds its sums beside two
// blocks of B: 240 columns of M and twice 128 rows in three quarters of it, M = 563 of 1 MiB, 153 of half of
// one.
TEST(Candidates, ManyRowsByWeightsStoredKByN) {
  const auto kernel = [](int64_t m, const DeviceFacts& facts) {
    return name_of(cheapest(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {m, m}), facts).kernel);
  };
  for (int64_t m : {64, 128, 256}) EXPECT_EQ(kernel(m, zen5()), "outer") << m;
  for (int64_t m : {300, 512}) EXPECT_EQ(kernel(m, zen5()), "direct_a") << m;
  for (const DeviceFacts& facts : {zen4(), zen3(), tiles()}) EXPECT_EQ(kernel(512, facts), "panel");
  EXPECT_EQ(kernel(150, zen3()), "outer");
  EXPECT_EQ(kernel(160, zen3()), "panel");
  std::string why;
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {160, 160}), zen3()))
    if (r.plan.config.kernel == KernelKind::kOuter) why = r.rejection;
  EXPECT_EQ(why, "sums and blocks of 399360 bytes > 393216 of L2");
}

// What is packed is waited for in the first block of K alone: of a router's 32 columns 369 KB (M = 64 on Zen
// 5 by blocks of 512, 2048 and 2880 62, 70 and 66 us). A weight that is not packed takes longer ones.
TEST(Candidates, BlocksOfAFewColumnsAreShort) {
  const CompileConfig router = cheapest(DType::kF32, 64, 32, 2880, zen5());
  EXPECT_EQ(name_of(router.kernel), "direct_a");
  EXPECT_LE(router.tile_k, 512);
  EXPECT_GE(cheapest(DType::kF32, 64, 4096, 4096, zen5()).tile_k, 1024);
}

// Panels that B comes in are made into f32 ones for many rows of f32 where a core reads fast.
TEST(Candidates, ManyRowsByPackedWeights) {
  const auto kernel = [](DType a, DType b, int64_t m, const DeviceFacts& facts) {
    ProblemClass c = matmul_class(a, b, 4096, 4096, {m, m});
    c.trans_b = 1, c.packed_b = kColumns16;
    return name_of(cheapest(c, facts).kernel);
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
  EXPECT_EQ(name_of(cheapest(turned, zen5()).kernel), "packed");
}

// Rows that are converted there are read one after the other by a row of A that L1 holds, a longer one meets
// four side by side.
TEST(Candidates, OneRowByWeightsOf16BitsOnZen5) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (int64_t k : {1024, 2880, 4096, 8192, 14336}) {
      ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, k, {1, 1});
      c.trans_b = 1;
      c.b = type;
      const CompileConfig best = cheapest(c, zen5());
      const bool is_held = k * 4 < 48 << 10;
      EXPECT_EQ(static_cast<CpuFetch>(best.prefetch), is_held ? CpuFetch::kFar : CpuFetch::kNear) << k;
      EXPECT_EQ(best.lanes, is_held ? 64 : 16) << k;
      EXPECT_EQ(best.register_n, is_held ? 1 : 4) << k;
      EXPECT_EQ(cheapest(c, zen4()).lanes, 16) << k;
    }
  }
}

// The columns of blocks that come next are fetched into L1 where a core reads fast.
TEST(Candidates, BytesByBlocksOnZen5) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {4, 4});
  c.trans_b = 1;
  c.b = DType::kQ4_0;
  c.math = Math::kInt8;
  EXPECT_EQ(name_of(cheapest(c, zen5()).kernel), "bytes");
  EXPECT_EQ(static_cast<CpuFetch>(cheapest(c, zen5()).prefetch), CpuFetch::kNear);
  EXPECT_EQ(name_of(cheapest(c, zen4()).kernel), "bytes");
  EXPECT_EQ(static_cast<CpuFetch>(cheapest(c, zen4()).prefetch), CpuFetch::kNext);
}

// Long blocks make a core wait that reads fast.
TEST(Candidates, RowsAreReadInShortBlocksOnZen5) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ProblemClass c = argmax_class(type, row_buckets().back());
    EXPECT_EQ(cheapest(c, zen5()).ukernel.function, absl::StrCat("lathe_argmax_short_", name_of(type)));
    EXPECT_EQ(cheapest(c, zen4()).ukernel.function, absl::StrCat("lathe_argmax_row_", name_of(type)));
  }
}

// Where one stream is read slowly, a row is read in parts.
TEST(Candidates, RowsAreReadInPartsOnZen3AndEmeraldRapids) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Bucket& bucket : row_buckets()) {
      const ProblemClass c = argmax_class(type, bucket);
      for (const DeviceFacts& facts : {zen3(), tiles()})
        EXPECT_EQ(cheapest(c, facts).ukernel.function, absl::StrCat("lathe_argmax_parts_", name_of(type)));
    }
  }
}

// Few columns: the rows of A, of which there are more, are streamed.
TEST(Candidates, NarrowWeightsAreMultipliedTurned) {
  for (int64_t n : {8, 17}) {
    const CompileConfig c = cheapest(DType::kF32, 512, n, 4096);
    EXPECT_EQ(name_of(c.kernel), "dot_t") << n;
    EXPECT_EQ(c.pace, 0) << "A comes from caches";
  }
  EXPECT_NE(name_of(cheapest(DType::kF32, 8, 17, 4096).kernel), "dot_t");
}

// What measuring all candidates found there: a pass takes all of a few rows, many rows and few columns are
// fetched near and next, padding 8 rows to 16 costs what one pass over B does not save, and seven rows of B
// lose lines of L1.
TEST(Candidates, FewRowsOnZen5) {
  const auto best = [](int64_t m) { return cheapest(DType::kF32, m, 4096, 4096, zen5()); };
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12}) {
    EXPECT_EQ(name_of(best(m).kernel), "dot") << m;
    EXPECT_EQ(best(m).register_m, m);
    EXPECT_EQ(best(m).tile_k > 0, m > 6) << m;
  }
  for (int64_t m : {11, 12}) EXPECT_EQ(best(m).prefetch, static_cast<int32_t>(CpuFetch::kBoth)) << m;
  for (int64_t m : {24, 32}) {
    EXPECT_EQ(name_of(best(m).kernel), "direct") << m;
    EXPECT_EQ(best(m).register_n, 6) << m;
    EXPECT_LT(best(m).tile_k, 4096) << m;
  }
}

// Sixteen rows by lines that share no sets of L1: eight of them by one vector, read in one run. Elsewhere
// there is no such tile.
TEST(Candidates, SixteenRowsOnZen5) {
  const CompileConfig best = cheapest(DType::kF32, 16, 5760, 2880, zen5());
  EXPECT_EQ(name_of(best.kernel), "direct");
  EXPECT_EQ(best.register_m, 16);
  EXPECT_EQ(best.register_n, 8);
  EXPECT_EQ(best.tile_k, 2880);
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 5760, 2880, {16, 16});
  c.trans_b = 1;
  for (const RankedPlan& r : candidates(c, zen4())) {
    const CompileConfig& g = r.plan.config;
    if (r.rejection.empty() && g.kernel == KernelKind::kDirect)
      EXPECT_FALSE(g.register_m == 16 && g.register_n == 8);
  }
}

TEST(Candidates, BlocksOfKAreAsLongAsEachOther) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 8192, 1024, {5, 5});
  c.trans_b = 1;
  int found = 0;
  for (const RankedPlan& r : candidates(c, zen4())) {
    const CompileConfig& g = r.plan.config;
    if (!r.rejection.empty() || g.kernel != KernelKind::kDot || g.tile_k == 0) continue;
    EXPECT_LT(ceil_div(1024, g.tile_k) * g.tile_k - 1024, 16 * ceil_div(1024, g.tile_k)) << g.tile_k;
    ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace lathe
