#include "core/kernel_configs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/plan.h"

namespace lathe {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

// Calls `test` with a config of initial values for every family and kernel.
void for_every_config(const std::function<void(const KernelConfig& config)>& test) {
  for (size_t i = 0; i < std::size(kConfigFamilies); ++i)
    for (const KernelRow& kernel : kKernels)
      if (kConfigFamilies[i].covers(kernel.kind)) test({static_cast<ConfigFamily>(i), kernel.kind});
}

std::string meaning(const KernelConfig& config, absl::string_view name) {
  for (const FieldValue& f : config.fields())
    if (name == f.field->name) return f.field->meaning;
  return "";
}

TEST(KernelConfigs, ListEveryFieldOnceWithItsMeaningAndAnInitialValueInRange) {
  std::set<std::string> families;
  for_every_config([&](const KernelConfig& config) {
    families.emplace(name_of(config.family()));
    std::set<std::string> listed;
    for (const auto& [field, value] : config.fields()) {
      EXPECT_TRUE(listed.insert(field->name).second) << name_of(config.family()) << " " << field->name;
      EXPECT_THAT(std::string(field->meaning), Not(IsEmpty()));
      EXPECT_EQ(value, field->initial) << field->name;
    }
    EXPECT_EQ(defect_of(config), "") << name_of(config.family());
  });
  EXPECT_EQ(families.size(), std::size(kConfigFamilies)) << "two families have the same name";
}

TEST(KernelConfigs, SetsEveryFieldByItsNameAlone) {
  for_every_config([](const KernelConfig& initial) {
    for (const auto& [changed, before] : initial.fields()) {
      KernelConfig config = initial;
      EXPECT_TRUE(config.set(changed->name, before + 1));
      EXPECT_FALSE(config == initial) << changed->name;
      for (const auto& [field, value] : config.fields())
        EXPECT_EQ(value, field->initial + (field == changed ? 1 : 0)) << field->name;
    }
    KernelConfig config = initial;
    EXPECT_FALSE(config.set("no_such_field", 1));
    EXPECT_TRUE(config == initial);
    EXPECT_EQ(config.kernel(), initial.kernel());
  });
}

TEST(KernelConfigs, ReadFieldsOfAnyFamily) {
  MmaConfig mma;
  mma.tile_m = 64, mma.tile_n = 128, mma.threads = 256, mma.split = kMergeLast, mma.raster = 4;
  const KernelConfig config = mma;
  EXPECT_EQ(config.kernel(), KernelKind::kMma);
  EXPECT_EQ(config.family(), ConfigFamily::kMma);
  EXPECT_EQ(config.tile_m(), 64);
  EXPECT_EQ(config.tile_n(), 128);
  EXPECT_EQ(config.threads(), 256);
  EXPECT_EQ(config.split(), kMergeLast);
  EXPECT_EQ(config.lanes(), 1) << "not a field of mma";
  EXPECT_EQ(config.persistent(), 0) << "not a field of mma";
  EXPECT_EQ(LATHE_READ_FIELD(config, raster, 9), 4);
  EXPECT_EQ(LATHE_READ_FIELD(config, pace, 9), 9);
  EXPECT_EQ(config.find<SimtConfig>(), nullptr);
  EXPECT_TRUE(config.as<MmaConfig>() == mma);
}

TEST(KernelConfigs, OneNameHasTheMeaningOfItsFamily) {
  EXPECT_EQ(meaning(SimtConfig(), "register_m"), "rows of D of a thread");
  EXPECT_EQ(meaning(MmaConfig(), "register_m"), "rows of D of a warp");
  EXPECT_EQ(meaning(MmaUkernelConfig(), "stage_k"), "depth of a stage in shared memory");
  EXPECT_EQ(meaning(GpuRowsConfig(), "loads"), "loads that register_n is divided into");
  EXPECT_EQ(meaning(GpuRowsConfig(), "tile_k"), "");
}

TEST(KernelConfigs, BelongToAKernelAnOpAndABackend) {
  EXPECT_EQ(family_of(KernelKind::kUkernel, Op::kMatmul, Backend::kCpu), ConfigFamily::kPanelUkernel);
  EXPECT_EQ(family_of(KernelKind::kUkernel, Op::kMatmul, Backend::kCuda), ConfigFamily::kMmaUkernel);
  EXPECT_EQ(family_of(KernelKind::kUkernel, Op::kArgmax, Backend::kCuda), ConfigFamily::kGpuRows);
  EXPECT_EQ(family_of(KernelKind::kRows, Op::kArgmax, Backend::kCpu), ConfigFamily::kCpuRows);
  EXPECT_EQ(refusal_of(PanelConfig(), Op::kMatmul, Backend::kCpu), "");
  EXPECT_EQ(refusal_of(PanelConfig(), Op::kMatmul, Backend::kCuda),
            "kernel 'panel' does not compute matmul on cuda");
  EXPECT_EQ(refusal_of(CpuRowsConfig(), Op::kArgmax, Backend::kCuda),
            "kernel 'rows' has a config of family 'gpu_rows' for argmax on cuda, not 'cpu_rows'");
}

TEST(KernelConfigs, NameTheFieldThatIsOutOfRange) {
  PanelConfig panel;
  panel.tile_n = -5;
  EXPECT_EQ(defect_of(panel), "tile_n is -5, not 0 to 16777216");
  panel.tile_n = kMostTile;
  EXPECT_EQ(defect_of(panel), "");
  panel.lanes = 0;
  EXPECT_EQ(defect_of(panel), "lanes is 0, not 1 to 1024");
}

TEST(KernelConfigs, NameNumbersThatAreNotInitial) {
  EXPECT_EQ(name_of_numbers(NoneConfig()), "");
  WgmmaConfig wgmma;
  wgmma.tile_m = 128, wgmma.tile_n = 256, wgmma.tile_k = 64, wgmma.threads = 384, wgmma.cluster_n = 2;
  EXPECT_EQ(name_of_numbers(wgmma), "_128x256x64_t384_c1x2x1");
  DotConfig dot;
  dot.tile_m = 4, dot.tile_n = 512, dot.register_m = 4, dot.register_n = 6, dot.split = kMergeStep;
  EXPECT_EQ(name_of_numbers(dot), "_4x512_r4x6_split1");
}

TEST(KernelConfigs, DescribeTheirNumbers) {
  XegpuConfig c;
  c.tile_m = 8, c.split = kMergeStep;
  const Json fields = describe_fields(c);
  ASSERT_EQ(fields.size(), 7u);
  EXPECT_EQ(fields[0], Json({{"name", "tile_m"}, {"value", 8}, {"meaning", "rows of D of a workgroup"}}));
  EXPECT_EQ(fields[6]["name"], "split");
  EXPECT_EQ(fields[6]["value"], 1);
  EXPECT_THAT(describe_fields(ExternalConfig()), IsEmpty());
}

}  // namespace
}  // namespace lathe
