// The candidate tables of all kernel families: every legal candidate keeps within the limits of the device, and no
// prediction beats the roofline.
#include "kernels/candidates.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/products.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/mma/shape.h"
#include "tests/config_field.h"
#include "tests/kernels/candidates_fixture.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(refusal_of(c, p.op, f.target.backend), "");
  EXPECT_EQ(c.lanes(), lanes);
  EXPECT_GE(field(c, "register_m"), 1);
  EXPECT_GE(field(c, "register_n"), 1);
  EXPECT_EQ(c.tile_m() % field(c, "register_m"), 0);
  EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
  if (c.kernel() == KernelKind::kDot || c.kernel() == KernelKind::kDotT) {
    EXPECT_LE(field(c, "register_m") * field(c, "register_n") +
                  std::min(field(c, "register_m"), field(c, "register_n")) + 1,
              registers);
    EXPECT_EQ(p.trans_b, 1);
    EXPECT_EQ(p.trans_a, 0);
    EXPECT_EQ(field_or(c, "group_n", 0) > 0, field_or(c, "tile_k", 0) > 0);
    EXPECT_EQ(field_or(c, "group_n", 0) % field(c, "register_n"), 0);
    if (c.kernel() == KernelKind::kDot)
      EXPECT_GE(c.tile_m(), representative_m(p));
    else
      EXPECT_GE(c.tile_n(), p.n);
  } else if (absl::StartsWith(name_of(c.kernel()), "amx")) {
    const int rows = field(c, "register_m") / 16, columns = field(c, "register_n") / 16;
    EXPECT_LE(rows * columns + std::min(rows, columns) + 1, 8);
  } else {
    // The kernel reads columns of D as vectors, or rows in the transposed form.
    const bool transposed = c.kernel() == KernelKind::kPanelT || c.kernel() == KernelKind::kDirect;
    const int scalars = transposed ? field(c, "register_n") : field(c, "register_m");
    const int vector_elements = transposed ? field(c, "register_m") : field(c, "register_n");
    ASSERT_EQ(vector_elements % lanes, 0);
    const int vectors = vector_elements / lanes;
    EXPECT_LE(scalars * vectors + vectors + 1, registers);
  }
  if (c.kernel() == KernelKind::kOuter) {
    EXPECT_EQ(p.trans_b, 0);
    EXPECT_GE(c.tile_m(), representative_m(p));
  }
  if (c.kernel() == KernelKind::kPanel || c.kernel() == KernelKind::kPanelT) {
    EXPECT_GT(field(c, "tile_k"), 0);
    const bool pairs = p.a == DType::kBF16 && (f.target.has("avx512bf16") || f.target.has("bf16"));
    const int per_lane = p.a == DType::kI8 ? 4 : pairs ? 2 : 1;  // elements in a lane of 4 bytes
    EXPECT_EQ(field(c, "tile_k") % (lanes * per_lane), 0);
    const int packed = c.kernel() == KernelKind::kPanel ? c.tile_n() + field(c, "register_m")
                                                        : c.tile_m() + field(c, "register_n");
    EXPECT_LE(packed * field(c, "tile_k") * 4.0 / per_lane, 0.75 * f.fact_or("l2_bytes", 0));
  }
}

// The tile is divided among warps; shared memory holds `stages` blocks of both operands.
void check_mma_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  const int wave = wave_size(f.target), edge = c.kernel() == KernelKind::kMma32 ? 32 : 16;
  EXPECT_TRUE(f.target.backend == Backend::kRocm || c.kernel() != KernelKind::kMma32);
  EXPECT_EQ((c.tile_m() / field(c, "register_m")) * (c.tile_n() / field(c, "register_n")) * wave,
            c.threads());
  EXPECT_EQ(c.tile_m() % field(c, "register_m"), 0);
  EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
  EXPECT_EQ(field(c, "register_m") % edge, 0);
  EXPECT_EQ(field(c, "register_n") % edge, 0);
  const double element = size_of(p.a);
  EXPECT_EQ(static_cast<int>(depth_of(c) * element) % 32, 0);
  EXPECT_GE(field(c, "stages"), 2);
  EXPECT_LE(field(c, "stages") * (c.tile_m() + c.tile_n()) * depth_of(c) * element,
            f.fact_or("shared_memory_bytes", 0));
  EXPECT_LE(c.threads(), f.fact_or("max_workgroup_size", 0));
  EXPECT_LE(field(c, "register_m") * field(c, "register_n") / wave, 128);
}

// The tile covers the whole K; the micro-kernel stages stage_k of it at a time.
void check_ukernel_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  EXPECT_GE(field(c, "padded_k"), p.k);
  check_mma_limits(c, p, f);
}

// Subgroups have 16 lanes, matrix instructions are 8 x 16 x 16, and a thread has 128 registers of 16 lanes.
void check_xegpu_limits(const CompileConfig& c, const ProblemClass& p, const DeviceFacts& f) {
  EXPECT_TRUE(f.target.arch == "pvc" || f.target.arch == "bmg") << f.target.arch;
  EXPECT_TRUE(p.a == DType::kF16 || p.a == DType::kBF16);
  EXPECT_EQ(p.trans_a, 0);
  EXPECT_EQ(p.alignment, Alignment::k16);
  EXPECT_GE(std::min(p.k, p.trans_b ? p.k : p.n), 32) << "rows have at least 64 bytes";
  EXPECT_EQ((p.k | (p.trans_b ? p.k : p.n)) % 2, 0) << "rows are multiples of 4 bytes";
  EXPECT_EQ((c.tile_m() / field(c, "register_m")) * (c.tile_n() / field(c, "register_n")) * 16, c.threads());
  EXPECT_EQ(c.tile_m() % field(c, "register_m"), 0);
  EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
  EXPECT_EQ(field(c, "register_m") % 8, 0);
  EXPECT_EQ(field(c, "register_n") % 16, 0);
  EXPECT_EQ(field(c, "tile_k") % 16, 0);
  EXPECT_LE(c.threads(), f.fact_or("max_workgroup_size", 0));
  // The accumulators, and both operands of one step along K.
  EXPECT_LE((field(c, "register_m") * field(c, "register_n") +
             (field(c, "register_m") + field(c, "register_n")) * 16 / 2) /
                16,
            128);
}

void check_simt_limits(const CompileConfig& c, const DeviceFacts& f) {
  EXPECT_EQ(name_of(c.kernel()), "simt");
  EXPECT_EQ((c.tile_m() / field(c, "register_m")) * (c.tile_n() / field(c, "register_n")), c.threads());
  EXPECT_EQ(c.tile_m() % field(c, "register_m"), 0);
  EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
  EXPECT_EQ(c.threads() % wave_size(f.target), 0);
  EXPECT_LE(c.threads(), f.fact_or("max_workgroup_size", 0));
  // Rows are padded by a vector of up to four elements.
  const double rows = c.tile_m() + std::gcd(field(c, "register_m"), int64_t{4}) + c.tile_n() +
                      std::gcd(field(c, "register_n"), int64_t{4});
  EXPECT_LE(4.0 * field(c, "stages") * rows * field(c, "tile_k"), f.fact_or("shared_memory_bytes", 0));
  EXPECT_LE(field(c, "register_m") * field(c, "register_n") + field(c, "register_m") + field(c, "register_n"),
            255);
}

TEST(Candidates, LegalPlansKeepDeviceLimits) {
  for (const DeviceFacts& f : shipped_facts())
    for (const ProblemClass& c : sample_classes())
      for (const RankedPlan& r : candidates(c, f, 4)) {
        if (!r.rejection.empty()) continue;
        if (f.target.backend == Backend::kCpu)
          check_cpu_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel() == KernelKind::kMma || r.plan.config.kernel() == KernelKind::kMma32)
          check_mma_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel() == KernelKind::kUkernel)
          check_ukernel_limits(r.plan.config, c, f);
        else if (r.plan.config.kernel() == KernelKind::kXegpu)
          check_xegpu_limits(r.plan.config, c, f);
        else
          check_simt_limits(r.plan.config, f);
        EXPECT_EQ(r.plan.config.split() != kNoSplit, r.plan.launch.splits > 1);
        EXPECT_GE(r.plan.launch.splits, 1);
        EXPECT_LE(r.plan.launch.splits, c.k);
        EXPECT_FALSE(r.plan.numeric_recipe.empty());
        // Writing the plan takes longer than checking it, so SCOPED_TRACE is too slow here.
        if (HasFailure())
          FAIL() << f.name << " " << to_json(c).dump() << " " << to_json(r.plan.config).dump();
      }
}

// No kernel can do the arithmetic faster than the peak rate, or move the operands faster than the bandwidth.
TEST(Candidates, NoPredictionBeatsTheRoofline) {
  constexpr int32_t kWorkers = 8;
  for (const DeviceFacts& f : shipped_facts()) {
    const bool cpu = f.target.backend == Backend::kCpu;
    const double bandwidth = f.fact_or("memory_bytes_per_second", 0);
    for (const ProblemClass& c : sample_classes()) {
      const double flops_f32 =
          cpu ? kWorkers * 2.0 * vector_lanes(f.target) * f.fact_or("fma_units", 0) * f.fact_or("clock_hz", 0)
              : f.fact_or("flops_f32", 0);
      // CDNA's matrix units multiply f32 too, at no more than a quarter of the f16 rate (CDNA 2).
      const double matrix = f.fact_or("flops_matrix_f16", 0);
      const double f32_most =
          f.target.backend == Backend::kRocm ? std::max(flops_f32, matrix / 4) : flops_f32;
      // Peak rates relative to f32: AVX512-BF16 has 2 times as many products, AVX512-VNNI 4 times, and AMX 8 times
      // those.
      const double wider = c.a == DType::kBF16 && f.target.has("amx-bf16")                                ? 16
                           : c.a == DType::kI8 && f.target.has("amx-int8")                                ? 32
                           : c.a == DType::kBF16 && (f.target.has("avx512bf16") || f.target.has("bf16"))  ? 2
                           : c.a == DType::kI8 && (f.target.has("avx512vnni") || f.target.has("dotprod")) ? 4
                                                                                                          : 1;
      const double flops_most = cpu ? wider * f32_most : c.a == DType::kF32 ? f32_most : matrix;
      const auto floor_at = [&](double m, double flops) {
        const double n = c.n, k = c.k;
        const double bytes = (m * k + k * n) * size_of(c.a) + m * n * size_of(c.d);
        return std::max(2 * m * n * k / flops, bytes / bandwidth);
      };
      // The bucket's smallest M has the least work, whichever M the cost model uses for the bucket.
      const double floor = floor_at(c.m_lo, flops_most);
      double best = 1e9;
      for (const RankedPlan& r : candidates(c, f, kWorkers)) {
        if (!r.rejection.empty()) continue;
        ASSERT_TRUE(std::isfinite(r.plan.predicted_seconds));
        ASSERT_GE(r.plan.predicted_seconds, floor)
            << f.name << " " << to_json(c).dump() << " " << to_json(r.plan.config).dump();
        best = std::min(best, r.plan.predicted_seconds);
      }
      // The best prediction must be plausible too. The bound is loose: narrow weights waste half of every vector,
      // and operands without alignment may have no matrix instructions. The model prices at most 2048 rows.
      const double most = floor_at(std::min<double>(c.m_hi, 2048), flops_f32);
      ASSERT_LT(best, 20 * most + 50e-6) << f.name << " " << to_json(c).dump();
    }
  }
}

TEST(Candidates, PredictsFasterStreamsForF16Weights) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  auto best = [&](DType t) {
    ProblemClass c = matmul_class(t, DType::kF32, 4096, 4096, {1, 1});
    c.trans_b = 1;
    return cheapest(candidates(c, f)).predicted_seconds;
  };
  EXPECT_LT(best(DType::kF16), best(DType::kF32));
}

TEST(Candidates, RejectionsStateLimitAndValue) {
  std::string all;
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {65, 128}), shipped_facts("gfx942")))
    all += r.rejection + "\n";
  EXPECT_THAT(all, HasSubstr("smem 133120 > 65536"));  // 4 * (256 + 4 + 256 + 4) * 64
  all.clear();
  for (const RankedPlan& r :
       candidates(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {4, 4}), shipped_facts("x86-64-avx2")))
    all += std::string(name_of(r.plan.config.kernel())) + ": " + r.rejection + "\n";
  EXPECT_THAT(
      all,
      HasSubstr("panel: tile needs 31 registers, the target has 16"));  // 14 x 2 accumulators, 2 of B, 1 of A
  EXPECT_THAT(all, HasSubstr("panel: register tile has too many rows: 6 for M 4"));
  EXPECT_THAT(all, HasSubstr("panel: packed panels take"));  // 1024 columns * 256 * 4 > 3/4 of 512 KB
  EXPECT_THAT(all, HasSubstr("dot: B is not K-contiguous"));
}

TEST(Candidates, SplitsLongKForIdleWorkers) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 456, 51234, m_bucket(123));
  auto best = [&](int32_t workers) { return cheapest(candidates(c, f, workers)); };
  EXPECT_EQ(best(1).launch.splits, 1);
  EXPECT_GT(best(64).launch.splits, 1);
  EXPECT_LT(best(64).predicted_seconds, best(8).predicted_seconds);
  EXPECT_LT(best(8).predicted_seconds, best(1).predicted_seconds);
}

// 16-bit operands without 16-byte alignment still use tensor cores, once M is large enough to fill the tile.
TEST(Candidates, PrefersTensorCoresForUnalignedOperands) {
  for (const DeviceFacts& facts : shipped_facts()) {
    if (sm_version(facts.target) < 80) continue;
    for (int64_t m : {64, 512, 4000}) {
      ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 4096, 4096, m_bucket(m));
      c.alignment = Alignment::kElement;
      std::map<std::string, double> best;
      for (const RankedPlan& r : candidates(c, facts)) {
        if (!r.rejection.empty()) continue;
        const auto [at, fresh] = best.emplace(name_of(r.plan.config.kernel()), r.plan.predicted_seconds);
        at->second = std::min(at->second, r.plan.predicted_seconds);
        if (r.plan.config.kernel() == KernelKind::kMma) EXPECT_EQ(field(r.plan.config, "stages"), 2);
      }
      ASSERT_TRUE(best.count("mma") && best.count("simt")) << facts.name;
      EXPECT_LT(best["mma"], best["simt"]) << facts.name << " m " << m;
    }
  }
}

// Aligned weights in blocks are multiplied by matrix instructions as soon as M fills their tiles, if that does not
// round A.
TEST(Candidates, PrefersMatrixInstructionsForBlocks) {
  int devices = 0;
  for (const DeviceFacts& facts : shipped_facts()) {
    if (sm_version(facts.target) < 80 && !find_amd_instruction(facts.target.arch, DType::kF16, 16)) continue;
    ++devices;
    for (const DTypeRow& b : kDTypes) {
      if (!kGpuBlocks.has(b.value)) continue;
      for (int64_t m : {64, 512, 4000})
        for (DType a : {DType::kF16, DType::kBF16, DType::kF32}) {
          ProblemClass c = matmul_class(a, a, 4096, 4096, m_bucket(m));
          c.b = b.value;
          c.trans_b = 1;
          c.alignment = Alignment::k16;
          const Plan plan = cheapest(candidates(c, facts));
          ASSERT_GT(plan.predicted_seconds, 0) << facts.name << " " << b.name;
          const KernelKind kernel = plan.config.kernel();
          EXPECT_EQ(kernel == KernelKind::kMma || kernel == KernelKind::kMma32, a != DType::kF32)
              << facts.name << " " << name_of(a) << " by " << b.name << " m " << m;
        }
    }
  }
  EXPECT_GE(devices, 12);
}

// Matrix instructions multiply fp8 and fp4 by fp8 and fp4 with block scales as soon as M fills their tiles, for every
// alignment: gfx950 those with E8M0 scales of 32 in every mix as stored, GPUs with fp8 instructions those with f32 scales
// of 128, and everything else as codes in f16.
TEST(Candidates, PrefersMatrixInstructionsForBlockScalesOnAmd) {
  constexpr DType kFormats[] = {DType::kMXF8E4M3, DType::kMXF8E5M2, DType::kMXF4E2M1, DType::kNVF4E2M1,
                                DType::kF8E4M3x128};
  int devices = 0;
  for (const DeviceFacts& facts : shipped_facts()) {
    if (facts.target.backend != Backend::kRocm) continue;
    ++devices;
    for (DType a : kFormats)
      for (DType b : kFormats)
        for (int64_t m : {64, 4000})
          for (Alignment alignment : {Alignment::k16, Alignment::kByte}) {
            ProblemClass c = matmul_class(a, DType::kBF16, 4096, 4096, m_bucket(m));
            c.b = b;
            c.trans_b = 1;
            c.alignment = alignment;
            const Plan plan = cheapest(candidates(c, facts));
            ASSERT_GT(plan.predicted_seconds, 0) << facts.name;
            const KernelKind kernel = plan.config.kernel();
            EXPECT_TRUE(kernel == KernelKind::kMma || kernel == KernelKind::kMma32)
                << facts.name << " " << name_of(a) << " by " << name_of(b) << " m " << m;
            const auto is_mx = [](DType t) { return t != DType::kNVF4E2M1 && t != DType::kF8E4M3x128; };
            const bool deepseek = a == b && a == DType::kF8E4M3x128;
            const std::string& arch = facts.target.arch;
            EXPECT_EQ(
                find_mma_instruction(arch, a, b, 16)->multiplies_codes(),
                deepseek ? arch != "gfx90a" && arch != "gfx1100" : arch == "gfx950" && is_mx(a) && is_mx(b));
          }
  }
  EXPECT_GE(devices, 6);
}

// 64 tiles of 16 x 64; the weights (32 MiB) are twice what the model allots of L2. Tiles that run at the same time
// read everything once, also if eight workgroups share the K of each tile.
TEST(Candidates, CountsWeightsOnceForSplits) {
  DeviceFacts facts = shipped_facts("sm_90a");
  facts.facts["l2_bytes"].value = 32 << 20;
  const GpuRates rates(facts);
  const MatmulSizes sizes(matmul_class(DType::kBF16, DType::kBF16, 4096, 4096, m_bucket(16)));
  const double weights = 4096. * 4096 * 2, activations = 16. * 4096 * 2;
  for (double splits : {1, 8})
    EXPECT_NEAR(gpu_read_bytes(rates, sizes, {16, 64, splits}, /*slots=*/1024, /*high=*/1),
                weights + activations, 1)
        << splits;
  // Two waves of 32 tiles read A twice. Four tiles along M, one per wave, read B four times.
  EXPECT_NEAR(gpu_read_bytes(rates, sizes, {16, 64, 1}, /*slots=*/32, /*high=*/1), weights + 2 * activations,
              1);
  EXPECT_NEAR(gpu_read_bytes(rates, sizes, {4, 64, 1}, /*slots=*/64, /*high=*/1), 4 * weights + activations,
              1);
}

TEST(Candidates, ArgmaxSplitsOnlyLongRows) {
  for (const DeviceFacts& f : shipped_facts())
    for (const Bucket& row : row_buckets())
      for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
        const bool cpu = f.target.backend == Backend::kCpu;
        size_t legal = 0;
        for (const RankedPlan& r : candidates(argmax_class(t, row), f, 16)) {
          if (!r.rejection.empty()) continue;
          ++legal;
          const CompileConfig& config = r.plan.config;
          EXPECT_TRUE(config.kernel() == KernelKind::kRows || config.kernel() == KernelKind::kUkernel);
          if (row.lo <= 1024) EXPECT_EQ(config.split(), kNoSplit);
          EXPECT_TRUE(r.plan.launch.splits == 1 || config.split() != kNoSplit);
          EXPECT_TRUE(config.tile_m() == 1 || config.split() == kNoSplit);
          // CDNA GPUs have several L2 caches. No test on hardware has shown yet that the last workgroup sees the
          // others' partial results, so a second step merges them.
          if (wave_size(f.target) == 64) EXPECT_LE(config.split(), kMergeStep) << f.name;
          if (cpu) {
            EXPECT_EQ(config.split(), row.lo > 1024);
            EXPECT_EQ(config.lanes(), vector_lanes(f.target));
            EXPECT_EQ(field(config, "register_n") % vector_lanes(f.target), 0);
          } else {
            EXPECT_LE(config.threads(), f.fact_or("max_workgroup_size", 0));
            EXPECT_EQ(config.threads() % config.tile_m(), 0);
            EXPECT_EQ(config.threads() / config.tile_m() % wave_size(f.target), 0);
            EXPECT_EQ(config.tile_n(), config.threads() / config.tile_m() * field(config, "register_n"));
            EXPECT_EQ(field(config, "register_n") % field(config, "loads"), 0);
          }
        }
        EXPECT_GT(legal, 0u) << f.name;
      }
}

TEST(Candidates, ArgmaxTakesOneLaunchOnCuda) {
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend != Backend::kCuda) continue;
    for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte})
      for (const Bucket& row : row_buckets())
        for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
          ProblemClass c = argmax_class(t, row);
          c.alignment = alignment;
          EXPECT_NE(cheapest(candidates(c, f, 16)).config.split(), kMergeStep) << f.name;
        }
  }
}

}  // namespace
}  // namespace lathe
