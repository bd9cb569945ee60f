// Compiles the plans that the oracle can choose on the shipped CUDA devices. The PTX must contain the instructions of
// the kernel family, and the kernel must assemble without spills or messages, within the limits of the device. It
// takes a sample; LATHE_TEST_EVERY_PLAN=1 takes every form of kernel (SweepPlan::form), which takes about 40 minutes.
#include "sweep.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "assembler.h"
#include "compile_client/compiler_library.h"
#include "core/artifact.h"
#include "core/assembler_log.h"
#include "options/options.h"
#include "tests/config_field.h"

namespace lathe {
namespace {

// The instructions that the PTX of each kernel family must contain.
struct FamilyRow {
  const char* family;  // as the plan names it
  std::vector<const char*> instructions;
};
const FamilyRow kFamilies[] = {
    {"simt", {"ld.shared", "st.shared", "bar.sync"}},
    {"mma", {"mma.sync"}},
    {"wgmma", {"wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait"}},
    {"tcgen05", {"tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "cp.async.bulk.tensor", "mbarrier.try_wait"}},
    {"skinny", {"ld.global.L1::no_allocate.L2::cache_hint", "createpolicy"}},
    {"rows", {"ld.global", "st.global"}},
    {"ukernel", {"st.global"}},
};
// The instructions of each way to merge a split.
struct SplitRow {
  int32_t split;
  std::vector<const char*> instructions;
};
const SplitRow kSplits[] = {
    {kMergeLast, {"atom.", "fence.acq_rel.gpu"}},
    {kMergeCluster,
     {"barrier.cluster.arrive", "barrier.cluster.wait", "mapa.shared::cluster", "ld.shared::cluster"}},
};

// What is missing from the PTX of a kernel; "" if nothing.
std::string missing_instructions(const SweepPlan& plan, const std::string& ptx) {
  std::vector<std::string> missing;
  const auto need = [&](const std::vector<const char*>& instructions) {
    for (const char* i : instructions)
      if (ptx.find(i) == std::string::npos) missing.emplace_back(i);
  };
  // f32 uses FMAs unless the problem allows rounding. All other types use matrix instructions.
  if (plan.config.kernel() == KernelKind::kSkinny)
    need({field(plan.config, "matrix") ? "mma.sync" : "fma.rn.f32"});
  bool known = false;
  for (const FamilyRow& row : kFamilies) {
    if (name_of(plan.config.kernel()) != row.family) continue;
    known = true;
    // Blocks are loaded in small words by plain loads.
    if (plan.config.kernel() != KernelKind::kSkinny || !is_blocks(plan.problem.b)) need(row.instructions);
  }
  if (!known) return "a kernel family that this test has no row for";
  for (const SplitRow& row : kSplits)
    if (plan.config.split() == row.split) need(row.instructions);
  const ProblemClass& c = plan.problem;
  const CompileConfig& config = plan.config;
  const bool aligned = c.alignment == Alignment::k16;
  if (config.kernel() == KernelKind::kSimt) need({c.a == DType::kI8 ? "mad.lo.s32" : "fma.rn.f32"});
  if (config.kernel() == KernelKind::kSkinny && aligned) need({"cp.async"});
  if (config.kernel() == KernelKind::kUkernel && c.op == Op::kMatmul)
    need({"mma.sync", "ldmatrix", "cp.async"});
  if (config.kernel() == KernelKind::kUkernel && c.op == Op::kArgmax) {
    const bool redux = sm_version(plan.facts->target) >= 80;
    need({"ld.global.v4.b32", redux ? "redux.sync" : "shfl.sync.bfly", redux ? "max.NaN" : "setp.nan"});
  }
  if (config.kernel() == KernelKind::kMma) {
    // Aligned 16 bytes are copied with cp.async, except bytes that must be transposed. ldmatrix reads four matrices at
    // once, except f32 that must be transposed.
    const bool along_k = c.trans_a == 0 || c.trans_b != 0;
    if (is_blocks(c.a))
      need({"ld.global"});
    else
      need({aligned && (along_k || size_of(c.a) > 1) ? "cp.async" : "ld.global.u"});
    if (!aligned || along_k || size_of(c.a) < 4) need({"ldmatrix"});
  }
  if (config.kernel() == KernelKind::kWgmma) {
    if (field(config, "cluster_m") * field(config, "cluster_n") > 1) need({".multicast::cluster"});
    // All warpgroups but one multiply. With 128 sums per multiplying thread, the registers at launch do not suffice,
    // except if two warpgroups have all registers of a multiprocessor.
    if (config.threads() > 256 && config.tile_m() * config.tile_n() >= 128 * (config.threads() - 128))
      need({"setmaxnreg"});
  }
  need({".reqntid"});
  return absl::StrJoin(missing, ", ");
}

void append(std::vector<SweepPlan>* plans, const std::vector<SweepPlan>& more) {
  plans->insert(plans->end(), more.begin(), more.end());
}

TEST(Sweep, EveryChosenPlanCompiles) {
  std::vector<SweepPlan> plans = chosen_plans(Backend::kCuda, every_plan());
  ASSERT_FALSE(HasFatalFailure());
  const size_t all = plans.size();
  if (every_plan())
    plans = sample(plans, 1, [](const SweepPlan& p) { return p.form(); });
  else
    plans = sample(plans, 3, [](const SweepPlan& p) {
      return absl::StrCat(p.facts->target.arch, p.family(), p.config.split());
    });
  const std::vector<SweepPlan> ukernels = ukernel_plans(Backend::kCuda);
  EXPECT_FALSE(ukernels.empty());
  append(&plans, ukernels);
  plans = wanted(std::move(plans));
  std::cout << plans.size() << " of " << all + ukernels.size() << " kernels" << std::endl;
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  Failures failures;
  for_each_plan(plans, [&](const SweepPlan& plan) {
    const auto artifact = compiler.compile({plan.problem, plan.config, plan.facts->target, nullptr});
    if (!artifact.ok()) return failures.add(plan, std::string(artifact.status().message()));
    const std::string missing = missing_instructions(plan, artifact->code);
    if (!missing.empty()) failures.add(plan, "missing: " + missing);
  });
  failures.expect_none();
}

// The largest resources that the kernels of a family need on a target.
struct Resources {
  int64_t kernels = 0, registers = 0, shared_bytes = 0, spill_bytes = 0, messages = 0;
};

class Table {
 public:
  void add(const SweepPlan& plan, const Resources& r) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Resources& sum = rows_[{plan.family(), plan.facts->target.arch}];
    sum.kernels += r.kernels;
    sum.registers = std::max(sum.registers, r.registers);
    sum.shared_bytes = std::max(sum.shared_bytes, r.shared_bytes);
    sum.spill_bytes = std::max(sum.spill_bytes, r.spill_bytes);
    sum.messages += r.messages;
  }
  void print() const {
    std::cout << absl::StrFormat("%-22s %-8s %8s %10s %14s %11s %9s\n", "family", "target", "kernels",
                                 "registers", "shared bytes", "spill bytes", "messages");
    for (const auto& [name, r] : rows_)
      std::cout << absl::StrFormat("%-22s %-8s %8d %10d %14d %11d %9d\n", name.first, name.second, r.kernels,
                                   r.registers, r.shared_bytes, r.spill_bytes, r.messages);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Resources> rows_;
};

// Which limits of the device are exceeded, and what its assembler reported; "" if nothing.
std::string beyond_limits(const SweepPlan& plan, const Artifact& artifact, Resources* all) {
  const Json metadata = Json::parse(artifact.metadata);
  if (artifact.format != CodeFormat::kCubin)
    return "not assembled: " + metadata["assembler"].get<std::string>();
  std::vector<std::string> over;
  const auto check = [&](const char* what, double value, double limit) {
    if (value > limit) over.push_back(absl::StrCat(what, " ", value, " > ", limit));
  };
  const DeviceFacts& facts = *plan.facts;
  for (const Step& step : artifact.recipe.steps) {
    const Json& kernel = metadata["kernels"][step.symbol];
    if (!kernel.is_object()) return "the assembler reported nothing about " + step.symbol;
    const int64_t registers = kernel["registers"],
                  threads = int64_t{step.block[0]} * step.block[1] * step.block[2];
    // The formula of the recipe is a constant: a workgroup's shared memory does not depend on the sizes.
    const int64_t shared = kernel["shared_bytes"].get<int64_t>() + evaluate(step.dynamic_shared_memory, {});
    check("spill bytes", kernel["spill_bytes"], 0);
    check("stack bytes", kernel["stack_bytes"], 0);
    check("shared bytes", double(shared), facts.fact_or("shared_memory_bytes", 0));
    check("threads", double(threads), facts.fact_or("max_workgroup_size", 0));
    check("registers per thread", double(registers), 255);
    // Warps get registers in units of 8 per thread (CUDA C++ Programming Guide, occupancy).
    check("registers per workgroup", double((registers + 7) / 8 * 8 * threads),
          facts.fact_or("registers_per_unit", 0));
    ++all->kernels;
    all->registers = std::max(all->registers, registers);
    all->shared_bytes = std::max(all->shared_bytes, shared);
    all->spill_bytes = std::max(all->spill_bytes, kernel["spill_bytes"].get<int64_t>());
  }
  for (const Json& message : metadata["messages"]) {
    const auto text = message.get<std::string>();
    if (text.find("spill") == std::string::npos) over.push_back(text);
  }
  all->messages += static_cast<int64_t>(metadata["messages"].size());
  return absl::StrJoin(over, "; ");
}

std::vector<SweepPlan> plans_to_assemble() {
  const std::vector<SweepPlan> plans = chosen_plans(Backend::kCuda, every_plan());
  // The sample varies what decides on the number of registers: the type for FMAs and comparisons; the tile of a warp,
  // 8-bit floats (ptxas may have to widen them) and the way to load operands for matrix instructions; the epilogue
  // for wgmma, whose accumulators fill most registers.
  if (!every_plan()) {
    std::vector<SweepPlan> some = sample(plans, 1, [](const SweepPlan& p) {
      const CompileConfig& c = p.config;
      const bool plain = p.problem.op == Op::kArgmax || c.kernel() == KernelKind::kSimt;
      const ProblemClass& problem = p.problem;
      std::string form =
          plain ? absl::StrCat(problem.a, problem.b)
                : absl::StrCat(field_or(c, "register_m", 0), "x", field_or(c, "register_n", 0), "x",
                               c.threads(), field_or(c, "matrix", 0), field_or(c, "transposed", 0),
                               problem.alignment == Alignment::k16, is_f8(problem.a));
      if (is_blocks(problem.a)) absl::StrAppend(&form, " ", name_of(problem.a));
      if (is_blocks(problem.b)) absl::StrAppend(&form, " ", name_of(problem.b));
      if (c.kernel() == KernelKind::kWgmma)
        absl::StrAppend(&form, " ", static_cast<int>(problem.activation), problem.c != DType::kNone,
                        problem.residual != DType::kNone);
      if (is_grouped(problem.rows)) absl::StrAppend(&form, " ", lists_rows(problem.rows));
      return absl::StrCat(p.facts->target.arch, p.family(), c.split(), " ", form);
    });
    append(&some, ukernel_plans(Backend::kCuda));
    // They are sorted by target and family; take every second one.
    std::vector<SweepPlan> half;
    for (size_t i = 0; i < some.size(); i += 2) half.push_back(std::move(some[i]));
    return wanted(std::move(half));
  }
  std::vector<SweepPlan> all = sample(plans, 1, [](const SweepPlan& p) { return p.form(); });
  append(&all, legal_plans(Backend::kCuda));
  return wanted(std::move(all));
}

// Finds the assembler as the library does. If the options are invalid, returns nullopt and the test fails.
std::optional<AssemblerSearch> assembler_of_the_machine() {
  const auto options = read_options(nullptr, [](const char* name) { return std::getenv(name); });
  EXPECT_TRUE(options.ok() && options->assembler) << "LATHE_PTXAS is set and empty?";
  return options.ok() ? options->assembler : std::nullopt;
}

// Assembles all plans and checks the limits.
void expect_within_limits(const std::vector<SweepPlan>& plans, const AssemblerSearch& assembler) {
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  std::cout << plans.size() << " kernels" << std::endl;
  Failures failures;
  Table table;
  for_each_plan(plans, [&](const SweepPlan& plan) {
    const auto artifact = compiler.compile({plan.problem, plan.config, plan.facts->target, &assembler});
    if (!artifact.ok()) return failures.add(plan, std::string(artifact.status().message()));
    Resources resources;
    const std::string over = beyond_limits(plan, *artifact, &resources);
    table.add(plan, resources);
    if (!over.empty()) failures.add(plan, over);
  });
  table.print();
  failures.expect_none();
}

TEST(Sweep, ChosenPlansAssembleWithinLimits) {
  if (!no_assembler().empty()) GTEST_SKIP() << no_assembler();
  const std::vector<SweepPlan> plans = plans_to_assemble();
  ASSERT_FALSE(HasFatalFailure());
  const std::optional<AssemblerSearch> assembler = assembler_of_the_machine();
  if (assembler) expect_within_limits(plans, *assembler);
}

// nvJitLink and the driver's linker must assemble wgmma kernels as ptxas does: without serialising the products (C7509)
// and without spills. When compiling for linking, a 64-bit division or a correctly rounded f32 division becomes a call,
// which would cause C7509.
TEST(Sweep, LinkedKernelsAssembleWithinLimits) {
  if (!no_assembler().empty()) GTEST_SKIP() << no_assembler();
  std::vector<SweepPlan> plans = plans_to_assemble();
  ASSERT_FALSE(HasFatalFailure());
  std::optional<AssemblerSearch> assembler = assembler_of_the_machine();
  if (!assembler) return;
  assembler->ptxas = LATHE_PTXAS_FOR_LINKING;
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  const auto is_not_linked = [&](const SweepPlan& plan) {
    if (plan.config.kernel() != KernelKind::kWgmma) return true;
    const auto ptx = compiler.compile({plan.problem, plan.config, plan.facts->target, nullptr});
    return ptx.ok() && is_worse_linked(ptx->code);
  };
  plans.erase(std::remove_if(plans.begin(), plans.end(), is_not_linked), plans.end());
  expect_within_limits(plans, *assembler);
}

}  // namespace
}  // namespace lathe
