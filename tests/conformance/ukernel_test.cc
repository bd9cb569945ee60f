// matmul with every ukernel that the device has for a request, forced one by one and compared with float64: edges,
// layouts, batches, epilogues and special values.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "candidates.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

struct Types {
  lathe_dtype in, out;
};
constexpr Types kTypes[] = {
    {LATHE_F32, LATHE_F32}, {LATHE_F16, LATHE_F16}, {LATHE_BF16, LATHE_F32}, {LATHE_I8, LATHE_I32}};

class Ukernels : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!IsSkipped() && is_fallback()) GTEST_SKIP() << "generic kernels are not ukernels";
  }

  // The best candidate of each ukernel. Each ukernel function is another register tile.
  std::map<std::string, int32_t> ukernels_of(const MatmulCase& c) {
    MatmulRequest request(c, &random_);
    std::map<std::string, int32_t> best;
    for (const nlohmann::json& candidate : legal_candidates(device(), *request.desc())) {
      const auto& config = candidate["config"];
      if (config.value("kernel", "") != "ukernel") continue;
      EXPECT_GE(config.value(is_cpu() ? "tile_k" : "padded_k", 0), c.k)
          << "the ukernel does not get all of K";
      best.emplace(config["ukernel"]["function"], candidate["rank"]);
    }
    return best;
  }

  // On GPUs lines start at multiples of 16 bytes, as ukernels require there; they end anywhere.
  void expect(MatmulCase c) {
    if (!is_cpu()) c.aligned_lines = true, c.flush = Flush::kStart, c.misalign = 0;
    for (const auto& [function, rank] : ukernels_of(c)) {
      c.candidate = rank;
      EXPECT_TRUE(run_case(device(), c, &random_)) << function;
    }
  }

  Random random_ = random_stream(31);
};

TEST_F(Ukernels, EdgesOfEveryDimension) {
  const int64_t shapes[][3] = {{1, 1, 1},    {6, 1, 2},    {14, 32, 16}, {13, 31, 15},   {15, 33, 17},
                               {29, 67, 61}, {97, 101, 1}, {37, 41, 3},  {71, 129, 257}, {43, 65, 1031}};
  int layout = 0;
  for (const auto& shape : shapes)
    for (const Types& t : kTypes)
      for (int of_two = 0; of_two < (is_quick() ? 1 : 2); ++of_two) {
        layout = (layout + 3) % 4;  // covers every layout with every type in the end
        MatmulCase c;
        c.m = shape[0], c.n = shape[1], c.k = shape[2];
        c.in = t.in, c.out = t.out;
        c.trans_a = layout & 1, c.trans_b = layout & 2;
        c.padding = layout;
        c.values = layout % 3 ? Values::kNormal : Values::kSmallIntegers;
        expect(c);
      }
}

// The same numeric recipe gives the same result: a ukernel has the bits of the generated kernel, for every tile and
// merge.
TEST_F(Ukernels, SameRecipeGivesTheBitsOfGeneratedKernels) {
  if (is_cpu()) GTEST_SKIP() << "generated CPU kernels sum in blocks of K, so their bits differ";
  for (const Types& t : kTypes) {
    MatmulCase c;
    c.m = 70, c.n = 75, c.k = 171;
    c.in = t.in, c.out = t.in == LATHE_I8 ? LATHE_I32 : LATHE_F32;
    c.trans_b = true;
    c.aligned_lines = true, c.flush = Flush::kStart;
    MatmulRequest request(c, &random_);
    std::vector<uint8_t> generated;
    std::set<std::string> done;
    for (const char* kind : {"mma", "ukernel"})
      for (const nlohmann::json& candidate : legal_candidates(device(), *request.desc())) {
        const auto& config = candidate["config"];
        if (config["kernel"] != kind || candidate["splits"] != 1) continue;
        if (!done.insert(kind + std::string(config["ukernel"]["function"])).second) continue;
        request.set_tuning(0, candidate["rank"]);
        request.reset_output();
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, request.desc()));
        ASSERT_TRUE(request.check());
        if (generated.empty()) generated = request.output();
        EXPECT_TRUE(request.output() == generated) << config.dump();
      }
  }
}

// K or another dimension is 0. A forced candidate is still accepted.
TEST_F(Ukernels, EmptyDimensions) {
  for (int zero = 0; zero < 4; ++zero) {
    MatmulCase c;
    c.m = 15, c.n = 33, c.k = 7, c.batch = 2;
    if (!is_cpu()) c.in = LATHE_F16, c.aligned_lines = true, c.flush = Flush::kStart;
    c.c_mode = CMode::kSeparate;
    c.beta = 2;
    c.bias = LATHE_F32;
    const auto best = ukernels_of(c);
    *(zero == 0 ? &c.m : zero == 1 ? &c.n : zero == 2 ? &c.k : &c.batch) = 0;
    for (const auto& [function, rank] : best) {
      c.candidate = rank;
      EXPECT_TRUE(run_case(device(), c, &random_)) << function;
    }
  }
}

TEST_F(Ukernels, BatchesStridesAndEpilogues) {
  for (const Types& t : kTypes)
    for (int variant = 0; variant < 4; ++variant) {
      const bool integers = t.in == LATHE_I8;
      if (integers && variant && !is_cpu()) continue;  // scales have kernels only on the CPU
      MatmulCase c;
      c.m = 33, c.n = 70, c.k = 121, c.batch = 3;
      c.in = t.in, c.out = integers && variant ? LATHE_F32 : t.out;
      c.trans_b = variant & 1;
      c.padding = variant;
      c.misalign = variant == 3 ? 1 : 0;
      c.broadcast_b = variant == 1, c.broadcast_a = variant == 2;
      if (integers && variant) c.scale_a = 1 + variant % 2, c.scale_b = 2;
      if (!integers || variant) {
        c.alpha = 0.5F;
        c.bias = LATHE_F32;
        c.activation = variant == 2 ? LATHE_ACTIVATION_GELU : LATHE_ACTIVATION_RELU;
        c.c_mode = variant == 1 ? CMode::kInPlace : variant == 2 ? CMode::kUnreadNan : CMode::kSeparate;
        c.beta = c.c_mode == CMode::kUnreadNan ? 0.0F : 2.0F;
        if (variant == 3) c.residual_mode = ResidualMode::kSeparate;
      }
      expect(c);
    }
}

TEST_F(Ukernels, SpecialValuesSpread) {
  for (const Types& t : kTypes) {
    if (t.in == LATHE_I8) continue;  // it has none
    for (int64_t k : {31, 64, 257}) {
      MatmulCase c;
      c.m = 33, c.n = 65, c.k = k;
      c.in = t.in, c.out = t.out;
      c.trans_b = k % 2;
      c.values = Values::kSpecial;
      expect(c);
    }
  }
}

// Every workgroup tile of each ukernel (a register tile has several). All ukernels that the device's instructions allow
// must be among the candidates.
TEST_F(Ukernels, EveryCandidate) {
  std::set<std::string> ran;
  std::string features, arch;
  for (const Types& t : kTypes) {
    MatmulCase c;
    c.m = quick_or(99, 150), c.n = quick_or(70, 200), c.k = quick_or(95, 303);
    if (!is_cpu()) c.aligned_lines = true, c.flush = Flush::kStart;
    c.in = t.in, c.out = t.out;
    c.trans_b = true;
    MatmulRequest request(c, &random_);
    lathe_plan* plan = nullptr;
    ASSERT_LATHE_OK(lathe_plan_matmul(device(), request.desc(), &plan));
    const nlohmann::json target = nlohmann::json::parse(explain(plan))["target"];
    features = target.value("features", "") + ",", arch = target.value("arch", "");
    lathe_plan_destroy(plan);
    for (const nlohmann::json& candidate : legal_candidates(device(), *request.desc())) {
      if (candidate["config"].value("kernel", "") != "ukernel") continue;
      c.candidate = candidate["rank"];
      EXPECT_TRUE(run_case(device(), c, &random_)) << candidate["config"].dump();
      ran.insert(candidate["config"]["ukernel"]["function"]);
    }
  }
  std::set<std::string> wanted;
  const auto has = [&](const char* feature) { return features.find(feature) != std::string::npos; };
  if (has("+avx2,") && has("+fma,")) wanted.insert("lathe_panels_f32_6x2");
  if (has("+avx512bw,")) wanted.insert("lathe_panels_f32_14x2");
  if (has("+avx512vnni,")) wanted.insert("lathe_panels_i8_14x2");
  if (has("+avx512bf16,")) wanted.insert("lathe_panels_bf16_14x2");
  for (const char* type : {"f16", "bf16", "i8"})
    for (const char* tile : {"_128x128", "_64x64"})
      if (arch.rfind("sm_", 0) == 0 && arch != "sm_75")
        wanted.insert(std::string("lathe_mma_") + type + tile);
      else if ((arch == "gfx90a" || arch == "gfx942" || arch == "gfx950") && type != std::string("i8"))
        wanted.insert(std::string("lathe_mfma_") + type + tile);
  EXPECT_EQ(ran, wanted) << arch << " " << features;
}

}  // namespace
}  // namespace lathe::conformance
