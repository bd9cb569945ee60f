#include "core/amd_targets.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/facts.h"

namespace lathe {
namespace {

TEST(AmdTargets, ListsEveryGpuOnceAsATarget) {
  std::set<std::string> names;
  for (const AmdGpu& gpu : amd_gpus()) {
    EXPECT_TRUE(names.insert(std::string(gpu.name)).second) << gpu.name;
    const absl::StatusOr<Target> target = parse_target(gpu.name);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(target->backend, Backend::kRocm);
    EXPECT_EQ(target->arch, gpu.name);
    EXPECT_EQ(canonical_features(target->features).value(), target->features);
    EXPECT_FALSE(is_amd_generic(gpu.name));
    EXPECT_EQ(amd_baseline(gpu.name), gpu.name);
    EXPECT_EQ(wave_size(*target), gpu.name.substr(0, 4) == "gfx9" ? 64 : 32) << gpu.name;
  }
}

// From LLVM's AMDGPU usage guide, "Generic processors".
TEST(AmdTargets, AssignsGpusToTheirGenericTargets) {
  const struct {
    const char *gpu, *generic;
  } members[] = {{"gfx900", "gfx9-generic"},
                 {"gfx906", "gfx9-generic"},
                 {"gfx90c", "gfx9-generic"},
                 {"gfx908", ""},
                 {"gfx90a", ""},
                 {"gfx942", "gfx9-4-generic"},
                 {"gfx950", "gfx9-4-generic"},
                 {"gfx1030", "gfx10-3-generic"},
                 {"gfx1036", "gfx10-3-generic"},
                 {"gfx1100", "gfx11-generic"},
                 {"gfx1153", "gfx11-generic"},
                 {"gfx1200", "gfx12-generic"},
                 {"gfx1201", "gfx12-generic"}};
  for (const auto& member : members) {
    const AmdGpu* gpu = find_amd_gpu(member.gpu);
    ASSERT_NE(gpu, nullptr) << member.gpu;
    EXPECT_EQ(gpu->generic, member.generic) << member.gpu;
  }
  for (const char* unknown : {"gfx9-generic", "gfx803", "gfx1250", "gfx94", "sm_90a", ""})
    EXPECT_EQ(find_amd_gpu(unknown), nullptr) << unknown;
}

// Code can be compiled for a generic target, but no device is one.
TEST(AmdTargets, RefusesAGenericTargetAsADevice) {
  for (const char* name : {"gfx9-generic", "gfx9-4-generic", "gfx11-generic"}) {
    EXPECT_TRUE(is_amd_generic(name));
    EXPECT_FALSE(parse_target(name).ok()) << name;
  }
  EXPECT_EQ(amd_baseline("gfx9-generic"), "gfx900");
  EXPECT_EQ(amd_baseline("gfx9-4-generic"), "gfx942");
  EXPECT_EQ(amd_baseline("gfx10-3-generic"), "gfx1030");
  EXPECT_EQ(amd_baseline("gfx11-generic"), "gfx1100");
  EXPECT_EQ(amd_baseline("gfx12-generic"), "gfx1200");
  EXPECT_EQ(amd_baseline("sm_90a"), "sm_90a");
}

TEST(AmdTargets, AcceptsOnlyTheModesOfTheGpu) {
  EXPECT_EQ(parse_target("gfx906:sramecc-:xnack+")->features, "+xnack,-sramecc");
  EXPECT_EQ(parse_target("gfx90c:xnack+")->features, "+xnack");
  EXPECT_FALSE(parse_target("gfx900:sramecc+").ok()) << "has no such mode";
  EXPECT_FALSE(parse_target("gfx1030:xnack-").ok());
  const std::string text(parse_target("gfx803").status().message());
  EXPECT_NE(text.find("unknown target \"gfx803\"; known: "), std::string::npos) << text;
  EXPECT_NE(text.find(" gfx1036 "), std::string::npos) << text;
}

}  // namespace
}  // namespace lathe
