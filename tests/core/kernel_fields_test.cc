#include "core/kernel_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lathe {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

// Every field is used by some kernel, and no kernel lists a field twice.
TEST(KernelFields, EveryFieldIsUsedAndListedOnce) {
  std::set<std::string> used;
  for (const KernelRow& kernel : kKernels)
    for (const OpRow& op : ops::kRows)
      for (Backend backend : kBackends) {
        std::set<std::string> listed;
        for (const FieldUse& use : fields_of(kernel.kind, op.op, backend)) {
          EXPECT_TRUE(listed.insert(use.name).second) << kernel.name << " " << use.name;
          EXPECT_THAT(std::string(use.meaning), Not(IsEmpty()));
        }
        used.insert(listed.begin(), listed.end());
      }
  for (const ConfigField& f : kConfigFields) EXPECT_EQ(used.count(f.name), 1u) << f.name;
}

TEST(KernelFields, OneNameHasTheMeaningOfItsKernel) {
  const auto meaning = [](KernelKind kernel, Op op, Backend backend, const std::string& name) -> std::string {
    for (const FieldUse& use : fields_of(kernel, op, backend))
      if (use.name == name) return use.meaning;
    return "";
  };
  EXPECT_EQ(meaning(KernelKind::kMma, Op::kMatmul, Backend::kCuda, "tile_k"),
            "depth of a K block in shared memory");
  EXPECT_EQ(meaning(KernelKind::kRows, Op::kArgmax, Backend::kCuda, "tile_k"), "");
  EXPECT_EQ(meaning(KernelKind::kUkernel, Op::kArgmax, Backend::kCuda, "unroll_k"),
            "loads that register_n is divided into");
  EXPECT_EQ(meaning(KernelKind::kUkernel, Op::kMatmul, Backend::kCuda, "unroll_k"),
            "depth of a stage in shared memory");
  EXPECT_EQ(meaning(KernelKind::kUkernel, Op::kMatmul, Backend::kCpu, "unroll_k"), "");
  EXPECT_EQ(meaning(KernelKind::kWgmma, Op::kMatmul, Backend::kRocm, "tile_m"), "");  // not there
}

TEST(KernelFields, NamesTheFieldThatAKernelDoesNotUse) {
  CompileConfig c;
  c.kernel = KernelKind::kPanel;
  c.tile_m = 64, c.tile_n = 64, c.tile_k = 256, c.register_m = 6, c.register_n = 32, c.lanes = 16;
  EXPECT_EQ(unused_field(c, Op::kMatmul, Backend::kCpu), "");
  c.narrow_passes = 1;
  EXPECT_EQ(unused_field(c, Op::kMatmul, Backend::kCpu),
            "kernel 'panel' does not use narrow_passes, which is 1 instead of 0");
  EXPECT_EQ(unused_field(c, Op::kMatmul, Backend::kCuda), "kernel 'panel' does not compute matmul on cuda");
  c.kernel = KernelKind::kPanelT;
  EXPECT_EQ(unused_field(c, Op::kMatmul, Backend::kCpu), "");
  c.threads = 32;
  EXPECT_EQ(unused_field(c, Op::kMatmulArgmax, Backend::kCpu),
            "kernel 'panel_t' does not use threads, which is 32 instead of 1");
}

TEST(KernelFields, DescribesTheNumbersOfAConfig) {
  CompileConfig c;
  c.kernel = KernelKind::kXegpu;
  c.tile_m = 8, c.split = kMergeStep;
  const Json fields = describe_fields(c, Op::kMatmul, Backend::kSpirv);
  ASSERT_EQ(fields.size(), 7u);
  EXPECT_EQ(fields[0], Json({{"name", "tile_m"}, {"value", 8}, {"meaning", "rows of D of a workgroup"}}));
  EXPECT_EQ(fields[6]["name"], "split");
  EXPECT_EQ(fields[6]["value"], 1);
  EXPECT_THAT(describe_fields(c, Op::kArgmax, Backend::kSpirv), IsEmpty());
}

}  // namespace
}  // namespace lathe
