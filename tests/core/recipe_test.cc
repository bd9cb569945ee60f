#include "core/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/key.h"
#include "json_leaves.h"

namespace lathe {
namespace {

Recipe split_recipe() {
  Recipe r;
  Step partial;
  partial.symbol = "matmul_partial";
  partial.grid = {product(1, {{Var::kN, 512}}), product(1, {{Var::kM, 96}}),
                  product(1, {{Var::kBatch, 1}, {Var::kSplits, 1}})};
  Step merge;
  merge.kind = StepKind::kGpuKernel;
  merge.symbol = "matmul_merge";
  merge.grid = {product(2, {{Var::kM, 4}, {Var::kMerge, 1}}), constant(1), constant(3)};
  merge.block = {256, 1, 1};
  merge.cluster = {2, 1, 1};
  merge.dynamic_shared_memory = constant(49152);
  merge.tensor_maps = {{"a", DType::kBF16, Var::kK, Var::kM, 64, 128, 128, /*shared_rows=*/1},
                       {"d", DType::kF16, Var::kN, Var::kM, 32, 1, 0}};
  merge.argument_bytes = parameter_bytes(merge.tensor_maps.size());
  merge.attributes = {"pdl"};
  r.steps = {partial, merge};
  r.workspace_bytes = product(4, {{Var::kM, 1}, {Var::kN, 1}, {Var::kSplits, 1}, {Var::kMerge, 1}});
  r.scratch_bytes_per_worker = {Term{4096, {}}, Term{4, {{Var::kK, 2}}}};
  r.k_granularity = 8;
  r.k_most = 4096;
  r.pointer_alignment = 16;
  r.counters = product(1, {{Var::kM, 16}, {Var::kBatch, 1}});
  return r;
}

TEST(FormulaTest, AddsProductsOfRoundedUpQuotients) {
  const VarValues v = {123, 456, 51234, 2, 76, 1};
  EXPECT_EQ(evaluate({}, v), 0);
  EXPECT_EQ(evaluate(constant(4), v), 4);
  EXPECT_EQ(evaluate(product(1, {{Var::kM, 32}}), v), 4);
  EXPECT_EQ(evaluate(product(3, {{Var::kM, 32}, {Var::kN, 100}}), v), 3 * 4 * 5);
  EXPECT_EQ(evaluate({Term{7, {}}, Term{2, {{Var::kSplits, 1}}}}, v), 7 + 152);
  EXPECT_EQ(evaluate(product(5, {{Var::kMerge, 1}}), {1, 1, 1, 1, 1, 0}), 0);
}

// The expected value is computed with 128-bit arithmetic, clamping the products and the sum.
TEST(FormulaTest, SaturatesInsteadOfOverflowing) {
  std::mt19937_64 random(7);
  const auto draw = [&](int bits) { return static_cast<int64_t>(random() >> (64 - bits)); };
  const auto clamp = [](__int128 x) { return x > INT64_MAX ? static_cast<__int128>(INT64_MAX) : x; };
  int saturated = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    VarValues v;
    for (int64_t& value : v) value = draw(1 + static_cast<int>(random() % 31));
    Formula f;
    __int128 expected = 0;
    for (uint64_t t = random() % 4; t > 0; --t) {
      Term term{draw(1 + static_cast<int>(random() % 40)), {}};
      __int128 part = term.coefficient;
      for (uint64_t k = random() % 4; k > 0; --k) {
        const Factor factor{static_cast<Var>(random() % kVarCount), 1 + draw(12)};
        const int64_t x = v[static_cast<size_t>(factor.var)];
        part = clamp(part * ((x + factor.divisor - 1) / factor.divisor));
        term.factors.push_back(factor);
      }
      expected = clamp(expected + part);
      f.push_back(term);
    }
    saturated += expected == INT64_MAX;
    EXPECT_EQ(evaluate(f, v), static_cast<int64_t>(expected));
  }
  EXPECT_GT(saturated, 100);
}

TEST(FormulaTest, IsZeroWithAZeroFactorEvenIfItSaturates) {
  EXPECT_EQ(evaluate(product(INT64_MAX, {{Var::kM, 1}, {Var::kN, 1}, {Var::kMerge, 1}}), {9, 9, 9, 9, 1, 0}),
            0);
}

TEST(RecipeTest, RoundTripsThroughJson) {
  const Recipe r = split_recipe();
  const auto back = recipe_from_json(to_json(r));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_json(*back), to_json(r));
  ASSERT_EQ(back->steps.size(), 2u);
  EXPECT_EQ(back->steps[1].kind, StepKind::kGpuKernel);
  EXPECT_EQ(back->steps[1].block[0], 256);
  EXPECT_EQ(back->steps[1].cluster[0], 2);
  EXPECT_EQ(back->steps[1].argument_bytes, 368 + 2 * 128);
  ASSERT_EQ(back->steps[1].tensor_maps.size(), 2u);
  EXPECT_EQ(back->steps[1].tensor_maps[0].box_columns, 64);
  EXPECT_EQ(back->steps[1].tensor_maps[0].shared_rows, 1);
  EXPECT_EQ(back->steps[1].tensor_maps[1].operand, "d");
  EXPECT_EQ(back->steps[1].tensor_maps[1].shared_rows, 0);
  EXPECT_EQ(back->steps[1].attributes, std::vector<std::string>{"pdl"});
  const VarValues v = {123, 456, 51234, 2, 76, 1};
  EXPECT_EQ(evaluate(back->steps[0].grid[2], v), 2 * 76);
  EXPECT_EQ(evaluate(back->workspace_bytes, v), int64_t{4} * 123 * 456 * 76);
  EXPECT_EQ(evaluate(back->scratch_bytes_per_worker, v), 4096 + 4 * 25617);
  EXPECT_EQ(back->k_granularity, 8);
  EXPECT_EQ(back->k_most, 4096);
  EXPECT_EQ(back->pointer_alignment, 16);
}

TEST(RecipeTest, ReadsEveryJsonLeaf) {
  const Json good = to_json(split_recipe());
  int leaves = 0;
  for_each_changed_leaf(good, [&](const std::string& path, const Json& changed) {
    ++leaves;
    const auto back = recipe_from_json(changed);
    if (back.ok()) EXPECT_NE(to_json(*back), good) << path;
  });
  EXPECT_GT(leaves, 40);
}

TEST(RecipeTest, RequiresTheCallInAnExternalStep) {
  Recipe r;
  r.steps.resize(1);
  r.steps[0].kind = StepKind::kHostExtern;
  r.steps[0].symbol = "product_call";
  r.steps[0].external = {"openblas", "cblas_sgemm", {}};
  r.steps[0].external.problem.n = 48;
  r.steps[0].external.problem.k = 333;
  const Json good = to_json(r);
  const auto back = recipe_from_json(good);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_json(*back), good);
  EXPECT_EQ(back->steps[0].external.provider, "openblas");
  EXPECT_EQ(back->steps[0].external.problem.k, 333);
  const auto refused = [&](const char* pointer, const Json& value) {
    Json j = good;
    j[Json::json_pointer(pointer)] = value;
    return !recipe_from_json(j).ok();
  };
  EXPECT_TRUE(refused("/steps/0/external", nullptr));
  EXPECT_TRUE(refused("/steps/0/external/library", ""));
  EXPECT_TRUE(refused("/steps/0/external/routine", ""));
  EXPECT_TRUE(refused("/steps/0/external/class", Json::object()));
  EXPECT_TRUE(refused("/steps/0/external/more", 1));
  EXPECT_TRUE(refused("/steps/0/kind", "cpu_task")) << "a CPU task with an external call";
}

TEST(RecipeTest, RefusesInvalidJson) {
  const Json good = to_json(split_recipe());
  const auto refused = [&](const char* pointer, const Json& value) {
    Json j = good;
    j[Json::json_pointer(pointer)] = value;
    return !recipe_from_json(j).ok();
  };
  EXPECT_TRUE(refused("/version", 1));
  EXPECT_TRUE(refused("/steps", Json::array()));
  EXPECT_TRUE(refused("/steps", Json::object()));
  EXPECT_TRUE(refused("/steps/0/kind", "shell"));
  EXPECT_TRUE(refused("/steps/0/symbol", ""));
  EXPECT_TRUE(refused("/steps/0/grid/0/0/1/1", 0));  // divisor
  EXPECT_TRUE(refused("/steps/0/grid/0/0/1/1", -4));
  EXPECT_TRUE(refused("/steps/0/grid/0/0/1/0", "q"));  // variable
  EXPECT_TRUE(refused("/steps/0/grid/0/0/0", -1));     // coefficient
  EXPECT_TRUE(refused("/steps/0/grid/0/0/0", 1.5));
  EXPECT_TRUE(refused("/steps/0/grid/0/0", Json::array()));
  EXPECT_TRUE(refused("/steps/0/grid/3", Json::array()));
  EXPECT_TRUE(refused("/steps/0/block/0", 0));
  EXPECT_TRUE(refused("/steps/0/block/0", int64_t{1} << 31));
  EXPECT_TRUE(refused("/steps/0/argument_bytes", -1));
  EXPECT_TRUE(refused("/steps/0/extra", 1));
  EXPECT_TRUE(refused("/k_granularity", 0));
  EXPECT_TRUE(refused("/k_most", 0));
  EXPECT_TRUE(refused("/pointer_alignment", 0));
  EXPECT_TRUE(refused("/workspace_bytes", Json(4)));
  EXPECT_TRUE(refused("/workspace_bytes", Json(std::vector<Json>(1000, Json::array({1})))));
  EXPECT_TRUE(refused("/extra", 1));
  EXPECT_TRUE(refused("/counters", Json(4)));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0", 1));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/operand", "workspace"));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/dtype", "none"));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/dtype", "float"));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/rows", "q"));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/box_columns", 0));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/box_rows", 257));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/swizzle", 48));
  EXPECT_TRUE(refused("/steps/1/tensor_maps/0/shared_rows", 2));
  EXPECT_TRUE(
      refused("/steps/1/tensor_maps", Json(std::vector<Json>(9, good["steps"][1]["tensor_maps"][0]))));
  for (const auto& [name, value] : good.items()) {
    Json j = good;
    j.erase(name);
    EXPECT_FALSE(recipe_from_json(j).ok()) << "without " << name;
  }
  for (const auto& [name, value] : good["steps"][0].items()) {
    Json j = good;
    j["steps"][0].erase(name);
    EXPECT_FALSE(recipe_from_json(j).ok()) << "step without " << name;
  }
}

// Checks that the intervals of the splits, computed as in a kernel, cover the length and are not empty.
void expect_covers(int64_t length, int32_t granularity, int32_t wanted, const LaunchConfig& l) {
  SCOPED_TRACE(testing::Message() << "K " << length << " granularity " << granularity << " wanted " << wanted
                                  << " splits " << l.splits << " chunk " << l.k_chunk);
  ASSERT_GE(l.splits, 1);
  EXPECT_LE(l.splits, std::max(wanted, 1));
  if (l.splits > 1) EXPECT_EQ(l.k_chunk % granularity, 0);
  int64_t covered = 0;
  for (int32_t s = 0; s < l.splits; ++s) {
    const int64_t begin = int64_t{s} * l.k_chunk;
    const int64_t end = std::min<int64_t>(begin + l.k_chunk, length);
    EXPECT_EQ(begin, covered);
    if (length > 0) EXPECT_LT(begin, end) << "split " << s << " is empty";
    covered = end;
  }
  EXPECT_EQ(covered, length);
}

TEST(LaunchConfigTest, SplitsCoverAllOfKAndNoneIsEmpty) {
  ProblemClass c;
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 30000; ++trial) {
    Recipe r;
    r.k_granularity = 1 + static_cast<int32_t>(random() % 300);
    const Dims dims{5, 6, static_cast<int64_t>(random() >> (33 + random() % 31)), 1};
    const int32_t wanted = static_cast<int32_t>(random() % 300);
    expect_covers(dims.k, r.k_granularity, wanted, make_launch_config(r, c, dims, wanted));
  }
}

TEST(LaunchConfigTest, SplitsAKThatDoesNotDivideEvenly) {
  ProblemClass c;
  const Recipe r;
  for (int32_t wanted : {76, 77, 78}) {
    const LaunchConfig l = make_launch_config(r, c, {123, 456, 51234, 1}, wanted);
    expect_covers(51234, 1, wanted, l);
    EXPECT_EQ(l.splits, wanted);
    EXPECT_EQ(l.k_chunk, (51234 + wanted - 1) / wanted);
  }
  // K = 70. With 12 splits the chunks have 6, and 12 of them are needed. With 40 splits the chunks have 2, and only
  // 35 are needed.
  EXPECT_EQ(make_launch_config(r, c, {1, 1, 70, 1}, 12).splits, 12);
  EXPECT_EQ(make_launch_config(r, c, {1, 1, 70, 1}, 40).splits, 35);
  Recipe coarse;
  coarse.k_granularity = 32;
  const LaunchConfig l = make_launch_config(coarse, c, {1, 1, 70, 1}, 40);
  EXPECT_EQ(l.splits, 3);
  EXPECT_EQ(l.k_chunk, 32);
}

TEST(LaunchConfigTest, GivesOneEmptySplitForAKOfZero) {
  const LaunchConfig l = make_launch_config(split_recipe(), ProblemClass(), {3, 4, 0, 1}, 8);
  EXPECT_EQ(l.splits, 1);
  EXPECT_EQ(l.k_chunk, 0);
  EXPECT_EQ(l.workspace_bytes, 0u);
}

TEST(LaunchConfigTest, LimitsTheChunkOfTheLargestKTo32Bits) {
  Recipe r;
  r.k_granularity = 256;
  const LaunchConfig l = make_launch_config(r, ProblemClass(), {1, 1, INT32_MAX, 1}, 1);
  EXPECT_EQ(l.splits, 1);
  EXPECT_EQ(l.k_chunk, INT32_MAX);
}

TEST(LaunchConfigTest, SplitsTheRowOfAnArgmax) {
  ProblemClass c;
  c.op = Op::kArgmax;
  const LaunchConfig l = make_launch_config(Recipe(), c, {1, 151936, 0, 1}, 8);
  EXPECT_EQ(l.splits, 8);
  EXPECT_EQ(l.k_chunk, 151936 / 8);
}

TEST(LaunchConfigTest, SharesTheSplitsAmongTheRowsOfAnArgmax) {
  ProblemClass c;
  c.op = Op::kArgmax;
  Recipe r;
  r.k_granularity = 2048;
  r.k_most = 16384;
  const auto splits = [&](int64_t rows, int64_t n) {
    const LaunchConfig l = make_launch_config(r, c, {rows, n, 0, 1}, 264);
    EXPECT_EQ(l.k_chunk % 2048, 0);
    EXPECT_LE(l.k_chunk, 16384);
    EXPECT_LT(int64_t{l.k_chunk} * (l.splits - 1), n);
    EXPECT_GE(int64_t{l.k_chunk} * l.splits, n);
    return l.splits;
  };
  EXPECT_EQ(splits(1, 128256), 63);    // the shortest chunks: 62 * 2048 + 1280
  EXPECT_EQ(splits(8, 128256), 32);    // 33 wanted: chunks of 3887, rounded up to 4096
  EXPECT_EQ(splits(32, 128256), 9);    // 9 wanted: chunks of 14251, rounded up to 14336
  EXPECT_EQ(splits(4096, 128256), 8);  // the longest chunks
  EXPECT_EQ(splits(4096, 16384), 1);
  EXPECT_EQ(make_launch_config(Recipe(), c, {0, 100, 0, 1}, 4).splits, 4);
}

TEST(LaunchConfigTest, ComputesTheWorkspaceFromTheTrueSizes) {
  const LaunchConfig split = make_launch_config(split_recipe(), ProblemClass(), {10, 20, 64, 1}, 4);
  EXPECT_EQ(split.splits, 4);
  EXPECT_EQ(split.workspace_bytes, size_t{4} * 10 * 20 * 4);
  EXPECT_EQ(split.scratch_bytes_per_worker, size_t{4096} + 4 * 32);
  EXPECT_EQ(make_launch_config(split_recipe(), ProblemClass(), {10, 20, 64, 1}, 1).workspace_bytes, 0u);
  EXPECT_EQ(var_values({1, 2, 3, 4}, split), (VarValues{1, 2, 3, 4, 4, 1}));
}

}  // namespace
}  // namespace lathe
