// The oracle on every shipped device and for real layers: it finds plans, depends on nothing but its arguments,
// sorts by predicted time, and keeps the reason of every rejection.
#include "oracle/oracle.h"

#include <gmock/gmock.h>

#include <set>

#include "core/recipe.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"
#include "tests/sample.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

OraclePolicy all_cores(const DeviceFacts& f) {
  return {std::max(1, static_cast<int>(f.fact_or("cores", 1))), 0};
}

std::string text_of(const OracleAnswer& answer) {
  std::string text = std::to_string(answer.legal) + "\n";
  for (const RankedPlan& r : answer.ranked)
    text += to_json(r.plan.config).dump() + " " + std::to_string(r.plan.launch.splits) + " " +
            std::to_string(r.plan.predicted_seconds * 1e9) + " " + r.plan.numeric_recipe + " " + r.rejection +
            "\n";
  return text;
}

void expect_well_formed(const OracleAnswer& answer) {
  ASSERT_GT(answer.legal, 0u);
  ASSERT_LE(answer.legal, answer.ranked.size());
  for (size_t i = 0; i < answer.ranked.size(); ++i) {
    const RankedPlan& r = answer.ranked[i];
    ASSERT_EQ(r.rejection.empty(), i < answer.legal);
    if (i >= answer.legal) continue;
    ASSERT_GT(r.plan.predicted_seconds, 0);
    if (i > 0) {
      ASSERT_LE(answer.ranked[i - 1].plan.predicted_seconds, r.plan.predicted_seconds);
    }
  }
}

// Ranking all classes takes minutes, so the test ranks every 7th, and fewer under AddressSanitizer. The steps divide
// none of the loop counts, so the sample meets all values of every loop.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LATHE_SMALL_SAMPLE
#endif
#endif
#ifdef LATHE_SMALL_SAMPLE
const size_t kPlansStep = 101;
#else
const size_t kPlansStep = sample_divisor() > 1 ? 29 : 7;
#endif

TEST(Oracle, PlansEveryLayerOnEveryDevice) {
  const std::vector<Shape> shapes = layer_shapes();
  ASSERT_EQ(shapes.size(), 34u);
  ASSERT_GE(shipped_facts().size(), 13u);
  const std::pair<DType, DType> types[] = {
      {DType::kF32, DType::kF32}, {DType::kF16, DType::kF16}, {DType::kBF16, DType::kF32}};
  size_t met = 0, planned = 0;
  for (const DeviceFacts& f : shipped_facts())
    for (const Shape& shape : shapes)
      for (const Bucket& m : m_buckets(8192))
        for (const auto& [in, out] : types)
          for (int layout = 0; layout < 4; ++layout) {
            if (met++ % kPlansStep != 0) continue;
            ProblemClass c = matmul_class(in, out, shape.n, shape.k, m);
            c.trans_a = layout & 1;
            c.trans_b = layout >> 1;
            const auto answer = rank_plans(c, f, all_cores(f));
            ASSERT_TRUE(answer.ok()) << f.name << " " << shape.name << " " << answer.status();
            expect_well_formed(*answer);
            if (HasFatalFailure()) FAIL() << f.name << " " << to_json(c).dump();
            ++planned;
          }
  EXPECT_EQ(met, shipped_facts().size() * 34 * 22 * 3 * 4);
  EXPECT_EQ(planned, (met + kPlansStep - 1) / kPlansStep);
}

TEST(Oracle, PlansEveryArgmaxOnEveryDevice) {
  for (const DeviceFacts& f : shipped_facts())
    for (const Bucket& row : row_buckets())
      for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
        const auto answer = rank_plans(argmax_class(t, row), f, all_cores(f));
        ASSERT_TRUE(answer.ok()) << f.name << " " << answer.status();
        expect_well_formed(*answer);
      }
}

// Neither the order in which the facts were added, nor their sources, nor the environment changes the answer.
TEST(Oracle, DependsOnlyOnItsArguments) {
  const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, m_bucket(100));
  for (const DeviceFacts& f : shipped_facts()) {
    const std::string first = text_of(rank_plans(c, f, {4, 0}).value());
    DeviceFacts reversed;
    reversed.name = "another name";
    reversed.target = f.target;
    for (auto it = f.facts.rbegin(); it != f.facts.rend(); ++it)
      reversed.facts[it->first] = {it->second.value, "another source"};
    setenv("LATHE_WORKERS", "7", 1);
    setenv("OMP_NUM_THREADS", "3", 1);
    EXPECT_EQ(first, text_of(rank_plans(c, reversed, {4, 0}).value()));
    unsetenv("LATHE_WORKERS");
    unsetenv("OMP_NUM_THREADS");
  }
}

TEST(Oracle, FirstPlanMatchesTheRanking) {
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},   {DType::kF16, DType::kF16},
                                           {DType::kBF16, DType::kBF16}, {DType::kI8, DType::kI8},
                                           {DType::kF32, DType::kF16},   {DType::kF32, DType::kQ4_0}};
  size_t met = 0, legal = 0;
  for (const DeviceFacts& f : shipped_facts())
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1280, 8192}, {48, 48}, {456, 51234}})
      for (const Bucket& m : m_buckets(2048))
        for (const auto& [a, b] : types)
          for (int form = 0; form < 8; ++form) {
            if (met++ % 7 != 0) continue;
            ProblemClass c = matmul_class(a, DType::kF32, n, k, m);
            c.b = b;
            c.trans_b = form & 1;
            c.packed_b = form == 7 ? 1 : 0;
            if (form & 2) c.determinism = Determinism::kBatchInvariant;
            OraclePolicy policy = {form & 4 ? 2 : 1, form == 5 ? 3 : 0};
            if (form == 1) policy.external = {{ExternalUse::kPrefer, ExternalId::kAny}, 1, {}};
            const auto all = rank_plans(c, f, policy);
            const auto first = first_plan(c, f, policy);
            ASSERT_EQ(all.status(), first.status()) << f.name << " " << to_json(c).dump();
            if (!all.ok()) continue;
            ++legal;
            const auto of = [](const OracleAnswer& answer) { return text_of({{answer.ranked[0]}, 1}); };
            ASSERT_EQ(of(*all), of(*first)) << f.name << " " << to_json(c).dump();
          }
  EXPECT_GT(legal, met / 7 / 4);
}

TEST(Oracle, SmallerL2GetsSmallerPanels) {
  const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, m_bucket(2048));
  DeviceFacts f = shipped_facts("x86-64-avx512bf16");
  const CompileConfig large = rank_plans(c, f, {1, 0})->ranked[0].plan.config;
  f.facts["l2_bytes"].value = 256 << 10;
  const CompileConfig small = rank_plans(c, f, {1, 0})->ranked[0].plan.config;
  EXPECT_LT(small.tile_n() * depth_of(small), large.tile_n() * depth_of(large));
}

// Caches that are smaller than any panel, or absent, make plans slower but never illegal.
TEST(Oracle, PlansWithoutCaches) {
  DeviceFacts f = shipped_facts("x86-64-avx2");
  for (const char* features : {"", "+avx,+avx2,+fma"})
    for (double bytes : {0, 64 << 10}) {
      f.target.features = features;
      for (const char* cache : {"l1d_bytes", "l2_bytes", "l3_bytes"}) f.facts[cache].value = bytes;
      for (const Bucket& m : m_buckets(8192))
        for (int64_t n : {1, 8, 4096})
          for (int layout = 0; layout < 4; ++layout)
            for (Determinism determinism : {Determinism::kFast, Determinism::kBatchInvariant}) {
              ProblemClass c = matmul_class(DType::kF32, DType::kF32, n, 4096, m);
              c.trans_a = layout & 1;
              c.trans_b = layout >> 1;
              c.determinism = determinism;
              const auto answer = rank_plans(c, f, {4, 0});
              ASSERT_TRUE(answer.ok()) << to_json(c).dump() << " " << answer.status();
              expect_well_formed(*answer);
              if (HasFatalFailure()) return;
            }
    }
}

// Infinities and NaNs must not reach the sort.
TEST(Oracle, RejectsPredictionsThatAreNotFinite) {
  for (const char* target : {"x86-64-avx512bf16", "sm_90a"}) {
    DeviceFacts f = shipped_facts(target);
    for (auto& [name, fact] : f.facts) fact.value = 1e-320;
    f.facts["max_workgroup_size"].value = f.facts["shared_memory_bytes"].value = 1e6;
    f.facts["registers_per_unit"].value = f.facts["threads_per_unit"].value = 1e6;
    const auto answer =
        rank_plans(matmul_class(DType::kF32, DType::kF32, 4096, 4096, m_bucket(5)), f, {2, 0});
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnimplemented) << target;
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("not finite")) << target;
  }
}

// The smallest and largest values that a facts file may contain.
TEST(Oracle, SortsLegalPlansUnderExtremeFacts) {
  for (const DeviceFacts& shipped : shipped_facts())
    for (const auto& [name, unused] : shipped.facts)
      for (double value : {1e-300, 1e-9, 9e17}) {
        DeviceFacts f = shipped;
        f.facts[name].value = value;
        for (int64_t m : {1, 100, 8192}) {
          const auto answer =
              rank_plans(matmul_class(DType::kF32, DType::kF32, 4096, 4096, m_bucket(m)), f, {8, 0});
          if (!answer.ok()) continue;
          for (size_t i = 1; i < answer->legal; ++i)
            ASSERT_LE(answer->ranked[i - 1].plan.predicted_seconds, answer->ranked[i].plan.predicted_seconds)
                << f.name << " " << name;
        }
      }
}

TEST(Oracle, ListsReasonsThatDifferOnlyInNumbersOnce) {
  DeviceFacts f = shipped_facts("sm_90a");
  f.facts["shared_memory_bytes"].value = 1;
  const std::string message(
      rank_plans(matmul_class(DType::kF32, DType::kF32, 4096, 4096, m_bucket(5)), f, {1, 0})
          .status()
          .message());
  EXPECT_THAT(message, HasSubstr("simt: smem "));
  EXPECT_EQ(message.find("smem"), message.rfind("smem")) << message;
}

TEST(Oracle, EveryRejectionHasAReason) {
  for (const DeviceFacts& f : shipped_facts()) {
    const auto answer =
        rank_plans(matmul_class(DType::kF32, DType::kF32, 4096, 4096, {5, 5}), f, all_cores(f)).value();
    ASSERT_LT(answer.legal, answer.ranked.size()) << f.name;
    for (size_t i = answer.legal; i < answer.ranked.size(); ++i) {
      EXPECT_FALSE(answer.ranked[i].rejection.empty());
      EXPECT_NE(answer.ranked[i].plan.config.kernel(), KernelKind::kNone);
    }
  }
}

// The recipe must not depend on M or on the number of workers. Recipes of "fast" plans do.
TEST(Oracle, BatchInvariantRecipeIsSharedByAllBuckets) {
  for (const DeviceFacts& f : shipped_facts())
    for (const Shape& shape :
         {Shape{"small", 456, 51234}, Shape{"layer", 4096, 4096}, Shape{"thin", 8, 4096}}) {
      std::set<std::string> invariant, fast;
      for (const Bucket& m : m_buckets(8192))
        for (int layout = 0; layout < 4; ++layout)
          for (int32_t workers : {1, 2, 64}) {
            ProblemClass c = matmul_class(DType::kF32, DType::kF32, shape.n, shape.k, m);
            c.trans_a = layout & 1;
            c.trans_b = layout >> 1;
            fast.insert(rank_plans(c, f, {workers, 0})->ranked[0].plan.numeric_recipe);
            c.determinism = Determinism::kBatchInvariant;
            const OracleAnswer answer = rank_plans(c, f, {workers, 0}).value();
            // All legal plans, because a tuner may choose any of them.
            for (size_t i = 0; i < answer.legal; ++i) {
              invariant.insert(answer.ranked[i].plan.numeric_recipe +
                               std::to_string(depth_of(answer.ranked[i].plan.config)));
              EXPECT_EQ(answer.ranked[i].plan.launch.splits, 1);
              EXPECT_EQ(answer.ranked[i].plan.config.split(), 0);
            }
          }
      EXPECT_EQ(invariant.size(), 1u) << f.name << " " << *invariant.begin() << " | " << *invariant.rbegin();
      EXPECT_GT(fast.size(), 1u) << f.name;
    }
}

// Lathe's own kernels are always deterministic from run to run. External libraries are not, and are rejected.
TEST(Oracle, RunToRunGetsThePlansOfFast) {
  const auto own_plans = [](const ProblemClass& c, const DeviceFacts& f) {
    OracleAnswer answer = rank_plans(c, f, {2, 0}).value();
    const auto is_external = [](const RankedPlan& r) { return !r.plan.config.external.provider.empty(); };
    answer.ranked.erase(std::remove_if(answer.ranked.begin(), answer.ranked.end(), is_external),
                        answer.ranked.end());
    return text_of(answer);
  };
  for (const DeviceFacts& f : shipped_facts()) {
    ProblemClass c = matmul_class(DType::kF32, DType::kF32, 456, 51234, m_bucket(123));
    const std::string fast = own_plans(c, f);
    c.determinism = Determinism::kRunToRun;
    EXPECT_EQ(fast, own_plans(c, f));
  }
}

// Every candidate takes the forced number of splits. It is reduced, as in a launch, until no split is empty.
TEST(Oracle, NormalizesForcedSplits) {
  struct Case {
    int64_t k;
    int32_t forced, splits;
  };
  const Case cases[] = {{51234, 76, 76}, {51234, 77, 77}, {51234, 78, 78}, {51234, 1, 1},
                        {10, 7, 5},      {33, 65535, 33}, {1, 8, 1}};
  for (const DeviceFacts& f : shipped_facts())
    for (const Case& test : cases) {
      const ProblemClass c = matmul_class(DType::kF32, DType::kF32, 456, test.k, m_bucket(123));
      const OracleAnswer answer = rank_plans(c, f, {2, test.forced}).value();
      for (size_t i = 0; i < answer.legal; ++i) {
        const CompileConfig& config = answer.ranked[i].plan.config;
        int64_t splits = test.splits;
        if (config.kernel() == KernelKind::kMma ||
            config.kernel() == KernelKind::kMma32) {  // splits begin at multiples of 16 bytes
          const int64_t chunk = round_up(ceil_div(test.k, test.forced), 4);
          splits = ceil_div(test.k, chunk);
        }
        EXPECT_EQ(answer.ranked[i].plan.launch.splits, splits)
            << f.name << " " << name_of(config.kernel()) << " k=" << test.k;
        EXPECT_EQ(config.split() != kNoSplit, splits > 1);
      }
      const LaunchConfig launch = make_launch_config(Recipe(), c, {123, 456, test.k, 1}, test.splits);
      EXPECT_EQ(launch.splits, test.splits);
      EXPECT_LT(int64_t{launch.k_chunk} * (launch.splits - 1), test.k);
    }
}

TEST(Oracle, ListsReasonsIfNoPlanIsLegal) {
  ProblemClass c = matmul_class(DType::kF32, DType::kF32, 4096, 4096, {1, 1});
  c.determinism = Determinism::kBatchInvariant;
  for (const DeviceFacts& f : shipped_facts()) {
    const auto answer = rank_plans(c, f, {1, 4});
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("split_k 4 is forced")) << f.name;
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(f.target.arch));
  }
}

// Every GPU has a plan for each grouping, without splits, and says why the other families do not serve it.
TEST(Oracle, PlansGroupedProductsOnEveryGpu) {
  for (const DeviceFacts& facts : shipped_facts()) {
    if (facts.target.backend != Backend::kCuda && facts.target.backend != Backend::kRocm) continue;
    for (int i = static_cast<int>(Rows::kDeviceM); i <= static_cast<int>(Rows::kSumBF16); ++i)
      for (int64_t m : {1, 5, 40, 2048})
        for (DType t : {DType::kF32, DType::kBF16}) {
          ProblemClass c = matmul_class(t, t, 768, 2048, m_bucket(m));
          c.trans_b = 1;
          c.alignment = Alignment::k16;
          c.rows = static_cast<Rows>(i);
          const auto answer = rank_plans(c, facts, {1, 0});
          ASSERT_TRUE(answer.ok()) << facts.name << ": " << answer.status();
          expect_well_formed(*answer);
          bool has_wgmma = false;
          for (const RankedPlan& r : answer->ranked) {
            const KernelKind kernel = r.plan.config.kernel();
            has_wgmma |= kernel == KernelKind::kWgmma && r.rejection.empty();
            // Families that refuse only some rows have reasons of their own.
            const bool serves = kernel == KernelKind::kSimt || kernel == KernelKind::kMma ||
                                kernel == KernelKind::kMma32 || kernel == KernelKind::kSkinny ||
                                kernel == KernelKind::kWgmma || kernel == KernelKind::kTcgen05;
            if (!serves) EXPECT_THAT(r.rejection, HasSubstr("rows ")) << name_of(kernel);
            if (r.rejection.empty()) EXPECT_EQ(r.plan.config.split(), kNoSplit) << name_of(kernel);
          }
          EXPECT_EQ(has_wgmma, facts.target.arch == "sm_90a" && t == DType::kBF16 && is_grouped(c.rows));
          EXPECT_EQ(rank_plans(c, facts, {1, 4}).status().code(), absl::StatusCode::kUnimplemented);
        }
  }
}

// With one row per group in the mean, tiles have room for two, so that most groups read their weights once.
TEST(Oracle, LeavesRoomForGroupsAboveTheMean) {
  const DeviceFacts& facts = shipped_facts("sm_90a");
  for (const auto& [m, rows] : {std::pair{1, 2}, {2, 4}, {8, 16}, {12, 16}}) {
    ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 768, 2048, m_bucket(m));
    c.trans_b = 1;
    c.alignment = Alignment::k16;
    c.rows = Rows::kIndexed;
    const auto answer = rank_plans(c, facts, {1, 0});
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const RankedPlan& r : answer->ranked)
      if (r.plan.config.kernel() == KernelKind::kSkinny && r.rejection.empty())
        EXPECT_EQ(r.plan.config.tile_m(), rows) << m;
  }
}

TEST(Oracle, RejectsInvalidProblems) {
  const DeviceFacts& f = shipped_facts("x86-64-avx512bf16");
  const ProblemClass good = matmul_class(DType::kF32, DType::kF32, 16, 16, {1, 1});
  EXPECT_TRUE(rank_plans(good, f, {1, 0}).ok());
  EXPECT_EQ(rank_plans(good, f, {0, 0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rank_plans(good, f, {1, -1}).status().code(), absl::StatusCode::kInvalidArgument);
  ProblemClass c = good;
  c.k = 0;
  EXPECT_EQ(rank_plans(c, f, {1, 0}).status().code(), absl::StatusCode::kInvalidArgument);
  c = good;
  c.b = DType::kI8;
  EXPECT_EQ(rank_plans(c, f, {1, 0}).status().code(), absl::StatusCode::kUnimplemented);
  c = argmax_class(DType::kI32, {1, 1024});
  EXPECT_EQ(rank_plans(c, f, {1, 0}).status().code(), absl::StatusCode::kUnimplemented);
}

// The classes differ only in their bucket and alignment.
TEST(Oracle, ClassesOfWeightCoverEveryMOnce) {
  ProblemClass c = matmul_class(DType::kBF16, DType::kBF16, 6144, 4096, {77, 77});
  c.trans_b = 1;
  c.bias = DType::kF32;
  for (Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kRocm}) {
    const std::vector<ProblemClass> classes = classes_of_weight(c, 8192, backend);
    const bool cpu = backend == Backend::kCpu;
    for (Alignment alignment : {Alignment::kElement, Alignment::k16, Alignment::kByte}) {
      for (int64_t m = 1; m <= 8192; ++m) {
        int holds = 0;
        for (ProblemClass k : classes) {
          if (k.alignment != alignment || m < k.m_lo || m > k.m_hi) continue;
          ++holds;
          const Bucket any{1, Bucket::kOpenEnd};
          EXPECT_EQ((Bucket{k.m_lo, k.m_hi}), alignment == Alignment::kByte ? any : m_bucket(m));
          k.m_lo = k.m_hi = 77;
          k.alignment = c.alignment;
          EXPECT_EQ(k, c);
        }
        ASSERT_EQ(holds, cpu && alignment != Alignment::kElement ? 0 : 1) << m;
      }
    }
    EXPECT_EQ(classes.size(), cpu ? 22u : 2 * 22u + 1);
    EXPECT_EQ(classes_of_weight(c, 5, backend).size(), cpu ? 5u : 2 * 5u + 1);
  }
}

TEST(Oracle, ClassesOfArgmaxCoverEveryRowLength) {
  for (Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kRocm}) {
    const bool is_cpu = backend == Backend::kCpu;
    const std::vector<ProblemClass> classes =
        classes_of_weight(argmax_class(DType::kF16, {5, 5}), 8192, backend);
    EXPECT_EQ(classes.size(), is_cpu ? 3u : 9u);
    for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
      for (int64_t n : {1, 1024, 1025, 16384, 16385, 151936}) {
        const Alignment own = is_cpu ? Alignment::kElement : alignment;
        const auto holds = std::count_if(classes.begin(), classes.end(), [&](const ProblemClass& k) {
          return k.alignment == own && n >= k.row_lo && n <= k.row_hi;
        });
        EXPECT_EQ(holds, 1) << n << " alignment " << static_cast<int>(alignment);
      }
    }
  }
}

}  // namespace
}  // namespace lathe
