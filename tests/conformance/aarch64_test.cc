// Compiles AArch64 kernels for described devices and runs them in qemu-aarch64, on processor models with exactly the
// target's features. Runs the oracle's choice and one random legal candidate of each case; LATHE_TEST_EVERY_PLAN=1
// runs all of them, which takes an hour.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "aarch64_process.h"
#include "argmax_case.h"
#include "arguments.h"
#include "candidates.h"
#include "core/facts.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "matmul_case.h"
#include "nlohmann/json.hpp"
#include "packed_request.h"
#include "reference/block_scaled.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

struct Level {
  const char* name;
  const char* facts;
  absl::string_view features;
  const char* cpu;
};
// Neoverse N1 is the first server core with dotprod. qemu models all later cores with SVE, here of 512 bits, so the
// kernels for SVE2 must restrict themselves to 128 bits.
constexpr Level kLevels[] = {{"neon", "ampere-altra", kArmNeon, "cortex-a72"},
                             {"half", "ampere-altra", kArmHalf, "neoverse-n1"},
                             {"dotprod", "ampere-altra", kArmDotprod, "neoverse-n1"},
                             {"bf16", "graviton3", kArmBf16, "max,sve=off"},
                             {"sve2", "graviton4", kArmSve2, "max"}};

void PrintTo(const Level& level, std::ostream* out) { *out << level.name; }

bool wants_every_plan() {
  const char* text = std::getenv("LATHE_TEST_EVERY_PLAN");
  return text != nullptr && *text != '\0';
}

class Aarch64 : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    if (find_qemu().empty()) GTEST_SKIP() << "qemu-aarch64 is not installed (Debian: qemu-user)";
    SKIP_UNLESS_CPU("this tests CPU kernels");
    // The facts of the machine, with the features of this level.
    std::ifstream file(std::string(LATHE_FACTS_DIRECTORY) + "/" + GetParam().facts + ".json");
    nlohmann::json facts = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(facts.is_object());
    facts["target"] = {
        {"backend", "cpu"}, {"arch", "aarch64"}, {"features", std::string(GetParam().features)}};
    const std::string path = directory_.path() + "/facts.json";
    std::ofstream(path) << facts;
    const lathe_context_options options = memory_only(1);
    ASSERT_LATHE_OK(lathe_context_create(&options, &context_));
    ASSERT_LATHE_OK(lathe_device_describe(context_, path.c_str(), nullptr, &device_));
    process_ = std::make_unique<Aarch64Process>(GetParam().cpu);
  }
  void TearDown() override {
    lathe_device_close(device_);
    lathe_context_destroy(context_);
  }

  // Compiles the plan and loads it into the runner.
  void load(lathe_plan* plan) {
    const nlohmann::json json = nlohmann::json::parse(explain(plan), nullptr, false);
    ASSERT_TRUE(json.is_object());
    auto problem = problem_class_from_json(Json::parse(json["class"].dump()));
    ASSERT_TRUE(problem.ok()) << problem.status();
    problem_ = *problem;
    splits_ = json["launch"]["wanted_splits"];
    std::map<std::string, std::string> files;
    ASSERT_LATHE_OK(lathe_plan_dump(
        plan, nullptr,
        [](void* user, const char* name, const char* text, size_t size) {
          (*static_cast<std::map<std::string, std::string>*>(user))[name].append(text, size);
        },
        &files));
    auto recipe = recipe_from_json(Json::parse(files["recipe.json"]));
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    Artifact artifact;
    artifact.recipe = *recipe;
    artifact.code = files["kernel.o"];
    ASSERT_EQ(process_->load(artifact), "");
  }

  // Runs the loaded kernel for the request and checks the result.
  template <typename Request>
  void launch(const Dims& dims, Request* request) {
    request->reset_output();
    ASSERT_EQ(process_->launch(problem_, dims, splits_, arguments_of(*request->desc())), "");
    EXPECT_TRUE(request->check());
    ++runs_;
  }
  template <typename Request>
  void run(lathe_plan* plan, const Dims& dims, Request* request) {
    ASSERT_NO_FATAL_FAILURE(load(plan));
    launch(dims, request);
  }

  void run_matmul(const MatmulCase& c) {
    MatmulRequest request(c, &random_);
    run_candidates(&request);
  }
  // Runs the case with packed B.
  void run_packed(const MatmulCase& c) {
    PackedRequest packed(device_, c, &random_);
    ASSERT_LATHE_OK(packed.status());
    run_candidates(&packed.request());
  }
  // Runs the oracle's choice on a random A in f32, and compares D with the weights weight(column, k) in float64.
  template <typename Weight>
  void expect_product(lathe_matmul_desc desc, reference::Normal* random, const Weight& weight) {
    const int64_t m = desc.m, n = desc.n, depth = desc.k;
    std::vector<float> a(static_cast<size_t>(m * depth)), d(static_cast<size_t>(m * n), NAN);
    for (float& x : a) x = random->next();
    desc.a.data = a.data(), desc.d.data = d.data();
    lathe_plan* plan = nullptr;
    ASSERT_LATHE_OK(lathe_plan_matmul(device_, &desc, &plan));
    load(plan);
    lathe_plan_destroy(plan);
    if (HasFatalFailure()) return;
    ASSERT_EQ(process_->launch(problem_, {m, n, depth, 1}, splits_, arguments_of(desc)), "");
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double value = 0, magnitude = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const double x = static_cast<double>(a[static_cast<size_t>(i * depth + k)]) * weight(j, k);
          value += x;
          magnitude += std::abs(x);
        }
        ASSERT_NEAR(d[static_cast<size_t>(i * n + j)], value, 8 * 0x1p-23 * magnitude);
      }
  }

  // Runs the best "bytes" candidate and one more, and compares them with a reference that rounds A as they do.
  void run_bytes(MatmulCase c, bool exist) {
    std::vector<int32_t> ranks;
    for (const nlohmann::json& candidate : legal_candidates(device_, *MatmulRequest(c, &random_).desc()))
      if (candidate["config"]["kernel"] == "bytes") ranks.push_back(candidate["rank"]);
    ASSERT_EQ(!ranks.empty(), exist) << c.describe();
    if (!exist) return;
    for (const int32_t rank : {ranks.front(), ranks[static_cast<size_t>(random_.below(ranks.size()))]}) {
      MatmulRequest request(c, &random_);
      request.round_a(true);
      request.set_tuning(0, rank);
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_matmul(device_, request.desc(), &plan));
      SCOPED_TRACE(c.describe() + " candidate " + std::to_string(rank));
      run(plan, {c.m, c.n, c.k, c.batch}, &request);
      lathe_plan_destroy(plan);
    }
  }
  void run_candidates(MatmulRequest* request) {
    const MatmulCase c = request->parameters();
    int32_t legal = 0;
    for (int32_t candidate = 0; candidate <= legal; ++candidate) {
      // Candidate 0 is the oracle's choice. Then follow all candidates, or one of them.
      if (candidate == 1 && !wants_every_plan())
        candidate = legal = static_cast<int32_t>(random_.between(1, legal));
      request->set_tuning(c.split_k, candidate);
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_matmul(device_, request->desc(), &plan));
      if (candidate == 0) legal = legal_of(plan);
      SCOPED_TRACE(c.describe() + " candidate " + std::to_string(candidate));
      run(plan, {c.m, c.n, c.k, c.batch}, request);
      lathe_plan_destroy(plan);
      if (HasFatalFailure()) return;
    }
  }
  static int32_t legal_of(lathe_plan* plan) { return nlohmann::json::parse(explain(plan))["legal"]; }

  TemporaryDirectory directory_;
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  std::unique_ptr<Aarch64Process> process_;
  ProblemClass problem_;  // of the loaded kernel
  int32_t splits_ = 1;
  Random random_ = random_stream(17);
  int runs_ = 0;
};

// Every layout and dtype; all other parameters are random.
TEST_P(Aarch64, MatmulsAreRight) {
  constexpr lathe_dtype kInputs[] = {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8};
  constexpr int64_t kSizes[][3] = {{1, 70, 301}, {5, 37, 128}, {20, 49, 530}, {75, 64, 67}};
  for (int i = 0; i < 32; ++i) {
    MatmulCase c;
    const auto& size = kSizes[random_.below(4)];
    c.m = size[0], c.n = size[1], c.k = size[2];
    c.trans_a = i & 1;
    c.trans_b = i & 2;
    c.in = kInputs[i >> 2 & 3];
    if (c.in == LATHE_I8) c.alpha = 0x1p-8f;  // keeps results within the range of f16
    c.out = kFloats[random_.below(3)];
    c.batch = random_.below(4) ? 1 : 2;
    if (i & 16) {
      c.bias = kFloats[random_.below(3)];
      c.activation = static_cast<lathe_activation>(random_.below(5));
      c.residual_mode = ResidualMode::kSeparate;
      c.residual = kFloats[random_.below(3)];
      c.padding = 3;
    }
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmul(c);
    if (HasFatalFailure()) return;
  }
  std::printf("%d plans\n", runs_);
  EXPECT_GE(runs_, 64);
}

TEST_P(Aarch64, WeightsOf16BitsByF32AreRight) {
  constexpr int64_t kSizes[][3] = {{1, 70, 301}, {5, 37, 128}, {20, 49, 530}, {75, 64, 67}};
  for (int i = 0; i < 12; ++i) {
    MatmulCase c;
    const auto& size = kSizes[i % 4];
    c.m = size[0], c.n = size[1], c.k = size[2];
    c.b = i / 4 == 1 ? LATHE_F16 : LATHE_BF16;
    if (i / 4 == 2) c.math = LATHE_MATH_BF16;
    c.trans_a = random_.below(4) == 0;
    c.trans_b = random_.below(2);
    c.out = kFloats[random_.below(3)];
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmul(c);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, 24);
}

// Every block format: the kernels "dot" and "panel" decode along K.
TEST_P(Aarch64, WeightsInBlocksAreRight) {
  constexpr int64_t kSizes[][3] = {{1, 70, 352}, {5, 37, 128}, {20, 49, 544}, {75, 64, 96}};
  const auto& formats = reference::block_formats();
  for (size_t i = 0; i < std::max<size_t>(12, formats.size()); ++i) {
    const reference::BlockFormat& f = formats[i % formats.size()];
    MatmulCase c;
    const auto& size = kSizes[i / 3];
    c.m = size[0], c.n = size[1], c.k = (size[2] + f.elements - 1) / f.elements * f.elements;
    c.in = kFloats[i % 3];
    c.b = f.dtype;
    c.trans_a = random_.below(4) == 0;
    c.trans_b = true;
    c.out = kFloats[random_.below(3)];
    c.bias = random_.below(2) ? LATHE_F32 : LATHE_DTYPE_NONE;
    c.batch = random_.below(4) ? 1 : 2;
    c.split_k = i % 4 == 3 ? 2 : 0;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmul(c);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, 24);
}

// 4-bit weights in blocks of u4_128.
TEST_P(Aarch64, GroupsOfFourBitsAreRight) {
  reference::Normal random(test_seed());
  for (const int64_t m : {1, 20}) {
    const reference::GroupedWeight w(LATHE_U4_AWQ, 384, 40, 1, false, &random);
    const lathe_scale scale = w.scale();
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = m, desc.n = w.n, desc.k = w.k;
    desc.a.dtype = desc.d.dtype = LATHE_F32;
    desc.b = w.operand();
    desc.b.scale = &scale;
    uint32_t layout = 0;
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_packed_layout(device_, &desc, &layout, &bytes));
    std::vector<uint8_t> packed(bytes);
    ASSERT_LATHE_OK(lathe_pack_weights(device_, &desc, layout, packed.data(), bytes));
    desc.b = LATHE_OPERAND_INIT;
    desc.b.data = packed.data();
    desc.b.dtype = LATHE_U4_128;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    ASSERT_NO_FATAL_FAILURE(
        expect_product(desc, &random, [&](int64_t j, int64_t k) { return w.at(0, k, j); }));
  }
}

// Weights with block scales in the order of the kernels.
TEST_P(Aarch64, BlockScaledWeightsAreRight) {
  reference::Normal random(test_seed());
  for (const reference::ScaledElements& f : reference::scaled_elements())
    for (const int64_t m : {1, 20}) {
      if (f.takes_tall && f.scale != LATHE_F32) continue;  // the host converts these scales
      SCOPED_TRACE(f.name);
      reference::ScaledSpec spec;
      spec.format = &f;
      spec.lines = 37, spec.k = 384;
      const reference::ScaledMatrix b(spec, &random);
      lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
      desc.m = m, desc.n = spec.lines, desc.k = spec.k;
      desc.a.dtype = desc.d.dtype = LATHE_F32;
      const lathe_scale scale = b.scale();
      desc.b = b.operand(/*column_major=*/true);
      desc.b.scale = &scale;
      ASSERT_NO_FATAL_FAILURE(
          expect_product(desc, &random, [&](int64_t j, int64_t k) { return b.at(0, j, k); }));
    }
}

// The kernel "bytes" with sdot (odd numbers of rows in a register tile) and smmla (even ones). Each format runs a third of
// the M.
TEST_P(Aarch64, WeightsInBlocksByBytesAreRight) {
  constexpr int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64, 130};
  constexpr int64_t kSizes[][2] = {{37, 352}, {70, 96}, {21, 1056}};
  const bool has_bytes = GetParam().features.find("+dotprod") != absl::string_view::npos;
  int turn = 0;
  for (const reference::BlockFormat& f : reference::block_formats()) {
    ++turn;
    for (int64_t m : kRows) {
      if ((m + turn) % 3 != 0 && !wants_every_plan()) continue;
      const auto& size = kSizes[(m / 3 + turn) % 3];
      MatmulCase c;
      c.m = m, c.n = size[0], c.k = reference::whole_blocks(f.dtype, size[1]);
      c.in = m % 5 == 0 ? LATHE_BF16 : LATHE_F32;
      c.b = f.dtype;
      c.math = LATHE_MATH_INT8;
      c.trans_b = true;
      c.bias = m % 2 ? LATHE_F32 : LATHE_DTYPE_NONE;
      c.misalign = static_cast<size_t>(m % 4);
      c.batch = m % 7 == 0 ? 2 : 1;
      c.flush = m % 2 ? Flush::kStart : Flush::kEnd;
      run_bytes(c, has_bytes);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(runs_, has_bytes ? 60 : 0);
}

// Groups of rows that are not all the same distance apart. The list has A's rows and those of D in the same random order,
// so D is as without a list.
TEST_P(Aarch64, ListedRowsAreRight) {
  constexpr int64_t kSizes[][3] = {{3, 70, 320}, {11, 37, 128}, {40, 37, 128}, {100, 64, 96}};
  constexpr lathe_dtype kWeights[] = {LATHE_DTYPE_NONE, LATHE_F16, LATHE_BF16, LATHE_Q8_0, LATHE_MXFP4};
  for (int i = 0; i < 20; ++i) {
    MatmulCase c;
    const auto& size = kSizes[i % 4];
    c.m = size[0], c.n = size[1], c.k = size[2];
    c.b = kWeights[i / 4];
    c.in = c.b == LATHE_DTYPE_NONE ? kFloats[random_.below(3)] : LATHE_F32;
    const bool in_blocks = c.b == LATHE_Q8_0 || c.b == LATHE_MXFP4;
    if (c.b == LATHE_BF16) c.math = LATHE_MATH_BF16;
    if (in_blocks) c.math = LATHE_MATH_INT8;
    c.trans_b = in_blocks || random_.below(2);
    c.out = kFloats[random_.below(3)];
    c.bias = random_.below(2) ? LATHE_F32 : LATHE_DTYPE_NONE;
    c.padding = 3;
    MatmulRequest request(c, &random_);
    request.round_a(in_blocks && GetParam().features.find("+dotprod") != absl::string_view::npos);
    const lathe_matmul_desc& product = *request.desc();
    std::vector<int32_t> ids(static_cast<size_t>(c.m), 0);
    lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
    desc.grouping = LATHE_GROUPING_ROW_IDS;
    desc.m = c.m, desc.n = c.n, desc.k = c.k, desc.groups = 1;
    desc.routing = ids.data();
    desc.a = product.a, desc.b = product.b, desc.d = product.d;
    desc.epilogue = product.epilogue;
    desc.math = c.math;
    lathe_plan* plan = nullptr;
    SCOPED_TRACE(c.describe());
    ASSERT_LATHE_OK(lathe_plan_grouped_matmul(device_, &desc, &plan));
    load(plan);
    lathe_plan_destroy(plan);
    if (HasFatalFailure()) return;
    ASSERT_EQ(problem_.rows, lathe::Rows::kIndexed);
    ArgumentBlock args = arguments_of(product);
    std::vector<int64_t> list;
    for (int64_t row = 0; row < c.m; ++row) {
      list.push_back(row);
      std::swap(list.back(), list[static_cast<size_t>(random_.below(row + 1))]);
    }
    for (int64_t row = 0; row < c.m; ++row) {
      const int64_t place = list[static_cast<size_t>(row)];
      list.push_back(place * args.ldd);
      list[static_cast<size_t>(row)] = place * args.lda;
    }
    args.values = list.data();
    request.reset_output();
    ASSERT_EQ(process_->launch(problem_, {c.m, c.n, c.k, 1}, splits_, args), "");
    EXPECT_TRUE(request.check());
  }
}

TEST_P(Aarch64, ScalesAndZeroPointsAreRight) {
  constexpr int64_t kSizes[][3] = {{1, 70, 301}, {20, 49, 530}, {75, 64, 67}};
  for (int which = 0; which < 18; ++which) {  // every pair of granularities, with and without a zero point
    MatmulCase c;
    const auto& size = kSizes[random_.below(3)];
    c.m = size[0], c.n = size[1], c.k = size[2];
    c.in = LATHE_I8;
    c.scale_a = which % 3;
    c.scale_b = which / 3 % 3;
    c.has_zero_point = which >= 9;
    c.zero_b = random_.below(2);
    c.zero_point = static_cast<int32_t>(random_.between(-128, 127));
    c.trans_a = random_.below(4) == 0;
    c.trans_b = random_.below(4) != 0;
    c.split_k = random_.below(4) ? 0 : 3;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_matmul(c);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, 36);
}

TEST_P(Aarch64, PackedWeightsAreRight) {
  // N of at least 45, so that the layout is in panels: with fewer columns the weight would be packed by column.
  constexpr int64_t kSizes[][3] = {{1, 70, 301}, {5, 45, 128}, {20, 61, 530}, {75, 64, 67}};
  constexpr lathe_dtype kPacked[] = {LATHE_F16, LATHE_F32, LATHE_I8, LATHE_BF16};
  for (int i = 0; i < 15; ++i) {
    MatmulCase c;
    const auto& size = kSizes[i % 4];
    c.m = size[0], c.n = size[1], c.k = size[2];
    c.in = i % 5 < 4 ? kPacked[i % 5] : LATHE_F32;
    if (i % 5 == 4) c.b = LATHE_BF16;
    c.trans_a = random_.below(2);
    c.trans_b = random_.below(2);
    if (c.in == LATHE_I8) c.alpha = 0x1p-8f;
    c.split_k = random_.below(3) ? 0 : 2;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    c.flush = random_.below(2) ? Flush::kStart : Flush::kEnd;
    run_packed(c);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, 24);
}

TEST_P(Aarch64, SplitsAreRight) {
  for (lathe_dtype in : {LATHE_F32, LATHE_BF16, LATHE_I8}) {
    MatmulCase c;
    c.m = 3, c.n = 21, c.k = 2051;
    c.in = in;
    c.trans_b = true;
    c.split_k = 3;
    run_matmul(c);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, 6);
}

// The rows of a product of m rows have the same bits as the same rows of a larger product.
TEST_P(Aarch64, BatchInvariantRowsDoNotDependOnM) {
  for (lathe_dtype in : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    MatmulCase c;
    c.m = 140, c.n = 37, c.k = 301;
    c.in = in;
    c.trans_b = in != LATHE_F16;
    c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
    MatmulRequest request(c, &random_);
    SCOPED_TRACE(c.describe());
    request.mutable_desc()->a.leading_dimension = c.k;
    std::vector<uint8_t> whole;
    for (int64_t m : {140, 1, 2, 3, 5, 8, 13, 16, 17, 33, 64, 65, 129}) {
      request.mutable_desc()->m = m;
      request.reset_output();
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_matmul(device_, request.desc(), &plan));
      load(plan);
      lathe_plan_destroy(plan);
      if (HasFatalFailure()) return;
      ASSERT_EQ(process_->launch(problem_, {m, c.n, c.k, 1}, splits_, arguments_of(*request.desc())), "");
      const std::vector<uint8_t> part = request.output_bytes();
      if (whole.empty()) {
        ASSERT_TRUE(request.check());
        whole = part;
      }
      ASSERT_EQ(std::memcmp(part.data(), whole.data(), whole.size() / 140 * static_cast<size_t>(m)), 0)
          << "rows of m=" << m;
    }
  }
}

TEST_P(Aarch64, ArgmaxesAreRight) {
  for (lathe_dtype in : kFloats) {
    for (int64_t n : {37, 5000}) {
      ArgmaxCase c;
      c.in = in;
      c.n = n;
      c.wants_values = n == 37;
      c.index = n == 37 ? LATHE_I32 : LATHE_I64;
      const ArgmaxRequest weight(c, &random_);
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_argmax(device_, weight.desc(), &plan));
      load(plan);
      lathe_plan_destroy(plan);
      if (HasFatalFailure()) return;
      for (int kind = 0; kind < kRowsKinds; ++kind) {
        c.rows = random_.between(1, 4);
        c.kind = static_cast<Rows>(kind);
        c.padding = kind % 3;
        ArgmaxRequest request(c, &random_);
        SCOPED_TRACE(c.describe());
        ASSERT_NO_FATAL_FAILURE(launch({c.rows, c.n, 0, 1}, &request));
      }
    }
  }
  EXPECT_EQ(runs_, 6 * kRowsKinds);
}

TEST_P(Aarch64, MatmulArgmaxesAreRight) {
  constexpr lathe_dtype kWeights[] = {LATHE_DTYPE_NONE, LATHE_Q8_0, LATHE_Q6_K};
  for (int i = 0; i < 9; ++i) {
    const lathe_dtype in = kFloats[i % 3];
    for (int64_t m : {1, 9}) {
      MatmulArgmaxCase c;
      c.m = m, c.n = 130, c.k = i < 3 ? 65 : 512;
      c.in = in;
      c.b = kWeights[i / 3];
      c.math = m == 9 ? LATHE_MATH_INT8 : LATHE_MATH_STRICT;
      c.logits = kFloats[random_.below(3)];
      c.bias = random_.below(2) ? in : LATHE_DTYPE_NONE;
      c.wants_values = m == 9;
      MatmulArgmaxRequest request(c, &random_);
      lathe_plan* plan = nullptr;
      ASSERT_LATHE_OK(lathe_plan_matmul_argmax(device_, request.desc(), &plan));
      SCOPED_TRACE(c.describe());
      run(plan, {c.m, c.n, c.k, 1}, &request);
      lathe_plan_destroy(plan);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(runs_, 18);
}

// Checks the test itself: it must detect a write outside an operand.
TEST_P(Aarch64, DetectsFaults) {
  MatmulCase c;
  c.m = 2, c.n = 40, c.k = 64;
  c.in = LATHE_I8;
  c.out = LATHE_F32;
  c.trans_b = true;
  MatmulRequest request(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device_, request.desc(), &plan));
  run(plan, {c.m, c.n, c.k, 1}, &request);
  lathe_plan_destroy(plan);
  if (HasFatalFailure()) return;
  // Places the second row of D far behind its memory.
  ArgumentBlock args = arguments_of(*request.desc());
  args.ldd = int64_t{1} << 44;
  const std::string error = process_->launch(problem_, {c.m, c.n, c.k, 1}, 1, args);
  EXPECT_NE(error.find("Segmentation"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Levels, Aarch64, testing::ValuesIn(kLevels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lathe::conformance
