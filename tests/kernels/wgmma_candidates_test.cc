// The candidate table of the "wgmma" family: shapes computed by hand, device limits, rejections, and predictions not
// below the roofline.
#include <gmock/gmock.h>

#include <set>

#include "kernels/matmul/candidates.h"
#include "kernels/matmul/wgmma/shape.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

const DeviceFacts& h200() { return shipped_facts("sm_90a"); }

ProblemClass aligned_class(int64_t m, int64_t n, int64_t k) {
  ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, n, k, m_bucket(m));
  c.trans_b = 1;
  c.alignment = Alignment::k16;
  return c;
}

std::vector<RankedPlan> plans(const ProblemClass& c, int32_t split_k = 0, const DeviceFacts& facts = h200()) {
  std::vector<RankedPlan> all;
  enumerate_matmul_wgmma({c, facts, 1, split_k}, &all);
  return all;
}
std::vector<RankedPlan> legal(const ProblemClass& c, int32_t split_k = 0, const DeviceFacts& facts = h200()) {
  std::vector<RankedPlan> all = plans(c, split_k, facts);
  all.erase(std::remove_if(all.begin(), all.end(), [](const RankedPlan& r) { return !r.rejection.empty(); }),
            all.end());
  return all;
}
std::string only_reason(const ProblemClass& c, const DeviceFacts& facts = h200()) {
  const std::vector<RankedPlan> all = plans(c, 0, facts);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? "" : all[0].rejection;
}

WgmmaInput large_tile() {
  WgmmaInput in;
  in.tile_m = 128, in.tile_n = 256, in.tile_k = 64, in.stages = 4, in.threads = 384;
  return in;
}

TEST(WgmmaShape, LargeTileMatchesHandCalculation) {
  const WgmmaShape s(large_tile());
  EXPECT_EQ(s.defect(), "");
  EXPECT_EQ(s.consumers, 2);
  EXPECT_EQ(s.blocks, 1);
  EXPECT_EQ(s.steps, 4);   // instructions take 16 of the 64 along K
  EXPECT_EQ(s.sums, 128);  // 128 threads share 64 x 256
  EXPECT_EQ(s.stage_bytes, (128 + 256) * 64 * 2);
  EXPECT_EQ(s.patches_at, 4 * 49152);
  EXPECT_EQ(s.shared_bytes, 4 * 49152 + 8 * 16 * 40 * 4 + 4 * 16);
  EXPECT_EQ(s.resident, 1);
  // Three threads, one of each warpgroup, share 504 registers in steps of 8.
  EXPECT_EQ(s.producer_registers, 24);
  EXPECT_EQ(s.consumer_registers, 240);
  EXPECT_EQ(s.a.boxes, 1);
  EXPECT_EQ(s.a.box_rows, 128);
  EXPECT_EQ(s.b.box_rows, 256);
  EXPECT_EQ(s.b.box_columns, 64);
}

// setmaxnreg.inc to fewer registers than a thread has is undefined (PTX ISA).
TEST(WgmmaShape, DoesNotMoveRegistersToThreadsThatHaveEnough) {
  for (const bool plain : {false, true}) {
    WgmmaInput in = large_tile();
    in.element_bytes = 1, in.promotes = true;
    in.tile_m = 64, in.tile_n = 192, in.tile_k = 128, in.threads = 256, in.plain_store = plain;
    for (int64_t stages : {2, 4, 5}) {
      in.stages = stages;
      const WgmmaShape s(in);
      ASSERT_EQ(s.defect(), "");
      EXPECT_EQ(s.consumer_registers, 0);
      EXPECT_EQ(s.producer_registers, 0);
      EXPECT_GE(s.spare_registers, 40);
    }
  }
}

TEST(WgmmaShape, CopiesOperandAlongMOrNInColumnsOf64) {
  WgmmaInput in = large_tile();
  in.b_k_major = false;
  in.cluster_m = 2;
  const WgmmaShape s(in);
  EXPECT_EQ(s.defect(), "");
  EXPECT_EQ(s.b.box_columns, 64);
  EXPECT_EQ(s.b.box_rows, 64);
  EXPECT_EQ(s.b.boxes, 2);  // 256 columns take four boxes; the other workgroup of the cluster copies two
  EXPECT_EQ(s.stage_bytes, 49152);
}

TEST(WgmmaShape, SmallMRequiresContiguousK) {
  WgmmaInput in;
  in.tile_m = 8, in.tile_n = 64, in.tile_k = 128, in.stages = 4, in.threads = 256, in.swap = true;
  const WgmmaShape along_k(in);
  EXPECT_EQ(along_k.defect(), "");
  EXPECT_EQ(along_k.p().width, 64);
  EXPECT_EQ(along_k.q().width, 8);
  EXPECT_EQ(along_k.stage_bytes, (64 + 8) * 128 * 2);
  EXPECT_EQ(along_k.a.boxes, 2);  // tile_k 128 is two rows of 64 elements
  EXPECT_EQ(along_k.sums, 4);
  in.a_k_major = false;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("8 along M or N is not a multiple of 64"));
}

TEST(WgmmaShape, ReportsUnsupportedShapes) {
  WgmmaInput in = large_tile();
  in.tile_m = 96;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("96 rows"));
  in = large_tile();
  in.tile_n = 264;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("264"));
  in = large_tile();
  in.tile_m = 256;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("256 > 192"));
  in = large_tile();
  in.threads = 128;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("128 threads"));
  in = large_tile();
  in.element_bytes = 1, in.tile_k = 128, in.b_k_major = false;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("contiguous along K"));
}

TEST(WgmmaCandidates, LegalPlansKeepDeviceLimits) {
  for (int64_t m : {1, 9, 40, 64, 100, 300, 5000})
    for (const auto& [n, k] :
         std::vector<std::pair<int64_t, int64_t>>{{4096, 4096}, {456, 51232}, {8, 8}, {128256, 4096}})
      for (int32_t split_k : {0, 1, 4, 77})
        for (int layout = 0; layout < 4; ++layout) {
          ProblemClass c = aligned_class(m, n, k);
          c.trans_a = layout & 1, c.trans_b = layout >> 1;
          const std::vector<RankedPlan> all = legal(c, split_k);
          ASSERT_FALSE(all.empty()) << m << " " << n << " " << k << " " << split_k;
          for (const RankedPlan& r : all) {
            SCOPED_TRACE(to_json(c).dump() + to_json(r.plan.config).dump());
            const auto& f = r.plan.config.as<WgmmaConfig>();
            WgmmaInput in;
            in.tile_m = f.tile_m, in.tile_n = f.tile_n, in.tile_k = f.tile_k, in.stages = f.stages;
            in.threads = f.threads, in.swap = f.transposed != 0;
            in.cluster_m = f.cluster_m, in.cluster_n = f.cluster_n, in.cluster_k = f.cluster_k;
            in.a_k_major = !c.trans_a, in.b_k_major = c.trans_b;
            in.plain_store = f.plain_store != 0;
            EXPECT_LE(f.register_m, f.tile_m);
            EXPECT_LE(f.register_n, f.tile_n);
            EXPECT_EQ(f.register_m * f.register_n * (f.threads / 128 - 1), f.tile_m * f.tile_n);
            const WgmmaShape s(in);
            EXPECT_EQ(s.defect(), "");
            EXPECT_LE(s.shared_bytes, h200().fact_or("shared_memory_bytes", 0));
            EXPECT_LE(s.resident * (s.shared_bytes + 1024), 228 << 10);
            if (s.consumer_registers > 0) {
              EXPECT_GT(s.consumer_registers,
                        std::min<int64_t>(248, 512 / s.resident / (s.consumers + 1) / 8 * 8));
              EXPECT_LE(s.resident * 128 * (s.producer_registers + s.consumers * s.consumer_registers),
                        65536);
              EXPECT_GE(s.consumer_registers, s.sums + 40);
            } else {
              EXPECT_LE(s.resident * in.threads * (s.sums + 40), 65536);
            }
            EXPECT_EQ(f.persistent % (f.cluster_m * f.cluster_n), 0);
            EXPECT_LE(f.persistent, s.resident * h200().fact_or("compute_units", 0));
            EXPECT_EQ(f.split != kNoSplit, r.plan.launch.splits > 1);
            EXPECT_EQ(f.cluster_k, f.split == kMergeCluster ? r.plan.launch.splits : 1);
            // A launch rounds the chunks of K up to whole blocks; the number of splits must not change.
            Recipe recipe;
            recipe.k_granularity = static_cast<int32_t>(f.tile_k);
            EXPECT_EQ(make_launch_config(recipe, c, {m, n, k, 1}, r.plan.launch.splits).splits,
                      r.plan.launch.splits);
            if (HasFailure()) return;
          }
        }
}

TEST(WgmmaCandidates, StoreDPlainlyIfTheEpilogueIsCheapAndKIsNotSplit) {
  const auto plain = [](const ProblemClass& c, bool split) {
    std::set<int64_t> found;
    for (const RankedPlan& r : legal(c))
      if ((r.plan.config.split() != kNoSplit) == split)
        found.insert(r.plan.config.as<WgmmaConfig>().plain_store);
    return found;
  };
  const std::set<int64_t> no = {0}, yes = {1};
  ProblemClass c = aligned_class(16, 4096, 4096);
  EXPECT_EQ(plain(c, false), yes);
  EXPECT_EQ(plain(c, true), no);
  c.bias = DType::kF16, c.activation = Activation::kRelu;
  EXPECT_EQ(plain(c, false), yes);
  for (const Activation a : {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    c.activation = a;
    EXPECT_EQ(plain(c, false), no);
  }
  c.activation = Activation::kNone, c.residual = DType::kF16;
  EXPECT_EQ(plain(c, false), no);
  c.residual = DType::kNone, c.d = DType::kF32;
  EXPECT_EQ(plain(c, false), no);
}

TEST(WgmmaCandidates, RejectionsGiveReasons) {
  ProblemClass c = aligned_class(100, 4096, 4096);
  EXPECT_EQ(only_reason(c, shipped_facts("gfx942")), "gfx942 has no wgmma");
  c.alignment = Alignment::kElement;
  EXPECT_EQ(only_reason(c), "rows are not aligned to 16 bytes");
  c = aligned_class(100, 4096, 4096);
  c.a = c.b = DType::kF32;
  EXPECT_THAT(only_reason(c), HasSubstr("f32"));
  c = aligned_class(100, 4096, 4096);
  c.determinism = Determinism::kBatchInvariant;
  EXPECT_THAT(only_reason(c), HasSubstr("batch_invariant"));
  bool too_large = false;
  for (const RankedPlan& r : plans(aligned_class(5000, 4096, 4096)))
    too_large |= r.rejection == "transposed supports M up to 64, not 2048";
  EXPECT_TRUE(too_large);
}

// A scale of B may serve 128 columns, and a warpgroup holds two sets of accumulators.
TEST(WgmmaCandidates, ScaledOperandsKeepLimits) {
  constexpr std::pair<DType, DType> kPairs[] = {{DType::kF8E4M3x128, DType::kF8E4M3x128},
                                                {DType::kMXF8E4M3, DType::kMXF8E5M2},
                                                {DType::kF8E4M3x128, DType::kMXF8E4M3}};
  for (int64_t m : {1, 40, 64, 100, 300, 5000})
    for (const auto& [a, b] : kPairs) {
      ProblemClass c = aligned_class(m, 4096, 7168);
      c.a = a, c.b = b, c.d = DType::kBF16;
      const std::vector<RankedPlan> all = legal(c);
      ASSERT_FALSE(all.empty()) << m;
      for (const RankedPlan& r : all) {
        const auto& f = r.plan.config.as<WgmmaConfig>();
        if (f.transposed == 0) EXPECT_EQ(128 % f.tile_n, 0);
        EXPECT_EQ(f.tile_k % 128, 0);
        EXPECT_LE(f.register_m * f.register_n, 64 * 128);
        EXPECT_LE(f.threads, 384);
      }
    }
  ProblemClass c = aligned_class(100, 4096, 7168);
  c.a = DType::kF8E4M3x128, c.b = DType::kMXF4E2M1;
  EXPECT_EQ(only_reason(c), "wgmma does not multiply f8e4m3_128 by mxf4e2m1");
  c.a = DType::kBF16, c.b = DType::kF8E4M3x128;
  EXPECT_EQ(only_reason(c), "wgmma does not multiply bf16 by f8e4m3_128");
}

// Workgroups fill the device, not the share by which a group is priced. A tile along M may belong to another group, so
// no two workgroups share B, and D is not stored in whole boxes. Listed rows of A are copied for one workgroup.
TEST(WgmmaCandidates, GroupedProductsArePersistentOnTheWholeDevice) {
  DeviceFacts share = h200();
  share.facts["compute_units"].value /= kGroupsAtOnce;
  for (Rows rows : {Rows::kOffsets, Rows::kCounts, Rows::kRowIds, Rows::kIndexed, Rows::kSumBF16})
    for (int64_t m : {1, 40, 2048})
      for (DType t : {DType::kBF16, DType::kF8E4M3x128}) {
        ProblemClass c = aligned_class(m, 4096, 7168);
        c.a = c.b = t;
        c.rows = rows;
        const std::vector<RankedPlan> all = legal(c, 1, share);
        ASSERT_FALSE(all.empty());
        bool shares_a = false;
        for (const RankedPlan& r : all) {
          const auto& f = r.plan.config.as<WgmmaConfig>();
          EXPECT_EQ(f.persistent, 132 * r.plan.resident / f.cluster_n * f.cluster_n);
          EXPECT_EQ(f.cluster_m, 1);
          if (f.transposed) EXPECT_GE(f.tile_m, std::min<int64_t>(2 * m, 64));
          EXPECT_EQ(f.plain_store, 0);
          EXPECT_EQ(f.split, kNoSplit);
          shares_a |= f.cluster_n > 1;
        }
        EXPECT_EQ(shares_a, !lists_rows(rows));
      }
  ProblemClass c = aligned_class(100, 4096, 7168);
  c.rows = Rows::kDeviceM;
  EXPECT_THAT(only_reason(c), HasSubstr("beyond the rows that exist"));
}

TEST(WgmmaShape, ListedRowsAreNotCopiedByTma) {
  WgmmaInput in = large_tile();
  in.lists_rows = true;
  const WgmmaShape s(in);
  EXPECT_EQ(s.defect(), "");
  EXPECT_EQ(s.copied_bytes(), 256 * 64 * 2);
  EXPECT_EQ(s.static_bytes(), 5 << 10);  // four lists of 128 words of 8 bytes, and the ticket
  in.cluster_n = 2;
  EXPECT_THAT(WgmmaShape(in).defect(), HasSubstr("listed rows"));
}

TEST(WgmmaShape, ScalesFollowThePatches) {
  WgmmaInput in;
  in.tile_m = 128, in.tile_n = 64, in.tile_k = 128, in.stages = 4, in.threads = 384;
  in.element_bytes = 1, in.promotes = true, in.scaled = 32;
  const WgmmaShape s(in);
  EXPECT_EQ(s.defect(), "");
  EXPECT_EQ(s.groups(), 4);
  EXPECT_EQ(s.scale_bytes(), 4 * (128 + 64) * 4);
  EXPECT_EQ(s.scales_at, 4 * (128 + 64) * 128 + 8 * 16 * 40 * 4);
  EXPECT_EQ(s.barriers_at, s.scales_at + 4 * s.scale_bytes());
}

TEST(WgmmaCandidates, NoPredictionBeatsTheRoofline) {
  const double flops = h200().fact_or("flops_matrix_f16", 0),
               rate = h200().fact_or("memory_bytes_per_second", 0);
  for (int64_t m : {1, 16, 64, 256, 5000})
    for (const Shape& shape : layer_shapes()) {
      const ProblemClass c = aligned_class(m, shape.n, shape.k);
      const double rows = double(c.m_hi < Bucket::kOpenEnd ? c.m_lo : 2048);
      const double bytes = 2 * (rows * shape.k + double(shape.k) * shape.n + rows * shape.n);
      for (const RankedPlan& r : legal(c))
        ASSERT_GE(r.plan.predicted_seconds, std::max(2 * rows * shape.n * shape.k / flops, bytes / rate))
            << shape.name << " m " << m << " " << to_json(r.plan.config).dump();
    }
}

}  // namespace
}  // namespace lathe
