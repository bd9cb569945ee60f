// Plans for real layers on the shipped CUDA devices. Each must be one that the device can run; the test computes
// the limits from the fields of the plan, independently of the kernel families.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

#include "core/recipe.h"
#include "oracle/oracle.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

int version_of(const DeviceFacts& f) { return std::stoi(f.target.arch.substr(3)); }

// What the checks need of a plan of any family.
struct Limits {
  explicit Limits(const CompileConfig& c)
      : kernel(c.kernel()),
        tile_m(c.tile_m()),
        tile_n(c.tile_n()),
        tile_k(depth_of(c)),
        register_m(field_or(c, "register_m", 1)),
        register_n(field_or(c, "register_n", 1)),
        threads(c.threads()),
        stages(field_or(c, "stages", 1)),
        cluster_m(field_or(c, "cluster_m", 1)),
        cluster_n(field_or(c, "cluster_n", 1)),
        cluster_k(field_or(c, "cluster_k", 1)),
        persistent(c.persistent()),
        split(c.split()) {
    if (kernel == KernelKind::kUkernel) kernel = KernelKind::kMma;  // matmul's work like "mma"
  }
  KernelKind kernel;
  int64_t tile_m, tile_n, tile_k, register_m, register_n, threads, stages;
  int64_t cluster_m, cluster_n, cluster_k, persistent, split;

  // The least shared memory in bytes that the tiles need. The kernel may use more.
  double least_shared_bytes(const ProblemClass& c) const {
    const double element = kernel == KernelKind::kSimt ? 4 : double(size_of(c.a));
    const double columns =
        kernel == KernelKind::kSkinny ? 0 : double(tile_n);  // "skinny" holds B in registers
    return (double(tile_m) + columns) * double(tile_k * stages) * element;
  }
  // The accumulator registers of a thread.
  double sums_of_thread() const {
    if (kernel == KernelKind::kSimt) return double(register_m * register_n);
    if (kernel == KernelKind::kMma) return double(register_m * register_n) / 32;
    if (kernel == KernelKind::kWgmma)
      return double(tile_m * tile_n) / double(threads - 128);  // one warpgroup only copies
    return 1;
  }
};

// Why the device cannot run the plan; "" if it can.
std::string defect(const DeviceFacts& facts, const ProblemClass& c, const Plan& plan) {
  const Limits f(plan.config);
  const int version = version_of(facts);
  const double clusters = double(f.cluster_m * f.cluster_n * f.cluster_k), sums = f.sums_of_thread();
  const double threads = double(f.threads);
  const bool copies = f.kernel == KernelKind::kWgmma || f.kernel == KernelKind::kSkinny;
  constexpr double kRegistersOfThread = 255, kPortableCluster = 8;  // CUDA C++ Programming Guide
  struct {
    bool wrong;
    const char* what;
  } const checks[] = {
      {!refusal_of(plan.config, c.op, facts.target.backend).empty(), "a config of another family"},
      {f.tile_m < 1 || f.tile_n < 1 || f.tile_k < 1 || f.stages < 1, "empty tile"},
      {f.threads < 32 || f.threads % 32 != 0, "threads are not whole warps"},
      {threads > facts.fact_or("max_workgroup_size", 0), "too many threads for a workgroup"},
      {threads > facts.fact_or("threads_per_unit", 0), "too many threads for a unit"},
      {f.least_shared_bytes(c) > facts.fact_or("shared_memory_bytes", 0), "too much shared memory"},
      {sums + 16 > kRegistersOfThread, "too many registers for a thread"},
      {sums * threads > facts.fact_or("registers_per_unit", 0), "too many registers for a unit"},
      {f.kernel == KernelKind::kWgmma && facts.target.arch != "sm_90a", "no wgmma instruction"},
      {f.kernel == KernelKind::kTcgen05 && facts.target.arch != "sm_100a", "no tcgen05 instruction"},
      {f.kernel == KernelKind::kWgmma && (f.threads % 128 != 0 || f.threads < 256),
       "threads are not whole warpgroups"},
      {f.kernel == KernelKind::kMma && version < 80, "no asynchronous copies"},
      {f.kernel != KernelKind::kSimt && (is_fnuz(c.a) || (is_f8(c.a) && version < 89)),
       "no matrix instruction for fp8"},
      {field_or(plan.config, "matrix", f.kernel != KernelKind::kSimt) != 0 && c.a == DType::kF32,
       "f32 would be rounded"},
      {copies && c.alignment != Alignment::k16, "copies of 16 bytes need alignment"},
      {f.kernel == KernelKind::kSkinny && (c.m_lo != c.m_hi || c.m_hi > 16),
       "skinny needs one M of at most 16"},
      {clusters > kPortableCluster, "cluster too large"},
      {clusters > 1 && version < 90, "no clusters on this GPU"},
      {clusters > facts.fact_or("compute_units", 0), "cluster has more workgroups than there are units"},
      {f.persistent == 0 && std::ceil(double(c.n) / double(f.tile_n)) > 65535, "grid too large"},
      {(f.split == kNoSplit) != (plan.launch.splits == 1), "number of splits contradicts the merge"},
      {f.split == kMergeCluster && f.cluster_k != plan.launch.splits,
       "cluster_k is not the number of splits"},
      {f.split != kMergeCluster && f.cluster_k != 1, "cluster along K without merge in the cluster"},
      {plan.launch.splits > c.k, "empty splits"},
      {f.persistent % std::max<int64_t>(1, f.cluster_m * f.cluster_n) != 0,
       "persistent workgroups are not whole clusters"},
      {f.persistent > 0 && (f.split == kMergeLast || f.split == kMergeCluster),
       "persistent workgroups cannot merge splits"},
  };
  for (const auto& check : checks)
    if (check.wrong) return check.what;
  return "";
}

// The device has less of one resource than the ones that "wgmma" was written for.
TEST(GpuPlans, WgmmaRejectsPlansBeyondDeviceLimits) {
  const ProblemClass c = [] {
    ProblemClass made = matmul_class(DType::kBF16, DType::kBF16, 7168, 8192, m_bucket(4096));
    made.trans_b = 1;
    return with_alignment(made, Alignment::k16, /*is_cpu=*/false);
  }();
  const struct {
    const char* fact;
    double value;
    const char* why;
    bool every;  // no "wgmma" plan is legal
  } cases[] = {{"max_workgroup_size", 256, "threads 384 > 256", false},
               {"threads_per_unit", 256, "threads 384 > 256", false},
               {"registers_per_unit", 32768, "registers per workgroup 65536 > 32768", true},
               {"compute_units", 1, "cluster size 2 > compute units 1", false}};
  for (const auto& [fact, value, why, every] : cases) {
    DeviceFacts f = shipped_facts("sm_90a");
    f.facts.at(fact).value = value;
    const auto answer = rank_plans(c, f, {1, 0});
    ASSERT_TRUE(answer.ok()) << fact << " " << answer.status();
    size_t refused = 0, legal = 0;
    for (size_t i = 0; i < answer->ranked.size(); ++i) {
      const RankedPlan& r = answer->ranked[i];
      if (r.plan.config.kernel() != KernelKind::kWgmma) continue;
      legal += i < answer->legal;
      refused += r.rejection == why;
    }
    EXPECT_GT(refused, 0u) << fact;
    EXPECT_EQ(legal == 0, every) << fact;
  }
}

// ptxas spills registers for these forms only on these targets. Neighbouring forms stay legal.
TEST(GpuPlans, RejectsFormsThatWouldSpill) {
  struct Form {
    const char* target;
    DType type;
    int trans_a, trans_b;
    Alignment alignment;
    Activation activation;
    KernelKind kernel;
    int32_t tile_m, tile_n, tile_k, register_n;
    const char* why;  // "": legal
  };
  constexpr Alignment kAligned = Alignment::k16, kNot = Alignment::kElement;
  constexpr Activation kPlain = Activation::kNone;
  const char* const kWords = "copying 16 words per thread and operand would spill registers; the limit is 8";
  const Form forms[] = {
      {"sm_100a", DType::kF8E4M3, 0, 1, kNot, kPlain, KernelKind::kMma, 64, 128, 128, 32,
       "a warp with 1024 accumulators would spill registers for f8e4m3 on sm_100a; the limit is 512"},
      {"sm_100a", DType::kF8E4M3, 0, 1, kNot, kPlain, KernelKind::kMma, 64, 64, 64, 32, ""},
      {"sm_100a", DType::kF8E4M3, 0, 1, kAligned, kPlain, KernelKind::kMma, 64, 128, 128, 32, ""},
      {"sm_90a", DType::kF8E5M2, 0, 1, kAligned, kPlain, KernelKind::kMma, 128, 128, 64, 64,
       "a warp with 4096 accumulators would spill registers for f8e5m2 on sm_90a; the limit is 2048"},
      {"sm_89", DType::kF8E4M3, 0, 1, kNot, kPlain, KernelKind::kMma, 64, 128, 128, 32, ""},
      {"sm_80", DType::kBF16, 1, 0, kNot, kPlain, KernelKind::kMma, 64, 64, 64, 32, kWords},
      {"sm_90a", DType::kF16, 1, 0, kNot, kPlain, KernelKind::kMma, 64, 64, 64, 32, kWords},
      {"sm_80", DType::kBF16, 1, 0, kAligned, kPlain, KernelKind::kMma, 64, 64, 64, 32, ""},
      {"sm_80", DType::kBF16, 0, 0, kNot, kPlain, KernelKind::kMma, 64, 64, 64, 32, ""},
      {"sm_80", DType::kBF16, 1, 0, kNot, kPlain, KernelKind::kMma, 64, 64, 64, 16, ""},
      {"sm_90a", DType::kBF16, 0, 1, kAligned, Activation::kGelu, KernelKind::kWgmma, 192, 128, 64, 128,
       "gelu needs 112 registers per thread beside the accumulators, but only 96 are left"},
      {"sm_90a", DType::kBF16, 0, 1, kAligned, Activation::kGelu, KernelKind::kWgmma, 256, 128, 64, 128, ""},
      {"sm_90a", DType::kBF16, 0, 1, kAligned, Activation::kSilu, KernelKind::kWgmma, 192, 128, 64, 128, ""},
  };
  for (const Form& form : forms) {
    ProblemClass c = matmul_class(form.type, DType::kBF16, 4096, 4096, m_bucket(4096));
    c.trans_a = form.trans_a, c.trans_b = form.trans_b;
    c.activation = form.activation;
    c = with_alignment(c, form.alignment, /*is_cpu=*/false);
    const auto answer = rank_plans(c, shipped_facts(form.target), {1, 0});
    ASSERT_TRUE(answer.ok()) << answer.status();
    int found = 0;
    for (const RankedPlan& r : answer->ranked) {
      const Limits f(r.plan.config);
      if (f.kernel != form.kernel || r.plan.config.kernel() == KernelKind::kUkernel ||
          f.tile_m != form.tile_m || f.tile_n != form.tile_n || f.tile_k != form.tile_k ||
          f.register_n != form.register_n)
        continue;
      ++found;
      EXPECT_EQ(r.rejection, form.why) << form.target << " " << to_json(r.plan.config).dump();
    }
    EXPECT_GT(found, 0) << form.target << " " << name_of(form.type) << " " << form.tile_m << "x"
                        << form.tile_n;
  }
}

// Devices with fewer resources than any family was written for, and weights with too many columns for a grid.
TEST(GpuPlans, LegalPlansFitSmallerDevices) {
  const std::pair<const char*, double> less[] = {
      {"compute_units", 1},      {"compute_units", 7},          {"max_workgroup_size", 128},
      {"threads_per_unit", 256}, {"registers_per_unit", 32768}, {"shared_memory_bytes", 32768}};
  size_t plans = 0;
  constexpr int64_t kMostRows =
      int64_t{65535} * 128;  // a full grid of the tile width that every M and type has
  const auto check = [&](const DeviceFacts& f, const ProblemClass& c) {
    const auto answer = rank_plans(c, f, {1, 0});
    if (!answer.ok() && c.n > kMostRows) {
      EXPECT_NE(answer.status().message().find("grid: "), std::string::npos) << answer.status();
      return;
    }
    ASSERT_TRUE(answer.ok()) << f.name << " " << to_json(c).dump() << " " << answer.status();
    for (size_t i = 0; i < answer->legal; ++i, ++plans)
      ASSERT_EQ(defect(f, c, answer->ranked[i].plan), "")
          << f.name << " " << to_json(c).dump() << " " << to_json(answer->ranked[i].plan.config).dump();
  };
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend != Backend::kCuda) continue;
    for (const Bucket& m : m_buckets(8192))
      for (DType t : {DType::kF32, DType::kBF16}) {
        ProblemClass c = matmul_class(t, t, 4096, 8192, m);
        c.trans_b = 1;
        c.alignment = Alignment::k16;
        for (const auto& [fact, value] : less) {
          DeviceFacts lesser = f;
          lesser.facts.at(fact).value = value;
          check(lesser, c);
        }
        for (int64_t n : {2 << 20, 8 << 20, 17 << 20}) {
          c.n = n, c.k = 64;
          check(f, c);
        }
      }
  }
  EXPECT_GT(plans, 10000u);
}

// Checks every legal plan, because a tuner may choose any of them. The forms take turns to save time.
TEST(GpuPlans, LegalPlansFitTheirDevice) {
  struct Form {
    DType in, out;
    int trans_b;
    Alignment alignment;
  };
  const Form forms[] = {
      {DType::kBF16, DType::kBF16, 1, Alignment::k16},      {DType::kF16, DType::kF32, 0, Alignment::k16},
      {DType::kBF16, DType::kBF16, 1, Alignment::kElement}, {DType::kF32, DType::kF32, 1, Alignment::k16},
      {DType::kF8E4M3, DType::kF32, 1, Alignment::k16},     {DType::kI8, DType::kF32, 1, Alignment::k16},
      {DType::kF8E4M3Fnuz, DType::kF32, 1, Alignment::k16}};
  size_t plans = 0;
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend != Backend::kCuda) continue;
    size_t turn = 0;
    for (const Shape& shape : layer_shapes())
      for (const Bucket& m : m_buckets(8192))
        // Aligned bf16 always, and one of the other forms.
        for (const Form& form : {forms[0], forms[1 + turn++ % (std::size(forms) - 1)]}) {
          ProblemClass c = matmul_class(form.in, form.out, shape.n, shape.k, m);
          c.trans_b = form.trans_b;
          c.alignment = form.alignment;
          const auto answer = rank_plans(c, f, {1, 0});
          ASSERT_TRUE(answer.ok()) << f.name << " " << to_json(c).dump() << " " << answer.status();
          for (size_t i = 0; i < answer->legal; ++i, ++plans) {
            const Plan& plan = answer->ranked[i].plan;
            const std::string wrong = defect(f, c, plan);
            ASSERT_EQ(wrong, "") << f.name << " " << to_json(c).dump() << " " << to_json(plan.config).dump()
                                 << " splits " << plan.launch.splits;
          }
        }
  }
  EXPECT_GT(plans, 1000000u);
}

}  // namespace
}  // namespace lathe
