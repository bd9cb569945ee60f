#include "kernels/candidates_generic.h"

#include <gtest/gtest.h>

#include "core/amd_targets.h"
#include "core/generic.h"
#include "tests/config_field.h"

namespace lathe {
namespace {

Target named(const char* name) { return parse_target(name).value(); }

TEST(CandidatesGeneric, PlansEveryGenericClass) {
  for (const Target& target : generic_targets())
    for (const ProblemClass& c : generic_classes(target)) {
      const CompileConfig config = plan_generic(c, target);
      EXPECT_GE(config.tile_m(), 1);
      EXPECT_GE(config.tile_n(), 1);
      if (target.backend != Backend::kCpu && config.kernel() == KernelKind::kSimt)
        EXPECT_EQ(
            config.tile_m() / field(config, "register_m") * (config.tile_n() / field(config, "register_n")),
            config.threads());
      if (target.backend == Backend::kRocm)
        EXPECT_LE(config.split(), kMergeStep) << "the ranked plans merge in a second step too";
    }
}

TEST(CandidatesGeneric, SelectsTargetsThatTheDeviceCanRun) {
  for (const char* gpu : {"sm_75", "sm_80", "sm_90a", "sm_120"}) {
    const std::vector<Target> targets = generic_targets_for(named(gpu));
    ASSERT_EQ(targets.size(), 1u) << gpu;
    EXPECT_EQ(targets[0].arch, "sm_75");
  }
  EXPECT_TRUE(generic_targets_for({Backend::kCuda, "sm_70", ""}).empty());
  EXPECT_TRUE(generic_targets_for({Backend::kRocm, "gfx803", ""}).empty());
#if defined(__x86_64__)
  for (const char* wide : {"x86-64-avx2", "x86-64-avx512"}) {
    const std::vector<Target> targets = generic_targets_for(named(wide));
    ASSERT_EQ(targets.size(), 2u);
    EXPECT_TRUE(targets[0].has("avx2")) << "the best target comes first";
    EXPECT_EQ(targets[1].features, "");
  }
  EXPECT_EQ(generic_targets_for({Backend::kCpu, "x86-64", ""}).size(), 1u);
  EXPECT_TRUE(generic_targets_for(named("aarch64-neon")).empty());
#endif
}

// The target is the GPU family's generic one (such as gfx11-generic) if the GPU belongs to a family.
TEST(CandidatesGeneric, SelectsOneTargetForEveryAmdGpu) {
  for (const AmdGpu& gpu : amd_gpus()) {
    const std::vector<Target> targets = generic_targets_for(named(std::string(gpu.name).c_str()));
    ASSERT_EQ(targets.size(), 1u) << gpu.name;
    EXPECT_EQ(targets[0].arch, gpu.generic.empty() ? gpu.name : gpu.generic);
    EXPECT_EQ(targets[0].features, "") << "the code runs in every mode";
  }
  for (const char* modes : {"gfx942:sramecc-:xnack+", "gfx90a:sramecc-:xnack+", "gfx90c:xnack+"})
    EXPECT_EQ(generic_targets_for(named(modes)).size(), 1u) << modes;
}

}  // namespace
}  // namespace lathe
