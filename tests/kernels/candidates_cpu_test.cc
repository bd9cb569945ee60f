// The CPU's matmul candidates: where AMX is used, which candidates are refused and why, and the pace of their loops.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "core/packed.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/cpu/shape.h"
#include "tests/config_field.h"
#include "tests/kernels/candidates_fixture.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

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

std::string kernel_of(const CompileConfig& c) { return to_json(c).at("kernel").get<std::string>(); }

// The config with the shortest predicted time for M rows of a linear layer (B stored N by K).
CompileConfig cheapest(DType type, int64_t m, int64_t n, int64_t k, const DeviceFacts& facts) {
  ProblemClass c = matmul_class(type, type, n, k, {m, m});
  c.trans_b = 1;
  if (type == DType::kI8) c.d = DType::kI32;
  return cheapest(candidates(c, facts)).config;
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

TEST(Candidates, UsesAmxForBf16AndI8OnlyOnProcessorsWithAmx) {
  const auto uses_amx = [](DType type, int64_t m, const DeviceFacts& facts) {
    return absl::StartsWith(kernel_of(cheapest(type, m, 4096, 4096, facts)), "amx");
  };
  for (int64_t m : {64, 512}) {
    for (DType type : {DType::kBF16, DType::kI8}) {
      EXPECT_TRUE(uses_amx(type, m, tiles())) << name_of(type) << " m " << m;
      EXPECT_FALSE(uses_amx(type, m, zen4())) << name_of(type) << " m " << m;
    }
    EXPECT_FALSE(uses_amx(DType::kF32, m, tiles())) << m;
  }
}

TEST(Candidates, AmxRejectionsGiveReasons) {
  const auto reason = [](const ProblemClass& c, absl::string_view kernel) {
    std::string why;
    for (const RankedPlan& r : candidates(c, tiles()))
      if (name_of(r.plan.config.kernel()) == kernel) {
        if (r.rejection.empty()) return std::string();
        if (why.empty()) why = r.rejection;
      }
    return why;
  };
  ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 512, 1000, {512, 512});
  c.trans_b = 1;
  EXPECT_EQ(reason(c, "amx_t"), "");
  EXPECT_EQ(reason(c, "amx_packed"), "needs packed B");
  for (const RankedPlan& r : candidates(c, tiles()))  // K is not a multiple of 32
    if (r.plan.config.kernel() == KernelKind::kAmxT && r.rejection.empty())
      EXPECT_EQ(field(r.plan.config, "copy_rows"), 1);
  c.packed_b = kColumns16;
  EXPECT_EQ(reason(c, "amx_t"), "does not support packed B");
  EXPECT_EQ(reason(c, "amx_packed"), "K 1000 is not a multiple of 32");
  c = matmul_class(DType::kBF16, DType::kBF16, 512, 1024, {512, 512});
  c.determinism = Determinism::kBatchInvariant;
  EXPECT_EQ(reason(c, "amx"), "batch_invariant needs the numeric recipe of 'panel' for every M");
  c = matmul_class(DType::kI8, DType::kI32, 512, 1024, {512, 512});
  c.determinism = Determinism::kBatchInvariant;
  EXPECT_EQ(reason(c, "amx"), "");
  c.zero_a = 1;
  EXPECT_EQ(reason(c, "amx"), "does not support a zero point of A");
  EXPECT_EQ(reason(matmul_class(DType::kF16, DType::kF32, 512, 1024, {512, 512}), "amx"),
            "supports i8, and bf16 pairs with B in bf16");
}

TEST(Candidates, RefusesPackedBlocksOnAarch64) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {8, 8});
  c.b = DType::kQ4_0;
  c.trans_b = 1;
  c.math = Math::kInt8;
  c.packed_b = kColumns16;
  const auto bytes_packed_on = [&](const std::string& target) {
    for (const RankedPlan& r : candidates(c, shipped_facts(target)))
      if (r.plan.config.kernel() == KernelKind::kBytesPacked) return r.rejection;
    return std::string("is not listed");
  };
  EXPECT_EQ(bytes_packed_on("aarch64-sve2"), "AArch64 has no packed blocks");
  EXPECT_EQ(bytes_packed_on("x86-64-avx512bf16"), "");
}

// Each further task of the same rows would round A again.
TEST(Candidates, BytesRoundsAOnceForEachWorker) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 768, 2048, {8, 8});
  c.b = DType::kQ8_0;
  c.trans_b = 1;
  c.math = Math::kInt8;
  c.rows = Rows::kIndexed;
  for (int32_t workers : {1, 2}) {
    const Plan best = cheapest(candidates(c, synthetic("x86-64-avx512vnni", {}), workers));
    EXPECT_EQ(kernel_of(best.config), "bytes");
    EXPECT_EQ(field(best.config, "tile_n"), 768 / workers);
  }
}

// Rows of A that are a multiple of 4 KiB apart fall into one set of L1. More rows than the set has ways must be
// read from L2 at every step.
TEST(Candidates, AvoidsManyRowsInOneL1Set) {
  const auto best = [](int64_t k, int32_t rows, int32_t columns) {
    double seconds = 1;
    for (const RankedPlan& r :
         candidates(matmul_class(DType::kF32, DType::kF32, 4096, k, {16, 16}), zen4())) {
      const CompileConfig& c = r.plan.config;
      if (r.rejection.empty() && c.kernel() == KernelKind::kOuter && field(c, "register_m") == rows &&
          field(c, "register_n") == columns)
        seconds = std::min(seconds, r.plan.predicted_seconds);
    }
    EXPECT_LT(seconds, 1) << rows;
    return seconds;
  };
  EXPECT_GT(best(4096, 16, 16), best(4112, 16, 16)) << "a shorter K, but all rows are in one set";
}

// A loop that could run faster than memory is paced to the memory's rate, in whole links of a dependency chain.
// A loop that is slower anyway is not paced: many rows, or weights in blocks. Nor is any if the rate is unknown.
TEST(Candidates, PacesLoopsToMemoryRate) {
  const DeviceFacts held = zen4();
  DeviceFacts free = held;
  free.facts.erase("pace_bytes_per_second");
  for (int64_t m : {1, 2, 3, 4, 5}) {
    const CompileConfig c = cheapest(DType::kF32, m, 6144, 4096, held);
    EXPECT_GT(field(c, "pace"), 0) << m;
    EXPECT_EQ(field(c, "pace") % kPaceLinkCycles, 0) << m;
    // Each turn reads a cache line of every column, and a byte takes 3.55 GHz / 35 GB/s cycles.
    EXPECT_NEAR(field(c, "pace"), field(c, "unroll_k") * field(c, "register_n") * 64 * 3.55 / 35,
                kPaceLinkCycles)
        << m;
    EXPECT_EQ(field_or(cheapest(DType::kF32, m, 6144, 4096, free), "pace", 0), 0) << m;
  }
  EXPECT_EQ(field_or(cheapest(DType::kF32, 16, 6144, 4096, held), "pace", 0), 0);
  // A compile request cannot carry a pace above kMostPace, so a slower memory gets kMostPace.
  DeviceFacts slow = held;
  slow.facts["pace_bytes_per_second"].value = 1e6;
  ProblemClass streamed = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {1, 1});
  streamed.trans_b = 1;
  for (const int16_t packed : {kNotPacked, kColumns16}) {
    streamed.packed_b = packed;
    for (const RankedPlan& r : candidates(streamed, slow))
      EXPECT_LE(field_or(r.plan.config, "pace", 0), kMostPace);
  }
  ProblemClass blocks = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {1, 1});
  blocks.trans_b = 1;
  blocks.b = DType::kQ4_0;
  int found = 0;
  for (const RankedPlan& r : candidates(blocks, held)) {
    if (!r.rejection.empty()) continue;
    EXPECT_EQ(field_or(r.plan.config, "pace", 0), 0);
    ++found;
  }
  EXPECT_GT(found, 0);
}

// "outer" for many rows reads its columns of B from L2 again and again: half of L2 holds them whole, or three quarters of
// it hold the sums and two K blocks.
TEST(Candidates, OuterHoldsItsColumnsInL2) {
  DeviceFacts small = zen4();
  const double l2 = 512 << 10;
  small.facts["l2_bytes"].value = l2;
  for (int64_t m : {17, 150, 2000, 8000}) {
    int whole = 0, blocked = 0, refused = 0;
    for (int64_t k : {100, 8192})
      for (const RankedPlan& r : candidates(matmul_class(DType::kF32, DType::kF32, 4096, k, {m, m}), small)) {
        const CompileConfig& g = r.plan.config;
        if (kernel_of(g) != "outer") continue;
        const double depth = double(field_or(g, "tile_k", 0)), columns = double(g.tile_n());
        if (r.rejection == "L2 does not hold the sums and two K blocks of a register tile's columns") {
          EXPECT_GT(double(field_or(g, "register_n", 0)) * (4.0 * double(m) + 8 * depth), 0.75 * l2);
          ++refused;
        } else if (r.rejection.empty() && depth > 0) {
          EXPECT_LE(columns * (4.0 * double(m) + 8 * depth), 0.75 * l2);
          ++blocked;
        } else if (r.rejection.empty()) {
          EXPECT_LE(columns * 4.0 * double(k), 0.5 * l2);
          ++whole;
        }
      }
    EXPECT_GT(whole, 0) << m;
    EXPECT_EQ(blocked > 0, m < 8000) << m;
    EXPECT_EQ(refused > 0, m > 150) << m;
  }
}

TEST(Candidates, DividesKIntoEqualBlocks) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 8192, 1024, {5, 5});
  c.trans_b = 1;
  int found = 0;
  for (const RankedPlan& r : candidates(c, zen4())) {
    const CompileConfig& g = r.plan.config;
    const int64_t depth = depth_of(g);
    if (!r.rejection.empty() || g.kernel() != KernelKind::kDot || depth == 0) continue;
    EXPECT_LT(ceil_div(1024, depth) * depth - 1024, 16 * ceil_div(1024, depth)) << depth;
    ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace lathe
