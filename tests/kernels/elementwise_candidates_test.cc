// The candidate tables of elementwise kernels: threads and registers make up the tile, only aligned operands get
// vectors, no prediction beats the memory bandwidth, and nothing is split.
#include <gmock/gmock.h>

#include "core/elementwise.h"
#include "kernels/candidates.h"
#include "oracle/oracle.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

ProblemClass class_for(const std::string& dtype, Alignment alignment) {
  const auto p = parse_elementwise(R"({"d":")" + dtype + R"(","inputs":[{"dims":"mn","dtype":")" + dtype +
                                   R"("},{"dims":"mn","dtype":")" + dtype + R"("}],"nodes":[],"yield":0})");
  EXPECT_TRUE(p.ok()) << p.status();
  ProblemClass c = class_of(*p);
  c.alignment = alignment;
  return c;
}

struct Element {
  const char* name;
  int32_t bytes;
};
constexpr Element kElements[] = {{"i8", 1}, {"bf16", 2}, {"f32", 4}, {"i64", 8}};

TEST(ElementwiseCandidates, LegalPlansAreConsistent) {
  for (const DeviceFacts& facts : shipped_facts())
    for (const Element& element : kElements)
      for (Alignment alignment : {Alignment::kElement, Alignment::k16, Alignment::kByte}) {
        const bool cpu = facts.target.backend == Backend::kCpu;
        if (cpu && alignment != Alignment::kElement) continue;
        const auto answer = rank_plans(class_for(element.name, alignment), facts, {4});
        if (facts.target.backend == Backend::kSpirv) {
          EXPECT_THAT(std::string(answer.status().message()), HasSubstr("no kernel family"));
          continue;
        }
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_GT(answer->legal, size_t{1});
        const double rate = facts.fact_or("memory_bytes_per_second", 0);
        for (size_t i = 0; i < answer->legal; ++i) {
          const Plan& plan = answer->ranked[i].plan;
          const CompileConfig& c = plan.config;
          EXPECT_EQ(name_of(c.kernel()), "rows");
          EXPECT_EQ(plan.launch.splits, 1);
          EXPECT_GE(plan.predicted_seconds, 2048.0 * 4096 * 3 * element.bytes / rate) << facts.target.arch;
          if (cpu) {
            EXPECT_EQ(field(c, "register_n") % c.lanes(), 0);
            EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
            continue;
          }
          EXPECT_EQ(c.tile_n() % field(c, "register_n"), 0);
          EXPECT_EQ(c.threads() * field(c, "register_m") * field(c, "register_n"), c.tile_m() * c.tile_n());
          EXPECT_EQ(field(c, "register_n"), alignment == Alignment::k16 ? 16 / element.bytes : 1);
        }
      }
}

TEST(ElementwiseCandidates, RejectsForcedSplits) {
  OraclePolicy policy;
  policy.workers = 4;
  policy.split_k = 2;
  const auto answer = rank_plans(class_for("f32", Alignment::kElement), shipped_facts("sm_90a"), policy);
  EXPECT_TRUE(absl::IsUnimplemented(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("does not support split_k 2"));
}

TEST(ElementwiseCandidates, HasOneClassForEachAlignment) {
  const ProblemClass c = class_for("f32", Alignment::kElement);
  EXPECT_EQ(classes_of_weight(c, 8192, Backend::kCuda).size(), 3u);
  EXPECT_EQ(classes_of_weight(c, 8192, Backend::kCpu).size(), 1u);
}

}  // namespace
}  // namespace lathe
