// ukernels from the row of the table to the object: the oracle writes the ukernel into the plan, the payload op
// carries it, and the kernel is linked with it.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "compiler_process.h"
#include "kernels/candidates_ukernel.h"
#include "oracle/oracle.h"
#include "tests/config_field.h"

namespace lathe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTargets[] = {"x86-64-avx2",  "x86-64-avx512", "x86-64-avx512bf16",
                                    "aarch64-neon", "sm_75",         "sm_90a",
                                    "gfx942",       "gfx1100"};
constexpr int64_t kK = 1603;  // not a multiple of any vector length

DeviceFacts device_of(const Target& target) {
  DeviceFacts f;
  f.name = "a machine";
  f.target = target;
  return f;
}

ProblemClass argmax_class(DType type, int64_t n, bool values) {
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = type;
  c.d = DType::kI64;
  c.wants_values = values;
  const Bucket row = row_bucket(n);
  c.row_lo = row.lo, c.row_hi = row.hi;
  return c;
}

ProblemClass matmul_class(DType type, bool trans_b) {
  ProblemClass c;
  c.op = Op::kMatmul;
  c.a = c.b = type;
  c.d = type == DType::kI8 ? DType::kI32 : DType::kF32;
  c.m_lo = 129, c.m_hi = 256;
  c.n = 200, c.k = kK;
  c.trans_b = trans_b;
  return c;
}

std::vector<ProblemClass> classes_of(const UkernelRow& row) {
  std::vector<ProblemClass> classes;
  if (row.op == Op::kMatmul) return {matmul_class(row.a, false), matmul_class(row.a, true)};
  for (int64_t n : {100, 2000, 100000}) classes.push_back(argmax_class(row.a, n, n == 2000));
  return classes;
}

// Whether the plan was rejected because of the target or its caches.
bool refuses(const RankedPlan& r) {
  for (const char* reason : {"no bitcode of ", "tile needs ", "packed panels ", "a split needs "})
    if (r.rejection.rfind(reason, 0) == 0) return true;
  return false;
}

// The plans of one row for a class.
std::vector<RankedPlan> plans_of(const UkernelRow& row, const ProblemClass& c, const DeviceFacts& f,
                                 int32_t workers) {
  std::vector<RankedPlan> all, of_row;
  enumerate_ukernels({c, f, workers, 0}, &all);
  for (RankedPlan& r : all)
    if (r.plan.config.ukernel.function == row.function) of_row.push_back(std::move(r));
  return of_row;
}

CompileConfig bf16_config(const Target& target) {
  const DeviceFacts f = device_of(target);
  std::vector<RankedPlan> all;
  const ProblemClass c = argmax_class(DType::kBF16, 100, true);
  enumerate_ukernels({c, f, 1, 0}, &all);
  const auto row = std::find_if(all.begin(), all.end(), [](const RankedPlan& r) {
    return r.plan.config.ukernel.function == "lathe_argmax_row_bf16";
  });
  if (row == all.end() || !row->rejection.empty()) throw std::logic_error("no argmax by its ukernel");
  return row->plan.config;
}

TEST(Ukernel, PayloadKernelAndRecipeFollowThePlanForEveryRow) {
  std::set<std::string> bitcodes;
  std::set<std::tuple<std::string, std::string, bool, int32_t>> compiled;
  for (const char* name : kTargets) {
    const Target target = *parse_target(name);
    for (const UkernelRow& row : ukernel_rows()) {
      if (row.backend != target.backend) continue;
      if (row.op == Op::kMatmul && row.backend != Backend::kCpu) continue;  // tests/gpu/ukernel_test.cc
      for (const ProblemClass& c : classes_of(row)) {
        for (const RankedPlan& r : plans_of(row, c, device_of(target), 4)) {
          if (!r.rejection.empty()) {
            EXPECT_TRUE(refuses(r)) << name << " " << row.function << ": " << r.rejection;
            continue;
          }
          const CompileConfig& config = r.plan.config;
          // Compile one plan per row and layout; other task tiles (GPUs: row lengths) give nothing new.
          if ((row.op == Op::kMatmul || row.backend != Backend::kCpu) &&
              !compiled.insert({name, row.function, c.trans_b, config.split()}).second)
            continue;
          EXPECT_EQ(config.ukernel.bitcode, bitcode_for(row.bitcode, target));
          EXPECT_EQ(config.ukernel.attributes, row.attributes);
          bitcodes.insert(config.ukernel.bitcode);
          const CompilerAnswer answer = compile(c, config, target, /*dump=*/true);
          ASSERT_EQ(answer.code, 0) << name << " " << row.function << ": " << answer.error;
          const std::string attribute = "#lathe.ukernel<function = \"" + std::string(row.function) +
                                        "\", bitcode = \"" + config.ukernel.bitcode + "\", attributes = \"" +
                                        row.attributes + "\">";
          EXPECT_THAT(dump_of(answer, "payload.mlir"), HasSubstr(attribute));
          EXPECT_THAT(dump_of(answer, "kernel.mlir"), HasSubstr(attribute));
          EXPECT_THAT(dump_of(answer, "kernel.mlir"), HasSubstr("llvm.call @" + std::string(row.function)));
          // The ukernel is inlined, so the kernel makes no call.
          EXPECT_THAT(dump_of(answer, "llvm.ll"), Not(HasSubstr("@" + std::string(row.function)))) << name;
          EXPECT_THAT(dump_of(answer, "recipe.json"), HasSubstr("_ukernel_" + std::string(row.function)));
        }
      }
    }
  }
  EXPECT_EQ(bitcodes, std::set<std::string>(
                          {"argmax/groups@gfx11", "argmax/groups@gfx9", "argmax/groups@sm_75",
                           "argmax/groups@sm_80", "argmax/rows@aarch64", "argmax/rows@x86-64-v3",
                           "argmax/rows@x86-64-v4", "matmul/panels@x86-64-v3", "matmul/panels@x86-64-v4",
                           "matmul/panels_bf16@x86-64-v4-bf16", "matmul/panels_i8@x86-64-v4-vnni"}));
}

// The oracle gives the reason and chooses a generated kernel.
TEST(Ukernel, IsRejectedWithoutBitcodeForTheTarget) {
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.backend == Backend::kCuda) continue;  // CUDA has bitcode for all targets
    const char* arch = row.backend == Backend::kCpu ? "x86-64" : "gfx1030";
    const DeviceFacts f = device_of({row.backend, arch, ""});
    const ProblemClass c = classes_of(row).front();
    const std::vector<RankedPlan> plans = plans_of(row, c, f, 1);
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_THAT(plans[0].rejection, HasSubstr("no bitcode of " + std::string(row.bitcode) + " for " + arch));
    const auto answer = rank_plans(c, f, {1, 0});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_NE(name_of(answer->ranked[0].plan.config.kernel()), "ukernel");
    EXPECT_TRUE(std::any_of(answer->ranked.begin(), answer->ranked.end(), [&](const RankedPlan& ranked) {
      return ranked.rejection == plans[0].rejection;
    }));
  }
}

// A ukernel contains the whole loop over K. So its plan has panels as deep as K, unlike those of generated kernels,
// and the kernel contains one call instead of loops over blocks of K.
TEST(Ukernel, GetsPanelsAsDeepAsK) {
  const Target target = *parse_target("x86-64-avx512bf16");
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.op != Op::kMatmul || row.backend != Backend::kCpu) continue;
    const ProblemClass c = matmul_class(row.a, true);
    const auto ranked = rank_plans(c, device_of(target), {1, 0});
    ASSERT_TRUE(ranked.ok()) << ranked.status();
    const RankedPlan *ukernel = nullptr, *generated = nullptr;
    for (const RankedPlan& r : ranked->ranked) {
      if (!r.rejection.empty()) continue;
      const CompileConfig& config = r.plan.config;
      if (!ukernel && config.ukernel.function == row.function) ukernel = &r;
      if (!generated && config.kernel() == KernelKind::kPanel && field(config, "tile_k") < kK) generated = &r;
    }
    ASSERT_TRUE(ukernel && generated) << row.function;
    const CompileConfig& config = ukernel->plan.config;
    EXPECT_GE(field(config, "tile_k"), kK);
    EXPECT_EQ(ukernel->plan.launch.splits, 1);
    const CompilerAnswer answer = compile(c, config, target, /*dump=*/true);
    EXPECT_THAT(dump_of(answer, "payload.mlir"),
                HasSubstr("tile_k = " + std::to_string(field(config, "tile_k"))));
    // The call gets K in words, the last of which may be partial. No other code multiplies.
    const int64_t per_word = row.a == DType::kI8 ? 4 : row.a == DType::kBF16 ? 2 : 1;
    const std::string& body = dump_of(answer, "kernel.mlir");
    EXPECT_THAT(body, HasSubstr("arith.constant " + std::to_string(ceil_div(kK, per_word)) + " : index"));
    EXPECT_THAT(body, Not(HasSubstr("vector.fma")));
    EXPECT_THAT(body, Not(HasSubstr("dpbf16ps")));
    // Shallower panels would give wrong sums, so lowering refuses such a config.
    CompileConfig shallow = config;
    set_field(&shallow, "tile_k", field(generated->plan.config, "tile_k"));
    EXPECT_THAT(compile(c, shallow, target).error, HasSubstr(": a ukernel needs all of K in one block"));
  }
}

// No GPU ukernel was measured, so a generated kernel with the same tiling must be ranked before it. Checks rows per
// wave and rows per workgroup.
TEST(Ukernel, RanksBehindTheGeneratedKernelWithTheSameTilingOnGpus) {
  int compared = 0;
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.op != Op::kArgmax || row.backend == Backend::kCpu) continue;
    const DeviceFacts f = device_of(*parse_target(row.backend == Backend::kCuda ? "sm_90a" : "gfx942"));
    for (const ProblemClass& c : classes_of(row)) {
      const auto ranked = rank_plans(c, f, {1, 0});
      ASSERT_TRUE(ranked.ok()) << ranked.status();
      EXPECT_NE(name_of(ranked->ranked[0].plan.config.kernel()), "ukernel");
      for (const RankedPlan& r : ranked->ranked) {
        if (!r.rejection.empty() || r.plan.config.ukernel.function != row.function) continue;
        GpuRowsConfig generated = r.plan.config.as<GpuRowsConfig>();
        generated.kernel = KernelKind::kRows;
        const auto same =
            std::find_if(ranked->ranked.begin(), ranked->ranked.end(), [&](const RankedPlan& g) {
              return g.plan.config == CompileConfig(generated) &&
                     g.plan.launch.splits == r.plan.launch.splits;
            });
        ASSERT_NE(same, ranked->ranked.end()) << row.function;
        EXPECT_LT(&*same, &r) << "ranked behind";
        EXPECT_LE(same->plan.predicted_seconds, r.plan.predicted_seconds);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 12);
}

// A row at an odd address has no element at a multiple of 16 bytes.
TEST(Ukernel, RefusesByteAlignedRowsOnGpus) {
  for (const UkernelRow& row : ukernel_rows()) {
    if (row.op != Op::kArgmax || row.backend == Backend::kCpu) continue;
    const DeviceFacts f = device_of(*parse_target(row.backend == Backend::kCuda ? "sm_80" : "gfx1100"));
    ProblemClass c = classes_of(row).front();
    c.alignment = Alignment::kByte;
    for (const RankedPlan& r : plans_of(row, c, f, 1))
      EXPECT_THAT(r.rejection, HasSubstr("needs rows aligned to at least one element"));
  }
}

TEST(Ukernel, ObjectChangesWithEveryFieldOfTheAttribute) {
  const Target target = *parse_target("x86-64-avx512");
  const ProblemClass c = argmax_class(DType::kBF16, 100, true);
  const CompileConfig config = bf16_config(target);
  std::set<std::string> objects = {code_of(compile(c, config, target))};
  EXPECT_EQ(objects.count(code_of(compile(c, config, target))), 1u);
  CompileConfig changed = config;
  changed.ukernel.function = "lathe_argmax_row_f16";
  EXPECT_TRUE(objects.insert(code_of(compile(c, changed, target))).second) << "function";
  changed = config;
  changed.ukernel.bitcode = "argmax/rows@x86-64-v3";
  EXPECT_TRUE(objects.insert(code_of(compile(c, changed, target))).second) << "bitcode";
  changed = config;
  changed.ukernel.attributes = "noinline nounwind";
  const CompilerAnswer called = compile(c, changed, target, /*dump=*/true);
  EXPECT_TRUE(objects.insert(code_of(called)).second) << "attributes";
  EXPECT_THAT(dump_of(called, "llvm.ll"), HasSubstr("define internal i32 @lathe_argmax_row_bf16("));
  // Only the called function of the bitcode is linked.
  EXPECT_THAT(dump_of(called, "llvm.ll"), Not(HasSubstr("lathe_argmax_row_f32")));
}

TEST(Ukernel, NamesTheUkernelThatCannotBeLinked) {
  const Target target = *parse_target("x86-64-avx512");
  const ProblemClass c = argmax_class(DType::kBF16, 100, true);
  const auto error_with = [&](const std::function<void(UkernelRef*)>& change) {
    CompileConfig config = bf16_config(target);
    change(&config.ukernel);
    const CompilerAnswer answer = compile(c, config, target);
    EXPECT_NE(answer.code, 0);
    EXPECT_THAT(answer.error, HasSubstr("ukernel '" + config.ukernel.function + "' of bitcode '" +
                                        config.ukernel.bitcode + "'"));
    return answer.error;
  };
  EXPECT_THAT(error_with([](UkernelRef* u) { u->bitcode = "argmax/rows@z80"; }),
              HasSubstr("no such bitcode"));
  EXPECT_THAT(error_with([](UkernelRef* u) { u->function = "lathe_argmax_row_f64"; }),
              HasSubstr("does not define the function"));
  EXPECT_THAT(error_with([](UkernelRef* u) { u->attributes = "fast"; }),
              HasSubstr("no function attribute 'fast'"));
  EXPECT_THAT(error_with([](UkernelRef* u) { u->bitcode = "argmax/rows@aarch64"; }),
              HasSubstr("compiled for aarch64-unknown-linux-gnu, not for x86_64-unknown-linux-gnu"));
  EXPECT_THAT(error_with([](UkernelRef* u) {
                *u = {"lathe_argmax_wave_bf16", "argmax/groups@gfx9", ""};
              }),
              HasSubstr("compiled for amdgcn-amd-amdhsa, not for x86_64-unknown-linux-gnu"));
}

// A function for a wave cannot be used with the tiling for a workgroup.
TEST(Ukernel, RefusesAFunctionForAnotherTilingOnGpus) {
  for (const char* name : {"sm_90a", "gfx942"}) {
    const Target target = *parse_target(name);
    const ProblemClass c = argmax_class(DType::kBF16, 100, true);
    std::vector<RankedPlan> all;
    const DeviceFacts f = device_of(target);
    enumerate_ukernels({c, f, 1, 0}, &all);
    ASSERT_EQ(all.size(), 2u);
    CompileConfig config = all[0].plan.config;
    EXPECT_GT(config.tile_m(), 1);
    config.ukernel.function = all[1].plan.config.ukernel.function;
    EXPECT_THAT(compile(c, config, target).error,
                HasSubstr("does not have the type with which the kernel calls it"));
    config = all[0].plan.config;
    set_field(&config, "tile_m", 2 * config.tile_m());
    EXPECT_THAT(compile(c, config, target).error, HasSubstr("the ukernel needs one wave per row"));
  }
}

}  // namespace
}  // namespace lathe::testing
