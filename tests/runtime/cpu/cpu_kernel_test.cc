#include "runtime/cpu/cpu_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "../test_kernels.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

VarValues sizes(int64_t m, int64_t n, int64_t k, int64_t batch, int64_t splits) {
  return {m, n, k, batch, splits, splits > 1 ? 1 : 0};
}

TEST(TaskCount, EqualsTheHandComputedProduct) {
  const TaskCount count({product(1, {{Var::kN, 64}}), product(1, {{Var::kM, 6}}),
                         Formula{{1, {{Var::kBatch, 1}, {Var::kSplits, 1}}}}});
  EXPECT_EQ(count(sizes(13, 65, 1, 2, 3)), 2 * 3 * (2 * 3));
  EXPECT_EQ(count(sizes(0, 65, 1, 2, 3)), 0);
  EXPECT_EQ(count(sizes(1, 1, 0, 1, 1)), 1);
}

TEST(TaskCount, AddsTermsAndConstants) {
  const TaskCount count({Formula{{5, {}}, {2, {{Var::kM, 10}}}, {-3, {}}}, constant(2), constant(1)});
  EXPECT_EQ(count(sizes(25, 0, 0, 1, 1)), (5 + 2 * 3 - 3) * 2);
}

TEST(TaskCount, MergeStepRunsOnlyForASplit) {
  const TaskCount count({product(1, {{Var::kM, 1}, {Var::kMerge, 1}}), constant(1), constant(1)});
  EXPECT_EQ(count(sizes(7, 1, 1, 1, 1)), 0);
  EXPECT_EQ(count(sizes(7, 1, 1, 1, 2)), 7);
}

TEST(TaskCount, EmptyOrNegativeAxisGivesZero) {
  EXPECT_EQ(TaskCount()(sizes(1, 1, 1, 1, 1)), 0);
  EXPECT_EQ(TaskCount({constant(4), Formula{}, constant(1)})(sizes(1, 1, 1, 1, 1)), 0);
  EXPECT_EQ(TaskCount({constant(-4), constant(-4), constant(1)})(sizes(1, 1, 1, 1, 1)), 0);
}

TEST(TaskCount, SaturatesOnOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(TaskCount({product(1, {{Var::kM, 1}}), product(1, {{Var::kN, 1}}), constant(1)})(
                sizes(huge, huge, 1, 1, 1)),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(TaskCount({product(1, {{Var::kM, 1}, {Var::kN, 1}}), constant(3), constant(1)})(
                sizes(huge, huge, 1, 1, 1)),
            std::numeric_limits<int64_t>::max());
}

TEST(TaskCount, AgreesWithEvaluate) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    std::array<Formula, 3> grid;
    for (Formula& formula : grid) {
      for (int64_t t = pick(0, 3); t > 0; --t) {
        Term term;
        term.coefficient = pick(0, 5);
        for (int64_t f = pick(0, 3); f > 0; --f) {
          term.factors.push_back({static_cast<Var>(pick(0, kVarCount - 1)), pick(1, 40)});
        }
        formula.push_back(term);
      }
    }
    const VarValues v = sizes(pick(0, 300), pick(0, 300), pick(0, 300), pick(0, 4), pick(1, 4));
    EXPECT_EQ(TaskCount(grid)(v), evaluate(grid[0], v) * evaluate(grid[1], v) * evaluate(grid[2], v));
  }
}

class CpuKernelRefusals : public ::testing::Test {
 protected:
  void expect_refusal(const std::string& cause) {
    auto kernel = CpuKernel::load(artifact, loader, externals, nullptr);
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(kernel.status().message()), HasSubstr(cause));
  }
  Step& step() { return artifact.recipe.steps[0]; }

  ObjectLoader loader;
  ExternalLibraries externals{Backend::kCpu};
  Artifact artifact = test_artifact("steps", {cpu_step("nothing", 1)});
};

TEST_F(CpuKernelRefusals, AcceptsAValidArtifact) {
  EXPECT_TRUE(CpuKernel::load(artifact, loader, externals, nullptr).ok());
}

// A kernel caches its last counts. Whatever sizes follow each other, the count must equal the formula.
TEST(CpuKernel, CountDoesNotDependOnEarlierSizes) {
  ObjectLoader loader;
  ExternalLibraries externals{Backend::kCpu};
  for (const Var side : {Var::kN, Var::kM}) {
    Artifact artifact = test_artifact("steps", {cpu_step("nothing", 1), cpu_step("nothing", 1)});
    artifact.recipe.steps[0].grid = {product(1, {{Var::kM, 4}}), product(1, {{side, 16}}),
                                     Formula{{1, {{Var::kBatch, 1}, {Var::kSplits, 1}}}}};
    artifact.recipe.steps[1].grid = {product(1, {{Var::kK, 8}, {Var::kMerge, 1}}), constant(1), constant(1)};
    const auto loaded = CpuKernel::load(artifact, loader, externals, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto& kernel = static_cast<const CpuKernel&>(**loaded);
    std::mt19937 random(5);
    const int64_t extents[] = {1, 16, 17, 300, (int64_t{1} << 16) - 1, int64_t{1} << 16, int64_t{1} << 33};
    const auto pick = [&] { return extents[random() % 7]; };
    VarValues v = sizes(1, 1, 1, 1, 1);
    for (int round = 0; round < 5000; ++round) {
      if (random() % 3 == 0) v = sizes(pick(), pick(), pick(), 1 + random() % 3, 1 + random() % 3);
      for (size_t step = 0; step < 2; ++step)
        ASSERT_EQ(kernel.count(step, v), kernel.steps()[step].count(v)) << round;
    }
  }
}

TEST_F(CpuKernelRefusals, RejectsOtherCodeFormats) {
  artifact.format = CodeFormat::kCubin;
  expect_refusal("code format 3 is not an ELF object");
}
TEST_F(CpuKernelRefusals, RejectsOtherRecipeVersions) {
  artifact.recipe.version = 1;
  expect_refusal("recipe version 1, but this library reads version " + std::to_string(Recipe::kVersion));
}
TEST_F(CpuKernelRefusals, RejectsARecipeWithoutSteps) {
  artifact.recipe.steps.clear();
  expect_refusal("no steps");
}
TEST_F(CpuKernelRefusals, RejectsTooManySteps) {
  artifact.recipe.steps.assign(CpuKernel::kMaxSteps + 1, cpu_step("nothing", 1));
  expect_refusal("9 steps, at most 8");
}
TEST_F(CpuKernelRefusals, RejectsOtherStepKinds) {
  step().kind = StepKind::kGpuKernel;
  expect_refusal("kind 2, but the CPU runs only cpu_task");
}
TEST_F(CpuKernelRefusals, RejectsInconsistentExternalSteps) {
  step().kind = StepKind::kHostExtern;
  step().grid = {constant(1), constant(1), constant(1)};
  expect_refusal("is not none");
  artifact.format = CodeFormat::kNone;
  step().grid[0] = constant(2);
  expect_refusal("so its grid must be 1, 1, 1");
  step().kind = StepKind::kCpuTask;
  expect_refusal("is not an ELF object");
}
TEST_F(CpuKernelRefusals, RejectsOtherArgumentBlockSizes) {
  step().argument_bytes -= 8;
  expect_refusal("argument block of " + std::to_string(sizeof(ArgumentBlock) - 8));
}
TEST_F(CpuKernelRefusals, RejectsLaunchAttributes) {
  step().attributes = {"pdl"};
  expect_refusal("launch attribute pdl");
}
TEST_F(CpuKernelRefusals, RejectsGpuShapes) {
  step().block = {32, 1, 1};
  expect_refusal("GPU workgroup");
  step().block = {1, 1, 1};
  step().cluster = {2, 1, 1};
  expect_refusal("cluster");
  step().cluster = {1, 1, 1};
  step().dynamic_shared_memory = constant(64);
  expect_refusal("shared memory");
}
TEST_F(CpuKernelRefusals, RejectsTensorMaps) {
  step().tensor_maps = {TensorMap{"a", DType::kF32, Var::kK, Var::kM, 8, 8, 0}};
  expect_refusal("tensor map");
}
TEST_F(CpuKernelRefusals, RejectsBadFormulas) {
  step().grid[1] = product(1, {{static_cast<Var>(kVarCount), 1}});
  expect_refusal("unknown variable 6");
  step().grid[1] = product(1, {{Var::kM, 0}});
  expect_refusal("divides by 0");
}
TEST_F(CpuKernelRefusals, RejectsBadPointerAlignment) {
  artifact.recipe.pointer_alignment = 12;
  expect_refusal("pointer alignment 12");
}
TEST_F(CpuKernelRefusals, RejectsAbsentSymbols) {
  step().symbol = "absent";
  expect_refusal("symbol absent is missing");
  step().symbol = "";
  expect_refusal("no symbol");
}

}  // namespace
}  // namespace lathe
