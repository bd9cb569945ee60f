// Compiles plans for the shipped SPIR-V devices. Each module must be valid for OpenCL 2.2 by spirv-val, contain the
// kernels of the launch recipe with its workgroup sizes, and use only the capabilities that it may. It takes a sample;
// LATHE_TEST_EVERY_PLAN=1 takes every form of kernel.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compile_client/compiler_library.h"
#include "core/artifact.h"
#include "spirv_module.h"
#include "sweep.h"

namespace lathe {
namespace {

// Numbered as in the specification. OpenCL 2.2 has all of them except half precision (extension cl_khr_fp16) and 64-bit
// atomics (cl_khr_int64_extended_atomics).
enum Capability : uint32_t {
  kAddresses = 4,
  kLinkage = 5,
  kKernel = 6,
  kVector16 = 7,
  kFloat16Buffer = 8,
  kFloat16 = 9,
  kInt64 = 11,
  kInt64Atomics = 12,
  kInt16 = 22,
  kInt8 = 39,
  kSubgroupDispatch = 58,
};

// The error of the validator, or "". It knows OpenCL without extensions, so modules with half precision or 64-bit
// atomics are checked by the rules of SPIR-V only.
std::string complaint(const std::string& module) {
  const std::set<uint32_t> capabilities = read_spirv(module).capabilities;
  const bool extended = capabilities.count(kFloat16) + capabilities.count(kInt64Atomics) > 0;
  const char* environment = extended ? "spv1.2" : "opencl2.2";
  static std::atomic<int> count{0};
  const std::string file =
      absl::StrCat(testing::TempDir(), "lathe-spirv-test-", getpid(), "-", count.fetch_add(1), ".spv");
  std::ofstream(file, std::ios::binary) << module;
  std::string said;
  FILE* validator =
      popen(absl::StrCat(LATHE_SPIRV_VAL, " --target-env ", environment, " ", file, " 2>&1").c_str(), "r");
  if (validator == nullptr) return "cannot start spirv-val";
  char buffer[1024];
  while (size_t n = fread(buffer, 1, sizeof(buffer), validator)) said.append(buffer, n);
  const int status = pclose(validator);
  std::remove(file.c_str());
  return status == 0 && said.empty() ? "" : absl::StrCat("spirv-val (", status, "): ", said);
}

bool may_have(const SweepPlan& plan, uint32_t capability) {
  switch (capability) {
    case kAddresses:
    case kLinkage:
    case kKernel:
    case kVector16:
    case kInt64:
    case kInt16:
    case kInt8: return true;
    case kFloat16Buffer:
    case kFloat16: {
      const ProblemClass& c = plan.problem;
      if (is_blocks(c.b)) return true;  // scales are f16, and e2m1 is widened to it
      for (DType t : {c.a, c.b, c.c, c.d, c.bias, c.residual, c.logits})
        // The bits of an e5m2 number are the upper half of an f16.
        if (t == DType::kF16 || t == DType::kF8E5M2) return true;
      return false;
    }
    case kInt64Atomics: return plan.problem.op == Op::kMatmulArgmax;
    case kSubgroupDispatch: return plan.config.kernel() == KernelKind::kXegpu;
    default: return false;
  }
}

std::vector<std::string> wrong_with(const SweepPlan& plan, const Artifact& artifact) {
  std::vector<std::string> wrong;
  const auto expect = [&](bool right, const std::string& what) {
    if (!right) wrong.push_back(what);
  };
  expect(artifact.format == CodeFormat::kSpirv, "the artifact is not SPIR-V");
  if (const std::string said = complaint(artifact.code); !said.empty()) wrong.push_back(said);
  const SpirvModule module = read_spirv(artifact.code);
  expect(module.version == 0x00010200, absl::StrCat("unexpected version ", module.version));
  expect(module.extensions.empty(),
         absl::StrCat("unexpected extensions ", absl::StrJoin(module.extensions, " ")));
  const bool xegpu = plan.config.kernel() == KernelKind::kXegpu;
  for (const Step& step : artifact.recipe.steps) {
    const auto found = module.entry_points.find(step.symbol);
    if (found == module.entry_points.end()) {
      wrong.push_back(step.symbol + " is not an entry point");
      continue;
    }
    expect(found->second.local_size == step.block,
           absl::StrCat(step.symbol, ": LocalSize ", absl::StrJoin(found->second.local_size, "x")));
    const bool product = &step == &artifact.recipe.steps.front();
    expect(found->second.subgroup_size == (xegpu && product ? 16 : 0), step.symbol + ": SubgroupSize");
  }
  expect(module.entry_points.size() == artifact.recipe.steps.size(), "a kernel that no step launches");
  for (uint32_t capability : module.capabilities)
    expect(may_have(plan, capability), absl::StrCat("capability not allowed: ", capability));
  bool multiplies = false;
  for (const std::string& name : module.imports) {
    expect(xegpu && absl::StrContains(name, "intel_sub_group_"), "unexpected import of " + name);
    multiplies |= absl::StrContains(name, "_matrix_mad_k16");
  }
  expect(multiplies == xegpu, "matrix instructions are missing or unexpected");
  expect(artifact.recipe.pointer_alignment == (xegpu ? 64 : 1), "wrong pointer alignment");
  return wrong;
}

TEST(Spirv, PlansCompileToValidModules) {
  std::vector<SweepPlan> plans = chosen_plans(Backend::kSpirv, every_plan());
  ASSERT_FALSE(HasFatalFailure());
  for (const SweepPlan& p : legal_plans(Backend::kSpirv)) plans.push_back(p);
  const size_t all = plans.size();
  plans = every_plan()
              ? sample(plans, 1, [](const SweepPlan& p) { return p.form(); })
              : sample(plans, 1, [](const SweepPlan& p) {
                  const ProblemClass& c = p.problem;
                  return absl::StrCat(
                      p.facts->target.arch == "spirv64", p.family(), p.config.split(), c.a,
                      c.activation != Activation::kNone, c.wants_values,
                      p.config.kernel() == KernelKind::kXegpu ? c.trans_b : c.trans_a * 2 + c.trans_b);
                });
  std::cout << plans.size() << " of " << all << " kernels" << std::endl;
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  std::atomic<int> xegpu{0};
  Failures failures;
  for_each_plan(plans, [&](const SweepPlan& plan) {
    const auto artifact = compiler.compile({plan.problem, plan.config, plan.facts->target, nullptr});
    if (!artifact.ok()) return failures.add(plan, std::string(artifact.status().message()));
    const std::string wrong = absl::StrJoin(wrong_with(plan, *artifact), "; ");
    if (!wrong.empty()) failures.add(plan, wrong);
    xegpu += plan.config.kernel() == KernelKind::kXegpu;
  });
  failures.expect_none();
  EXPECT_GT(xegpu, 0);
}

// Checks the validator itself: it must refuse a module in which one operand was changed.
TEST(Spirv, ValidatorRefusesWrongModule) {
  const std::vector<SweepPlan> plans = legal_plans(Backend::kSpirv);
  ASSERT_FALSE(plans.empty());
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  const SweepPlan& plan = plans.front();
  const auto artifact = compiler.compile({plan.problem, plan.config, plan.facts->target, nullptr});
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(complaint(artifact->code), "");
  std::string broken = artifact->code;
  broken[12] = 1, broken[13] = broken[14] = broken[15] = 0;  // the bound of all ids
  EXPECT_NE(complaint(broken), "");
}

}  // namespace
}  // namespace lathe
