// Kernels of the family "wgmma" for sm_90a: every tile assembles cleanly, and the PTX contains the instructions that
// the plan asks for.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "cross_compile.h"

namespace lathe {
namespace {

// A linear layer of bf16.
MatmulForm layer(int64_t m, int64_t n = 1024, int64_t k = 4096) {
  MatmulForm f{LATHE_BF16, LATHE_BF16, false, true};
  f.m = m, f.n = n, f.k = k;
  return f;
}

class Wgmma : public ::testing::Test {
 protected:
  Wgmma() : context_(no_disk()), device_(context_.describe(std::string(LATHE_FACTS_DIR) + "/h200.json")) {}

  // The legal candidates of the family, best first. Those that differ only in depth are left out.
  std::vector<Json> candidates(const MatmulForm& f) {
    using Key = std::tuple<int, int, int, int, int, int, int, int, bool>;
    std::set<Key> seen;
    std::vector<Json> kept;
    const Json explained = Json::parse(plan_matmul(device_, f, 0).explain());
    for (const Json& candidate : explained.at("candidates")) {
      const Json& c = candidate.at("config");
      const auto number = [&](const char* name) { return c.at(name).get<int>(); };
      if (c.at("kernel") != "wgmma" || !candidate.at("legal").get<bool>()) continue;
      const Key key{number("tile_m"),    number("tile_n"),    number("tile_k"),
                    number("threads"),   number("cluster_m"), number("transposed"),
                    number("cluster_n"), number("split"),     number("persistent") > 0};
      if (seen.insert(key).second) kept.push_back(candidate);
    }
    return kept;
  }

  GpuCode compile(const MatmulForm& f, const Json& candidate) {
    return compile_gpu(plan_matmul(device_, f, 0, candidate.at("rank").get<int32_t>()));
  }

  void expect_as_meant(const MatmulForm& f, const Json& candidate) {
    const GpuCode code = compile(f, candidate);
    SCOPED_TRACE(candidate.at("config").dump());
    const Json& c = candidate.at("config");
    const Step& step = code.recipe.steps[0];
    EXPECT_EQ(code.recipe.k_granularity, c.at("tile_k").get<int>());
    EXPECT_EQ(step.argument_bytes, parameter_bytes(step.tensor_maps.size()));
    for (const TensorMap& map : step.tensor_maps) {
      EXPECT_EQ(map.swizzle, 128);
      EXPECT_EQ(map.box_columns * size_of(map.dtype), 128u);
    }
    const auto count = [&](const char* text) {
      size_t n = 0;
      for (size_t at = code.text.find(text); at != std::string::npos; at = code.text.find(text, at + 1)) ++n;
      return n;
    };
    // Sums of scaled operands are a group for every scale. Powers of two have code for scales of 32 and of 128.
    const int64_t depth = c.at("tile_k").get<int64_t>();
    const size_t groups = f.scaled == 128 ? depth / 128 : f.scaled == 32 ? depth / 32 + depth / 128 : 1;
    const bool shares = c.at("cluster_m").get<int>() * c.at("cluster_n").get<int>() > 1;
    EXPECT_GE(count("wgmma.mma_async"), 4u);
    EXPECT_EQ(count("wgmma.commit_group"), groups);
    EXPECT_EQ(count(".multicast::cluster") > 0, shares);
    EXPECT_EQ(count("barrier.cluster.arrive") > 0, shares || c.at("split") == 3);
    EXPECT_EQ(count("setmaxnreg"), count("setmaxnreg.inc") * 2);
    if (code.kernels.empty()) return;                                          // there is no assembler
    EXPECT_EQ(code.metadata.value("messages", Json::array()), Json::array());  // for example no C75xx
    for (const auto& [name, kernel] : code.kernels) {
      EXPECT_EQ(kernel.spills, 0) << name;
      EXPECT_EQ(kernel.scratch_bytes, 0) << name;
      EXPECT_LE(kernel.registers * 128, 65536 / (step.block[0] / 128)) << name;
    }
  }

  Context context_;
  Device device_;
};

TEST_F(Wgmma, EveryLargeTile) {
  const MatmulForm f = layer(5000);
  const std::vector<Json> all = candidates(f);
  ASSERT_GE(all.size(), 30u);
  for (const Json& candidate : all) expect_as_meant(f, candidate);
}

TEST_F(Wgmma, EveryTileOfSmallM) {
  const MatmulForm f = layer(12, 1024, 8192);
  const std::vector<Json> all = candidates(f);
  ASSERT_GE(all.size(), 20u);
  EXPECT_TRUE(
      std::any_of(all.begin(), all.end(), [](const Json& c) { return c.at("config").at("split") == 3; }));
  for (const Json& candidate : all) expect_as_meant(f, candidate);
}

TEST_F(Wgmma, EveryTileOfScaledOperands) {
  for (int64_t scaled : {128, 32})
    for (int64_t m : {12, 64, 5000}) {
      if (m == 12 && scaled == 32) continue;
      MatmulForm f{LATHE_F8_E4M3, LATHE_BF16, false, true};
      f.m = m, f.n = 1024, f.k = 7168;
      f.scaled = scaled;
      SCOPED_TRACE(::testing::Message() << "m " << m << " scaled " << scaled);
      const std::vector<Json> all = candidates(f);
      ASSERT_GE(all.size(), 4u);
      for (const Json& candidate : all) expect_as_meant(f, candidate);
      f.out = LATHE_F32, f.everything = true, f.activation = LATHE_ACTIVATION_SILU;
      std::vector<Json> best = candidates(f);
      best.resize(std::min<size_t>(best.size(), 4));
      for (const Json& candidate : best) expect_as_meant(f, candidate);
    }
}

TEST_F(Wgmma, EveryLayoutWithEveryEpilogueOperand) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (int64_t m : {40, 200}) {
        const MatmulForm f{ta == tb ? LATHE_F16 : LATHE_BF16,
                           ta ? LATHE_F32 : LATHE_F16,
                           ta,
                           tb,
                           true,
                           LATHE_ACTIVATION_GELU,
                           m,
                           456,
                           51232};
        SCOPED_TRACE(::testing::Message() << "m " << m << " trans " << ta << tb);
        std::vector<Json> best = candidates(f);
        ASSERT_GE(best.size(), 4u);
        best.resize(4);
        for (const Json& candidate : best) expect_as_meant(f, candidate);
      }
}

// A 128 by 256 tile on two warpgroups leaves too few registers for the third one, so registers are redistributed.
TEST_F(Wgmma, LargestTilesRedistributeRegisters) {
  const MatmulForm f = layer(5000);
  for (const Json& candidate : candidates(f)) {
    const Json& c = candidate.at("config");
    if (c.at("tile_m").get<int>() * c.at("tile_n").get<int>() != 128 * 256) continue;
    const std::string text = compile(f, candidate).text;
    EXPECT_NE(text.find("setmaxnreg.dec.sync.aligned.u32 24;"), std::string::npos) << c;
    EXPECT_NE(text.find("setmaxnreg.inc.sync.aligned.u32 240;"), std::string::npos) << c;
    EXPECT_NE(text.find(".minnctapersm 1"), std::string::npos) << c;
  }
}

TEST_F(Wgmma, InstructionTransposesOperandsAlongMOrN) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      MatmulForm f = layer(5000, 1024, 1024);
      f.transposed_a = ta, f.transposed_b = tb;
      const std::vector<Json> all = candidates(f);
      ASSERT_FALSE(all.empty());
      const std::string text = compile(f, all[0]).text;
      const std::string flags = std::string(", 1, 1, ") + (ta ? "1" : "0") + ", " + (tb ? "0" : "1") + ";";
      EXPECT_NE(text.find(flags), std::string::npos) << flags;
    }
}

// Tensor copies write D unless the epilogue reads an operand of D's size; then plain stores write it.
TEST_F(Wgmma, TensorCopiesWriteD) {
  MatmulForm f = layer(5000, 4096);
  const std::vector<Json> all = candidates(f);
  EXPECT_NE(compile(f, all[0]).text.find("cp.async.bulk.tensor.3d.global.shared::cta"), std::string::npos);
  f.everything = true, f.activation = LATHE_ACTIVATION_GELU;
  const std::vector<Json> with_operands = candidates(f);
  const std::string text = compile(f, with_operands[0]).text;
  EXPECT_EQ(text.find("cp.async.bulk.tensor.3d.global.shared::cta"), std::string::npos);
  EXPECT_NE(text.find("st.global.v4"), std::string::npos);
}

}  // namespace
}  // namespace lathe
