// The GPU ukernels of matmul, from the table row to the code: the oracle writes the ukernel into the plan, the payload
// op carries it, the kernel is linked with it, and the result consists of registers and matrix instructions only.
#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "assembler.h"
#include "code_facts.h"
#include "compile_client/compiler_library.h"
#include "core/artifact.h"
#include "core/json.h"
#include "kernels/candidates_ukernel.h"
#include "options/options.h"
#include "oracle/oracle.h"
#include "tests/compiler/compiler_process.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kK = 1000;  // not a multiple of a stage

ProblemClass class_of(const UkernelRow& row, int trans_a, int trans_b) {
  ProblemClass c;
  c.op = Op::kMatmul;
  c.a = c.b = row.a;
  c.d = row.a == DType::kI8 ? DType::kI32 : DType::kF32;
  c.m_lo = 257, c.m_hi = 512;
  c.n = 208, c.k = kK;
  c.trans_a = trans_a, c.trans_b = trans_b;
  c.alignment = Alignment::k16;
  return c;
}

// The shipped devices that a row serves, one per target.
std::vector<const DeviceFacts*> devices_of(const UkernelRow& row) {
  std::vector<const DeviceFacts*> devices;
  std::set<std::string> seen;
  for (const DeviceFacts& f : shipped_facts())
    if (f.target.backend == row.backend && seen.insert(f.target.arch).second) devices.push_back(&f);
  return devices;
}

std::vector<RankedPlan> plans_of(const UkernelRow& row, const ProblemClass& c, const DeviceFacts& f,
                                 int32_t splits = 0) {
  std::vector<RankedPlan> all, of_row;
  enumerate_ukernels({c, f, 1, splits}, &all);
  for (RankedPlan& r : all)
    if (r.plan.config.ukernel.function == row.function) of_row.push_back(std::move(r));
  return of_row;
}

// Calls `visit` with the first legal plan of every GPU row for every device and layout that it serves.
void for_every_plan(const std::function<void(const UkernelRow&, const DeviceFacts&, const ProblemClass&,
                                             const Plan&)>& visit) {
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.op != Op::kMatmul || row.backend == Backend::kCpu) continue;
    int served = 0;
    for (const DeviceFacts* f : devices_of(row))
      for (int layout = 0; layout < 4; ++layout) {
        const ProblemClass c = class_of(row, layout & 1, layout / 2);
        for (const RankedPlan& r : plans_of(row, c, *f)) {
          if (!r.rejection.empty()) {
            EXPECT_THAT(r.rejection, AnyOf(HasSubstr("no bitcode of "), HasSubstr("needs K contiguous")))
                << f->name;
            continue;
          }
          ++served;
          visit(row, *f, c, r.plan);
          break;
        }
      }
    EXPECT_GT(served, 0) << row.function;
  }
}

const char* matrix_instruction_of(const Target& target) {
  return target.backend == Backend::kCuda ? "mma.sync.aligned" : "v_mfma_";
}

TEST(GpuUkernel, OpPlanAndLoweringAgreeForEveryRow) {
  std::set<std::string> compiled;
  for_every_plan([&](const UkernelRow& row, const DeviceFacts& f, const ProblemClass& c, const Plan& plan) {
    // Once per bitcode file: targets that share it behave the same.
    if (!compiled.insert(absl::StrCat(row.function, plan.config.ukernel.bitcode, c.trans_a, c.trans_b))
             .second)
      return;
    EXPECT_EQ(plan.config.ukernel.bitcode, bitcode_for(row.bitcode, f.target));
    EXPECT_EQ(plan.config.ukernel.attributes, row.attributes);
    const testing::CompilerAnswer answer = testing::compile(c, plan.config, f.target, /*dump=*/true);
    ASSERT_EQ(answer.code, 0) << f.name << " " << row.function << ": " << answer.error;
    const std::string attribute =
        absl::StrCat("#lathe.ukernel<function = \"", row.function, "\", bitcode = \"",
                     plan.config.ukernel.bitcode, "\", attributes = \"", row.attributes, "\">");
    EXPECT_THAT(testing::dump_of(answer, "payload.mlir"), HasSubstr(attribute));
    const std::string& kernel = testing::dump_of(answer, "kernel.mlir");
    EXPECT_THAT(kernel, HasSubstr(attribute));
    EXPECT_THAT(kernel, HasSubstr(absl::StrCat("llvm.call @", row.function)));
    EXPECT_THAT(testing::dump_of(answer, "llvm.ll"), Not(HasSubstr(absl::StrCat("@", row.function, "("))));
    EXPECT_THAT(testing::dump_of(answer, "llvm.ll"), Not(HasSubstr("alloca"))) << "sums are not in registers";
    const bool cuda = f.target.backend == Backend::kCuda;
    EXPECT_THAT(testing::dump_of(answer, cuda ? "kernel.ptx" : "assembly.s"),
                HasSubstr(matrix_instruction_of(f.target)));
    const auto artifact = parse_artifact(answer.artifact);
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    const Step& step = artifact->recipe.steps.front();
    EXPECT_THAT(step.symbol, HasSubstr(absl::StrCat("_ukernel_", row.function)));
    EXPECT_EQ(step.block[0], plan.config.threads());
    // On CUDA the ukernel uses all dynamic shared memory; on AMD its memory is static, next to the ticket.
    if (cuda) EXPECT_EQ(evaluate(step.dynamic_shared_memory, {}), row.shared_bytes) << row.function;
    if (!cuda)
      for (const auto& [name, facts] : read_hsaco(artifact->code))
        if (name == step.symbol) EXPECT_GE(facts.shared_bytes, row.shared_bytes);
  });
}

// A ukernel contains the whole loop over K: padded_k is K, and the kernel calls the ukernel once. A generated kernel
// loops over K blocks.
TEST(GpuUkernel, ChangesTheTiling) {
  std::set<std::string> seen;
  for_every_plan([&](const UkernelRow& row, const DeviceFacts& f, const ProblemClass& c, const Plan& plan) {
    if (!seen.insert(row.function).second) return;
    const auto& ukernel = plan.config.as<MmaUkernelConfig>();
    EXPECT_GE(ukernel.padded_k, kK);
    MmaConfig generated;
    generated.tile_m = ukernel.tile_m, generated.tile_n = ukernel.tile_n, generated.tile_k = ukernel.stage_k;
    generated.register_m = ukernel.register_m, generated.register_n = ukernel.register_n;
    generated.threads = ukernel.threads, generated.stages = ukernel.stages;
    generated.split = ukernel.split, generated.raster = ukernel.raster;
    EXPECT_LT(generated.tile_k, kK);
    const auto by_ukernel = testing::compile(c, plan.config, f.target, /*dump=*/true),
               by_emitter = testing::compile(c, generated, f.target, /*dump=*/true);
    ASSERT_EQ(by_emitter.code, 0) << by_emitter.error;
    EXPECT_THAT(testing::dump_of(by_ukernel, "payload.mlir"),
                HasSubstr(absl::StrCat("padded_k = ", ukernel.padded_k)));
    // All remaining loops follow the call and store results.
    const std::string &kernel = testing::dump_of(by_ukernel, "kernel.mlir"),
                      &loops = testing::dump_of(by_emitter, "kernel.mlir");
    const size_t call = kernel.find(absl::StrCat("llvm.call @", row.function));
    ASSERT_NE(call, std::string::npos);
    const std::string before = kernel.substr(kernel.find("gpu.func"), call - kernel.find("gpu.func"));
    EXPECT_THAT(before, Not(HasSubstr("scf.for")));
    for (const char* product : {"nvvm.mma.sync", "amdgcn.mfma"}) EXPECT_THAT(kernel, Not(HasSubstr(product)));
    const auto count = [](const std::string& text) {
      size_t n = 0;
      for (size_t at = text.find("scf.for "); at != std::string::npos; at = text.find("scf.for ", at + 1))
        ++n;
      return n;
    };
    EXPECT_EQ(count(kernel) + 1, count(loops)) << "exactly the loop over K must be missing";
  });
}

// The oracle prices a ukernel slightly above the generated kernel with the same tile, because ukernels were not
// measured.
TEST(GpuUkernel, RanksBelowGeneratedKernels) {
  for_every_plan([&](const UkernelRow& row, const DeviceFacts& f, const ProblemClass& c, const Plan&) {
    const auto ranked = rank_plans(c, f, {1, 0});
    ASSERT_TRUE(ranked.ok()) << ranked.status();
    EXPECT_NE(name_of(ranked->ranked[0].plan.config.kernel()), "ukernel") << f.name << " " << row.function;
  });
}

TEST(GpuUkernel, RejectsUnsupportedClassesWithTheReason) {
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.op != Op::kMatmul || row.backend == Backend::kCpu) continue;
    const DeviceFacts& f = shipped_facts(row.backend == Backend::kCuda ? "sm_90a" : "gfx942");
    const auto reason = [&](const std::function<void(ProblemClass*, DeviceFacts*)>& change) {
      ProblemClass c = class_of(row, 0, 1);
      DeviceFacts facts = f;
      change(&c, &facts);
      const std::vector<RankedPlan> plans = plans_of(row, c, facts);
      return plans.size() == 1 ? plans[0].rejection : absl::StrCat(plans.size(), " plans");
    };
    EXPECT_THAT(reason([](ProblemClass* c, DeviceFacts*) { c->alignment = Alignment::kElement; }),
                HasSubstr("not aligned to 16 bytes"));
    EXPECT_THAT(reason([](ProblemClass* c, DeviceFacts*) { c->zero_a = 1; }), HasSubstr("zero point"));
    EXPECT_THAT(reason([](ProblemClass*, DeviceFacts* d) { d->target = *parse_target("sm_75"); }),
                AnyOf(HasSubstr("no bitcode of "), HasSubstr("0 plans")));
    EXPECT_THAT(reason([](ProblemClass*, DeviceFacts* d) { d->facts["shared_memory_bytes"].value = 8192; }),
                HasSubstr("smem "));
  }
}

TEST(GpuUkernel, AssemblesWithoutSpills) {
  const auto options = read_options(nullptr, [](const char* name) { return std::getenv(name); });
  const bool assembles = no_assembler().empty() && options.ok() && options->assembler;
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  for_every_plan([&](const UkernelRow&, const DeviceFacts& f, const ProblemClass& c, const Plan& plan) {
    const bool cuda = f.target.backend == Backend::kCuda;
    if (cuda && !assembles) return;
    // Three CUDA targets: an old one, a middle one and a new one.
    if (cuda && f.target.arch != "sm_80" && f.target.arch != "sm_90a" && f.target.arch != "sm_120") return;
    const auto artifact =
        compiler.compile({c, plan.config, f.target, assembles ? &*options->assembler : nullptr});
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    const std::string& symbol = artifact->recipe.steps.front().symbol;
    const std::string what = absl::StrCat(f.target.arch, " ", symbol);
    if (cuda) {
      const Json kernel = Json::parse(artifact->metadata)["kernels"][symbol];
      ASSERT_TRUE(kernel.is_object()) << what << ": " << artifact->metadata;
      EXPECT_EQ(kernel["spill_bytes"], 0) << what;
      EXPECT_EQ(kernel["stack_bytes"], 0) << what;
    } else {
      const KernelTable table = read_hsaco(artifact->code);
      ASSERT_TRUE(table.count(symbol)) << what;
      EXPECT_EQ(table.at(symbol).scratch_bytes, 0) << what;
      EXPECT_EQ(table.at(symbol).spills, 0) << what;
    }
  });
  if (!assembles) GTEST_SKIP() << "only AMD was tested: " << no_assembler();
}

}  // namespace
}  // namespace lathe
