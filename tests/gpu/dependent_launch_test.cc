// Programmatic dependent launch: a kernel that uses it must wait before it accesses what the previous kernel may still
// write, and its recipe must say so. Other kernels must contain no trace of it.
#include <gtest/gtest.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "cross_compile.h"

namespace lathe {
namespace {

constexpr char kWait[] = "griddepcontrol.wait", kLaunch[] = "griddepcontrol.launch_dependents";

class DependentLaunch : public ::testing::Test {
 protected:
  static Device describe(const Context& context, const std::string& target) {
    return context.describe(absl::StrCat(LATHE_FACTS_DIR, "/h200.json"), target);
  }
  static Context context() {
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.cache_dir = "";
    return Context(options);
  }
  static lathe_matmul_desc matmul(int64_t m, int64_t n, int64_t k, lathe_dependent_launch launch) {
    alignas(16) static float present[4] = {};  // planning does not read through pointers
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = m, desc.n = n, desc.k = k;
    desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_BF16;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.a.data = desc.b.data = desc.d.data = present;
    desc.dependent_launch = launch;
    return desc;
  }
  static void expect_no_trace(const GpuCode& code) {
    EXPECT_EQ(code.text.find("griddepcontrol"), std::string::npos);
    for (const Step& step : code.recipe.steps) EXPECT_TRUE(step.attributes.empty()) << step.symbol;
  }
  // The kernel of every step waits once, before all loads, stores and copies listed in `after`.
  static void expect_waits(const GpuCode& code, const std::vector<std::string>& after) {
    size_t waits = 0;
    for (size_t at = 0; (at = code.text.find(kWait, at)) != std::string::npos; ++at) ++waits;
    EXPECT_EQ(waits, code.recipe.steps.size());
    for (const Step& step : code.recipe.steps) {
      EXPECT_EQ(step.attributes, std::vector<std::string>{"pdl"}) << step.symbol;
      const size_t entry = code.text.find(".entry " + step.symbol + "("), wait = code.text.find(kWait, entry);
      ASSERT_NE(entry, std::string::npos) << step.symbol;
      ASSERT_NE(wait, std::string::npos) << step.symbol;
      EXPECT_LT(wait, code.text.find(kLaunch, entry)) << "a third kernel would start while the first runs";
      for (const std::string& access : after)
        EXPECT_LT(wait, code.text.find(access, entry)) << step.symbol << ": " << access;
    }
  }
};

const std::vector<std::string> kAccesses = {"ld.global", "st.global", "cp.async", "atom."};

TEST_F(DependentLaunch, EveryFamilyWaitsFirst) {
  const Context c = context();
  const Device device = describe(c, "");
  // Few rows, many rows, and columns that are not aligned for tensor copies.
  for (const auto& [m, n, k] :
       {std::array{4, 4096, 4096}, {300, 4096, 512}, {300, 4096, 513}, {33, 40, 9000}}) {
    SCOPED_TRACE(absl::StrCat(m, "x", n, "x", k));
    expect_waits(compile_gpu(device.plan(matmul(m, n, k, LATHE_DEPENDENT_LAUNCH_ON))), kAccesses);
    expect_no_trace(compile_gpu(device.plan(matmul(m, n, k, LATHE_DEPENDENT_LAUNCH_OFF))));
  }
}

TEST_F(DependentLaunch, ReadsConstantWeightsBeforeTheWait) {
  const Context c = context();
  const Device device = describe(c, "");
  // Only the family "skinny" reads ahead, and the oracle may prefer another.
  lathe_matmul_desc desc = matmul(4, 4096, 4096, LATHE_DEPENDENT_LAUNCH_CONSTANT_B);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  const Json explained = Json::parse(device.explain(desc));
  for (const Json& c : explained.at("candidates")) {
    if (c.at("config").at("kernel") != "skinny" || !c.at("legal").get<bool>()) continue;
    tuning.candidate = c.at("rank").get<int32_t>();
    break;
  }
  desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  const GpuCode code = compile_gpu(device.plan(desc));
  ASSERT_NE(code.recipe.steps[0].symbol.find("skinny"), std::string::npos);
  expect_waits(code, {"st.global", "cp.async", "atom."});
  EXPECT_LT(code.text.find("ld.global.L1::no_allocate"), code.text.find(kWait));
}

TEST_F(DependentLaunch, ArgmaxWaits) {
  const Context c = context();
  const Device device = describe(c, "");
  alignas(16) static float x[4] = {};
  static int64_t indices[1] = {};
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = 3, desc.n = 151936;
  desc.x.data = x, desc.x.dtype = LATHE_F32;
  desc.indices = indices;
  expect_no_trace(compile_gpu(device.plan(desc)));
  desc.dependent_launch = LATHE_DEPENDENT_LAUNCH_ON;
  expect_waits(compile_gpu(device.plan(desc)), kAccesses);
}

TEST_F(DependentLaunch, HasNoEffectOnDevicesWithoutIt) {
  const Context c = context();
  for (const char* target : {"sm_80", "sm_89"})
    expect_no_trace(
        compile_gpu(describe(c, target).plan(matmul(4, 512, 512, LATHE_DEPENDENT_LAUNCH_CONSTANT_B))));
}

}  // namespace
}  // namespace lathe
