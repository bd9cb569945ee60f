// Compiles kernels of various classes for sm_90a and gfx942 and compares the launch recipe and the argument block with
// the metadata in the cubin and the code object.
#include "cross_compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>

#include "core/args.h"

namespace lathe {
namespace {

struct Gpu {
  const char* name;
  const char* facts;
  const char* target;  // "": the target of the facts file
  bool cuda;
};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.name; }
constexpr Gpu kH200 = {"sm_90a", "h200.json", "", true};
constexpr Gpu kMi300x = {"gfx942", "mi300x.json", "", false};
constexpr Gpu kOthers[] = {{"sm_80", "h200.json", "sm_80", true},
                           {"sm_75", "h200.json", "sm_75", true},
                           {"gfx90a", "mi300x.json", "gfx90a", false},
                           {"gfx1100", "mi300x.json", "gfx1100", false}};

class CrossCompile : public ::testing::TestWithParam<Gpu> {
 protected:
  CrossCompile() : context_(no_disk()), device_(describe(GetParam())) {}

  Device describe(const Gpu& gpu) const {
    return context_.describe(std::string(LATHE_FACTS_DIR) + "/" + gpu.facts, gpu.target);
  }

  // Checks everything that the runtime relies on when it launches the artifact.
  static void expect_launchable(const GpuCode& code, bool split, bool cuda) {
    // With counters the last workgroup to arrive merges the split in the same launch.
    const size_t steps = split && code.recipe.counters.empty() ? 2 : 1;
    ASSERT_EQ(code.recipe.steps.size(), steps);
    for (const Step& step : code.recipe.steps) {
      EXPECT_EQ(step.kind, StepKind::kGpuKernel);
      const size_t maps = step.tensor_maps.size();
      EXPECT_EQ(step.argument_bytes, parameter_bytes(maps));
      if (cuda && !no_assembler().empty()) continue;
      auto found = code.kernels.find(step.symbol);
      ASSERT_NE(found, code.kernels.end()) << step.symbol << " is not in the code";
      const KernelFacts& kernel = found->second;
      if (maps == 0) EXPECT_EQ(kernel.parameter_bytes, step.argument_bytes);
      const size_t fields = std::size(kArgumentFields);
      ASSERT_EQ(kernel.parameters.size(), fields + maps);
      // The assembler chooses the offsets of tensor maps, and the driver reads them from the code.
      for (size_t i = 0; i < maps; ++i) EXPECT_EQ(kernel.parameters[fields + i].second, kTensorMapBytes);
      for (size_t i = 0; i < fields; ++i) {
        const ArgumentField& field = kArgumentFields[i];
        const bool wide = field.kind == ArgumentKind::ptr || field.kind == ArgumentKind::i64;
        EXPECT_EQ(kernel.parameters[i].first, static_cast<int64_t>(field.offset)) << field.name;
        EXPECT_EQ(kernel.parameters[i].second, wide ? 8 : 4) << field.name;
      }
      for (int i = 0; i < 3; ++i) EXPECT_EQ(kernel.workgroup[i], step.block[i]);
      EXPECT_EQ(kernel.spills, 0) << step.symbol;
      EXPECT_EQ(kernel.scratch_bytes, 0) << step.symbol;
      EXPECT_GT(kernel.registers, 0) << step.symbol;
      RecordProperty(step.symbol, static_cast<int>(kernel.registers));
    }
    EXPECT_EQ(code.kernels.size(), cuda && !no_assembler().empty() ? 0 : steps)
        << "a kernel that no step launches";
  }

  // The oracle decides whether a row is split.
  void expect_argmax(const lathe_argmax_desc& desc) {
    const Plan plan = device_.plan(desc);
    const bool split =
        nlohmann::json::parse(plan.explain()).at("config").at("split").get<int>() != 0;  // kNoSplit
    expect_launchable(compile_gpu(plan), split, GetParam().cuda);
  }

  Context context_;
  Device device_;
};

GpuCode compile_matmul(const Device& device, const MatmulForm& form, int32_t split_k, int32_t candidate = 0) {
  return compile_gpu(plan_matmul(device, form, split_k, candidate));
}

lathe_argmax_desc describe_argmax(lathe_dtype dtype, lathe_dtype index, int64_t n, float* values) {
  static int64_t present[1] = {};
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = 3, desc.n = n;
  desc.x.data = present;
  desc.x.dtype = dtype;
  desc.indices = present;
  desc.index_dtype = index;
  desc.values = values;
  return desc;
}

TEST_P(CrossCompile, MatmulOfEveryDtypeAndLayout) {
  int form = 0;
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        // The twelve forms alternate between epilogues and splits.
        MatmulForm f{dtype, dtype, ta, tb, form % 2 == 0};
        const int32_t split_k = form % 3 == 0 ? 5 : 1;
        SCOPED_TRACE(::testing::Message()
                     << "dtype " << dtype << " trans " << ta << tb << " split " << split_k);
        expect_launchable(compile_matmul(device_, f, split_k), split_k > 1, GetParam().cuda);
        ++form;
      }
}

TEST_P(CrossCompile, MatmulOfEveryActivationAndOutput) {
  for (lathe_activation activation :
       {LATHE_ACTIVATION_RELU, LATHE_ACTIVATION_GELU, LATHE_ACTIVATION_GELU_TANH, LATHE_ACTIVATION_SILU})
    for (lathe_dtype out : {LATHE_F32, LATHE_BF16}) {
      SCOPED_TRACE(::testing::Message() << "activation " << activation << " out " << out);
      MatmulForm f{LATHE_F16, out, false, true, true, activation};
      expect_launchable(compile_matmul(device_, f, 1), false, GetParam().cuda);
    }
}

TEST_P(CrossCompile, MatmulOfEveryCandidate) {
  const int legal = nlohmann::json::parse(plan_matmul(device_, {}, 1).explain()).at("legal").get<int>();
  ASSERT_GT(legal, 5);
  for (int candidate = 1; candidate <= legal; ++candidate) {
    SCOPED_TRACE(candidate);
    expect_launchable(compile_matmul(device_, {}, 1, candidate), false, GetParam().cuda);
  }
}

// On sm_90a these are wgmma kernels. Their tensor maps are parameters that follow the argument block.
TEST_P(CrossCompile, MatmulOfAlignedLayers) {
  const bool hopper = std::string(GetParam().name) == "sm_90a";
  for (int64_t m : {64, 4096})
    for (lathe_dtype dtype : {LATHE_F16, LATHE_BF16}) {
      SCOPED_TRACE(::testing::Message() << "dtype " << dtype << " m " << m);
      MatmulForm f{dtype, dtype, false, true};
      f.m = m, f.n = 4096, f.k = 4096;
      const GpuCode code = compile_matmul(device_, f, 1);
      expect_launchable(code, false, GetParam().cuda);
      EXPECT_EQ(!code.recipe.steps[0].tensor_maps.empty(), hopper);
    }
}

TEST_P(CrossCompile, MatmulWithOperandsBeyond32Bits) {
  // A weight of at least 2^32 elements.
  MatmulForm f;
  f.n = 151936, f.k = 32768, f.m = 5, f.transposed_b = true;
  expect_launchable(compile_matmul(device_, f, 1), false, GetParam().cuda);
}

TEST_P(CrossCompile, ArgmaxOfEveryDtypeAndLength) {
  float values[1];
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16})
    for (int64_t n : {100, 151936}) {
      SCOPED_TRACE(::testing::Message() << "dtype " << dtype << " n " << n);
      const lathe_dtype index = dtype == LATHE_F32 ? LATHE_I64 : LATHE_I32;
      expect_argmax(describe_argmax(dtype, index, n, n > 1000 ? values : nullptr));
    }
}

TEST_P(CrossCompile, WarmingFillsTheCacheOnce) {
  MatmulForm f;
  f.n = 64, f.k = 96;
  const lathe_warmup_report first = device_.warm(describe_matmul(f), 3),
                            again = device_.warm(describe_matmul(f), 3);
  // Three M, with rows aligned to 16 bytes and not, and one class for rows not even aligned to their elements.
  EXPECT_EQ(first.classes, 3u + 3 + 1);
  EXPECT_EQ(first.compiled, 3u + 3 + 1);
  EXPECT_EQ(again.compiled, 0u);
  EXPECT_EQ(again.loaded, 3u + 3 + 1);
}

INSTANTIATE_TEST_SUITE_P(Targets, CrossCompile, ::testing::Values(kH200, kMi300x),
                         [](const auto& info) { return std::string(info.param.name); });

class OtherTargets : public CrossCompile {};

TEST_P(OtherTargets, AcceptMatmulAndArgmax) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    SCOPED_TRACE(dtype);
    MatmulForm f{dtype, dtype, false, true, true, LATHE_ACTIVATION_SILU};
    expect_launchable(compile_matmul(device_, f, 3), true, GetParam().cuda);
    expect_argmax(describe_argmax(dtype, LATHE_I64, 5000, nullptr));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OtherTargets, ::testing::ValuesIn(kOthers),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Ptx, IsAssembled) {
  if (!no_assembler().empty()) GTEST_SKIP() << no_assembler();
  Context context(no_disk());
  Device device = context.describe(std::string(LATHE_FACTS_DIR) + "/h200.json");
  const GpuCode code = compile_matmul(device, {}, 1);  // throws the message of ptxas on failure
  ASSERT_EQ(code.kernels.size(), code.recipe.steps.size());
  EXPECT_EQ(code.metadata.at("assembler").get<std::string>().rfind("ptxas ", 0), 0u) << code.metadata;
  EXPECT_EQ(code.metadata.at("messages"), Json::array());
  for (const auto& [name, facts] : code.kernels) {
    EXPECT_GT(facts.registers, 0) << name << ": ptxas reported on it";
    EXPECT_EQ(facts.spills, 0) << name;
    EXPECT_EQ(facts.scratch_bytes, 0) << name;
  }
}

// The size is fixed, not just bounded: otherwise the assembler drops setmaxnreg, for example.
TEST(Ptx, RequiresTheWorkgroupSize) {
  Context context(no_disk());
  Device device = context.describe(std::string(LATHE_FACTS_DIR) + "/h200.json");
  const GpuCode code = compile_matmul(device, {}, 1);
  const std::string size = std::to_string(code.recipe.steps[0].block[0]);
  EXPECT_NE(code.text.find(".reqntid " + size), std::string::npos);
}

// The size of the static shared variables in PTX and the alignment of its dynamic shared memory; both 0 if either kind
// is absent.
struct SharedMemory {
  int64_t static_bytes = 0, alignment = 0;
};
SharedMemory shared_memory_of(const std::string& ptx) {
  SharedMemory found;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(".shared .align ");
    if (at == std::string::npos) continue;
    const int64_t align = std::atoll(line.c_str() + at + std::strlen(".shared .align "));
    const size_t bracket = line.find('[');
    if (line.find(".extern") != std::string::npos) {
      found.alignment = align;
    } else {
      const int64_t bytes = bracket == std::string::npos ? 4 : std::atoll(line.c_str() + bracket + 1);
      found.static_bytes = (found.static_bytes + align - 1) / align * align + bytes;
    }
  }
  return found;
}

// The driver's linker places dynamic shared memory right behind static shared memory and ignores its alignment. On an
// H200 this made kernels with a ticket fault.
TEST(Ptx, StaticSharedMemoryKeepsDynamicAligned) {
  Context context(no_disk());
  Device device = context.describe(std::string(LATHE_FACTS_DIR) + "/h200.json");
  int both = 0;
  for (const int32_t rank : {0, 1, 2, 3, 5, 8, 13, 21, 34}) {
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.split_k = 3;
    tuning.candidate = rank;
    MatmulForm f{LATHE_F16, LATHE_F16, false, true};
    f.m = 1, f.n = 200, f.k = 528;
    lathe_matmul_desc desc = describe_matmul(f);
    desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
    const GpuCode code = compile_gpu(device.plan(desc));
    const SharedMemory shared = shared_memory_of(code.text);
    if (shared.alignment == 0 || shared.static_bytes == 0) continue;
    ++both;
    EXPECT_EQ(shared.static_bytes % shared.alignment, 0) << code.recipe.steps[0].symbol;
  }
  EXPECT_GT(both, 0) << "no kernel has both static and dynamic shared memory";
}

}  // namespace
}  // namespace lathe
