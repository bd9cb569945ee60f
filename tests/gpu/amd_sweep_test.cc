// Compiles the plans that the oracle can choose on the shipped AMD devices and reads their code objects back: no
// scratch, no spills, the instructions of the kernel family, and at least the workgroups per compute unit that the
// price assumes. Prints the resources of each family, the residency, and the inner loops on MI300X with the fraction
// of a peak that they allow by the model of amd_model.h. It takes a sample of plans; LATHE_TEST_EVERY_PLAN=1 takes
// every form of kernel, and LATHE_TEST_PLANS=text those whose description contains the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "amd_model.h"
#include "compile_client/compiler_library.h"
#include "core/artifact.h"
#include "core/key.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul/mma/shape.h"
#include "oracle/oracle.h"
#include "sweep.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// From LLVM's AMDGPU usage guide, "AMDGPU ELF Header e_flags", for code object version 4 and later.
struct Processor {
  const char* arch;
  uint32_t flag;
};
constexpr Processor kProcessors[] = {
    {"gfx90a", 0x3f}, {"gfx942", 0x4c}, {"gfx950", 0x4f}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}};
constexpr uint32_t kXnack[] = {0x100, 0x200, 0x300}, kSramecc[] = {0x400, 0x800, 0xc00};  // any, off, on
constexpr int kMachine = 224, kCodeObject5 = 3;

// The flag bits of a mode. A target without the mode has none of them.
uint32_t mode_flag(const Target& t, const char* mode, const uint32_t (&flags)[3], bool has_mode) {
  if (absl::StrContains(t.features, absl::StrCat("+", mode))) return flags[2];
  if (absl::StrContains(t.features, absl::StrCat("-", mode))) return flags[1];
  return has_mode ? flags[0] : 0;
}

uint32_t flags_of(const Target& t) {
  const bool instinct = absl::StartsWith(t.arch, "gfx9");
  uint32_t flags = mode_flag(t, "xnack", kXnack, instinct) | mode_flag(t, "sramecc", kSramecc, instinct);
  for (const Processor& p : kProcessors)
    if (t.arch == p.arch) return flags | p.flag;
  ADD_FAILURE() << "the test has no ELF flag for " << t.arch;
  return 0;
}

std::string name_of_target(const Target& t) {
  std::string name = "amdgcn-amd-amdhsa--" + t.arch;
  for (const char* mode : {"sramecc", "xnack"}) {
    if (absl::StrContains(t.features, absl::StrCat("+", mode))) absl::StrAppend(&name, ":", mode, "+");
    if (absl::StrContains(t.features, absl::StrCat("-", mode))) absl::StrAppend(&name, ":", mode, "-");
  }
  return name;
}

std::string wrong_target(const HsacoTarget& code, const Target& t) {
  if (code.machine != kMachine || code.abi_version != kCodeObject5)
    return absl::StrCat("machine ", code.machine, " ABI ", code.abi_version,
                        ": not a code object of version 5");
  if (code.flags != flags_of(t)) return absl::StrFormat("flags %x, not %x", code.flags, flags_of(t));
  return code.name == name_of_target(t) ? "" : absl::StrCat(code.name, " is not ", name_of_target(t));
}

// One kernel of a plan, as read from the code object.
struct Compiled {
  KernelFacts notes;
  int64_t threads = 0;
  AmdCode code;
  LoopCounts loop;
  double resident = 0;
};

bool multiplies_matrices(const SweepPlan& plan) {
  return absl::StartsWith(name_of(plan.config.kernel()), "mma") ||
         (plan.config.kernel() == KernelKind::kUkernel && plan.problem.op == Op::kMatmul);
}

Bound bound_of(const SweepPlan& plan) {
  if (plan.config.kernel() == KernelKind::kSimt) return Bound::kFma;
  return multiplies_matrices(plan) ? Bound::kMatrix : Bound::kMemory;
}

// The kind of work of the plan's first kernel. The loops of its other kernels move data.
IsWork work_of(const SweepPlan& plan) {
  switch (bound_of(plan)) {
    case Bound::kMatrix: return is_matrix;
    case Bound::kFma: return is_multiply_add;
    case Bound::kMemory: return is_load;
  }
  return is_load;
}

// Null if the plan's loop has no matrix instructions.
const MatrixInstruction* instruction_of(const SweepPlan& plan) {
  if (!multiplies_matrices(plan)) return nullptr;
  const int64_t edge = plan.config.kernel() == KernelKind::kMma32 ? 32 : 16;
  return find_mma_instruction(plan.facts->target.arch, plan.problem.a, plan.problem.b, edge);
}

// What the inner loop of the first kernel lacks; "" if nothing. A new family needs a row here.
std::string missing_instructions(const SweepPlan& plan, const Compiled& kernel) {
  std::vector<std::string> missing;
  const auto need = [&](bool there, const char* what) {
    if (!there) missing.emplace_back(what);
  };
  const auto has = [&](const char* a, const char* b) {
    return std::any_of(kernel.code.begin(), kernel.code.end(),
                       [&](const AmdInstruction& i) { return i.is(a) || i.is(b); });
  };
  const bool aligned = plan.problem.alignment == Alignment::k16;
  const LoopCounts& loop = kernel.loop;
  const absl::string_view family = name_of(plan.config.kernel());
  if (family == "simt") {
    need(has("ds_read", "ds_load"), "reads of LDS");
    need(has("ds_write", "ds_store"), "writes of LDS");
    need(has("s_barrier", "s_barrier"), "a barrier");
    need(loop.multiply_adds > 0, "multiply-adds in the loop");
  } else if (multiplies_matrices(plan)) {
    const MatrixInstruction& t = *instruction_of(plan);
    const std::string type(name_of(t.multiplies_codes() ? plan.problem.a : multiplied_dtype(plan.problem.a)));
    const AmdCode body = inner_loop(kernel.code, is_matrix);
    need(loop.matrix > 0, "matrix instructions in the loop");
    need(std::all_of(body.begin(), body.end(),
                     [&](const AmdInstruction& i) { return !is_matrix(i) || is_matrix_of(i, type); }),
         "no matrix instructions of another type");
    need(loop.wide_shared_reads > 0, "16-byte reads of LDS in the loop");
    need(loop.wide_loads > 0 || !aligned, "16-byte loads in the loop");
  } else if (family == "skinny") {
    need(loop.wide_loads > 0, "16-byte loads in the loop");
    need(loop.multiply_adds + loop.matrix > 0, "products in the loop");
  } else if (family == "ukernel") {
    need(loop.wide_loads > 0, "16-byte loads in the loop");
    need(std::any_of(kernel.code.begin(), kernel.code.end(),
                     [](const AmdInstruction& i) { return absl::StrContains(i.text, "row_mirror"); }),
         "lanes that read each other's registers");
  } else if (family == "rows") {
    need(loop.wide_loads > 0 || plan.problem.alignment == Alignment::kByte, "16-byte loads in the loop");
  } else {
    return "a kernel family that this test has no row for";
  }
  need(plan.config.split() != kMergeLast || has("global_atomic_", "flat_atomic_"), "an atomic ticket");
  return absl::StrJoin(missing, ", ");
}

std::string wrong_notes(const SweepPlan& plan, const Step& step, const KernelFacts& k) {
  std::vector<std::string> wrong;
  const auto check = [&](const char* what, int64_t value, int64_t limit) {
    if (value > limit) wrong.push_back(absl::StrCat(step.symbol, ": ", what, " ", value, " > ", limit));
  };
  const DeviceFacts& facts = *plan.facts;
  check("scratch bytes", k.scratch_bytes, 0);
  check("spilled registers", k.spills, 0);
  check("LDS bytes", k.shared_bytes + evaluate(step.dynamic_shared_memory, {}),
        static_cast<int64_t>(facts.fact_or("shared_memory_bytes", 0)));
  check("threads", k.workgroup[0], static_cast<int64_t>(facts.fact_or("max_workgroup_size", 0)));
  if (k.denormals != 15) wrong.push_back(absl::StrCat("denormal mode is ", k.denormals));
  if (k.wave != wave_size(facts.target)) wrong.push_back(absl::StrCat("waves of ", k.wave));
  for (int i = 0; i < 3; ++i)
    if (k.workgroup[i] != step.block[i])
      wrong.push_back(absl::StrCat(step.symbol, " requires a workgroup of ", k.workgroup[i],
                                   " but is launched with ", step.block[i]));
  return absl::StrJoin(wrong, "; ");
}

// The largest resources of each family on each target.
class Resources {
 public:
  void add(const SweepPlan& plan, const std::vector<Compiled>& kernels) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Row& row = rows_[{plan.family(), plan.facts->target.arch}];
    ++row.plans;
    for (const Compiled& k : kernels) {
      const int64_t values[] = {k.notes.registers,        k.notes.accumulation_registers,
                                k.notes.scalar_registers, k.notes.shared_bytes,
                                k.notes.spills,           k.notes.scratch_bytes};
      for (size_t i = 0; i < std::size(values); ++i) row.most[i] = std::max(row.most[i], values[i]);
    }
  }
  void print() const {
    std::cout << absl::StrFormat("%-22s %-8s %6s %6s %6s %6s %8s %7s %8s\n", "family", "target", "plans",
                                 "vgpr", "agpr", "sgpr", "LDS", "spills", "scratch");
    for (const auto& [name, r] : rows_)
      std::cout << absl::StrFormat("%-22s %-8s %6d %6d %6d %6d %8d %7d %8d\n", name.first, name.second,
                                   r.plans, r.most[0], r.most[1], r.most[2], r.most[3], r.most[4], r.most[5]);
  }

 private:
  struct Row {
    int64_t plans = 0, most[6] = {};
  };
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Row> rows_;
};

// Compares the workgroups per compute unit that the price assumes with those that the code object allows.
class Residency {
 public:
  void add(const SweepPlan& plan, double actual) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++rows_[{plan.family(), plan.facts->target.arch, plan.resident, actual}];
  }
  void print() const {
    std::cout << absl::StrFormat("%-22s %-8s %10s %10s %6s\n", "family", "target", "predicted", "resident",
                                 "plans");
    for (const auto& [row, plans] : rows_)
      std::cout << absl::StrFormat("%-22s %-8s %10d %10g %6d\n", std::get<0>(row), std::get<1>(row),
                                   std::get<2>(row), std::get<3>(row), plans);
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, int32_t, double>, int> rows_;
};

std::string shape_of(const SweepPlan& plan) {
  const ProblemClass& c = plan.problem;
  if (c.op == Op::kArgmax) return absl::StrCat("rows of ", c.row_lo, " up");
  return absl::StrCat(representative_m(c), "x", c.n, "x", c.k);
}

std::string form_of(const SweepPlan& plan) {
  const ProblemClass& c = plan.problem;
  const CompileConfig& f = plan.config;
  const char* alignments[] = {"byte", "element", "16"};
  std::string form = absl::StrCat(plan.family(), " ", std::string(name_of(c.a)), " ");
  if (c.op != Op::kArgmax) absl::StrAppend(&form, c.trans_a ? "t" : "n", c.trans_b ? "t" : "n", " ");
  absl::StrAppend(
      &form, "aligned ", alignments[c.alignment == Alignment::k16 ? 2 : c.alignment == Alignment::kElement],
      " ", f.tile_m(), "x", f.tile_n(), "x", depth_of(f), " of ", field_or(f, "register_m", f.tile_m()), "x",
      field_or(f, "register_n", field_or(f, "columns", 0)), " by ", f.threads());
  if (f.split() != kNoSplit) absl::StrAppend(&form, " split");
  return form;
}

// The priced time as a fraction of the roofline: the roofline's time divided by the priced time. 0 for argmax, whose
// class does not know the sizes.
double priced_fraction(const SweepPlan& plan, const MatrixInstruction* instruction) {
  if (plan.problem.op == Op::kArgmax) return 0;
  const GpuRates rates(*plan.facts);
  ProblemClass c = plan.problem;
  if (c.op == Op::kMatmulArgmax) c.d = DType::kI8;  // almost nothing is stored
  const MatmulSizes s(c);
  double flops = rates.flops;
  if (instruction != nullptr) {
    const double lane_elements =
        instruction->applies_scales() ? double(MatrixInstruction::kCodes)
        : instruction->multiplies_codes()
            ? double(instruction->lane_bytes)
            : double(instruction->lane_bytes) / double(size_of(multiplied_dtype(c.a)));
    const double k = lane_elements * double(instruction->groups);
    const double simds = instruction->wave() == 64 ? 4 : 2;
    flops = 2.0 * double(instruction->rows * instruction->columns) * k / double(instruction->cycles) * simds *
            rates.units * rates.clock_hz;
  }
  const double m = double(s.m), n = double(s.n), k = double(s.k);
  const double bytes = m * k * s.input_bytes + n * k * s.b_bytes +
                       m * n * (plan.problem.op == Op::kMatmulArgmax ? 0 : s.output_bytes);
  return std::max(2 * m * n * k / flops, bytes / rates.memory_bytes_per_second) / plan.predicted_seconds;
}

// One line of the table of predictions. It is an error if the model gives no fraction.
std::string prediction(const SweepPlan& plan, const Compiled& kernel, std::string* wrong) {
  const Bound bound = bound_of(plan);
  const MatrixInstruction* instruction = instruction_of(plan);
  LoopQuestion q{kernel.loop, kernel.threads, kernel.resident,
                 instruction != nullptr ? double(instruction->cycles) : 0, bound};
  const double fraction = predicted_fraction(q, *plan.facts), priced = priced_fraction(plan, instruction);
  if (!(fraction > 0 && fraction <= 1)) absl::StrAppend(wrong, "the model gives ", fraction);
  if (priced > 1) absl::StrAppend(wrong, "priced at ", priced, " of the roofline");
  const LoopCounts& l = kernel.loop;
  return absl::StrFormat(
      "%-64s %-20s %4d %4d %5d %3g | %4d: %3d matrix %3d vector %3d LDS %3d load (%d in flight) %3d wait | "
      "%.2f of %s | %s\n",
      form_of(plan), shape_of(plan), kernel.notes.registers, kernel.notes.scalar_registers,
      kernel.notes.shared_bytes, kernel.resident, l.all, l.matrix, l.vector, l.shared, l.loads, l.in_flight,
      l.waits, fraction, name_of(bound), priced > 0 ? absl::StrFormat("%.2f", priced) : "-");
}

std::vector<SweepPlan> plans_to_compile() {
  std::vector<SweepPlan> plans = chosen_plans(Backend::kRocm, every_plan());
  if (every_plan()) {
    const std::vector<SweepPlan> legal = legal_plans(Backend::kRocm);
    plans.insert(plans.end(), legal.begin(), legal.end());
    plans = sample(plans, 1, [](const SweepPlan& p) { return p.form(); });
  } else {
    plans = sample(plans, 1, [](const SweepPlan& p) {
      return absl::StrCat(p.facts->target.arch, p.family(), p.config.split(), p.problem.a, p.problem.b,
                          p.problem.alignment == Alignment::k16,
                          field_or(p.config, "register_m", p.config.tile_m()) *
                                  field_or(p.config, "register_n", field_or(p.config, "columns", 0)) >
                              16);
    });
    const std::vector<SweepPlan> ukernels = ukernel_plans(Backend::kRocm);
    EXPECT_FALSE(ukernels.empty());
    plans.insert(plans.end(), ukernels.begin(), ukernels.end());
  }
  return wanted(std::move(plans));
}

// Reads the kernels of the plan's steps from the code object, the product's first, and appends what is wrong.
std::vector<Compiled> read_back(const SweepPlan& plan, const Artifact& artifact,
                                std::vector<std::string>* wrong) {
  std::vector<Compiled> kernels;
  const KernelTable notes = read_hsaco(artifact.code);
  std::map<std::string, AmdCode> listing = disassemble(artifact.code);
  std::vector<Step> steps = artifact.recipe.steps;
  if (is_grouped(plan.problem.rows))
    std::rotate(steps.begin(), steps.begin() + 1, steps.end());  // the schedule
  for (const Step& step : steps) {
    const auto found = notes.find(step.symbol);
    if (found == notes.end() || listing[step.symbol].empty()) {
      wrong->push_back(step.symbol + " is not in the code object");
      continue;
    }
    Compiled k{
        found->second, int64_t{step.block[0]} * step.block[1] * step.block[2], listing[step.symbol], {}, 0};
    k.loop = count(inner_loop(k.code, kernels.empty() ? work_of(plan) : is_load));
    k.resident = resident_workgroups(k.notes, k.threads, plan.facts->target);
    wrong->push_back(wrong_notes(plan, step, k.notes));
    kernels.push_back(std::move(k));
  }
  return kernels;
}

TEST(AmdSweep, CodeObjectsMatchTheirPlans) {
  const std::vector<SweepPlan> plans = plans_to_compile();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_FALSE(plans.empty());
  std::cout << plans.size() << " kernels" << std::endl;
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  Failures failures;
  Resources resources;
  Residency residency;
  std::mutex mutex;
  std::map<std::string, std::string> predictions;  // by form of the plan
  for_each_plan(plans, [&](const SweepPlan& plan) {
    const auto artifact = compiler.compile({plan.problem, plan.config, plan.facts->target, nullptr});
    if (!artifact.ok()) return failures.add(plan, std::string(artifact.status().message()));
    std::vector<std::string> wrong = {wrong_target(read_hsaco_target(artifact->code), plan.facts->target)};
    const std::vector<Compiled> kernels = read_back(plan, *artifact, &wrong);
    if (!kernels.empty()) {
      const Compiled& first = kernels[0];
      resources.add(plan, kernels);
      residency.add(plan, first.resident);
      if (const std::string missing = missing_instructions(plan, first); !missing.empty())
        wrong.push_back("missing: " + missing);
      if (plan.resident < 1 || first.resident < plan.resident)
        wrong.push_back(absl::StrCat(first.resident, " workgroups per compute unit, but the price assumes ",
                                     plan.resident, ": ", first.notes.registers, " registers, ",
                                     first.notes.shared_bytes, " bytes of LDS"));
      std::string defect;
      const std::string line = prediction(plan, first, &defect);
      wrong.push_back(defect);
      if (plan.facts->target.arch == "gfx942") {
        const std::lock_guard<std::mutex> lock(mutex);
        predictions.emplace(form_of(plan), line);
      }
    }
    wrong.erase(std::remove(wrong.begin(), wrong.end(), ""), wrong.end());
    if (!wrong.empty()) failures.add(plan, absl::StrJoin(wrong, "; "));
  });
  resources.print();
  residency.print();
  std::cout
      << "gfx942: plan, priced for, vgpr sgpr LDS workgroups | its inner loop | fraction of a peak that the "
         "loop allows by the model | fraction of the roofline by the oracle's price\n";
  for (const auto& [form, line] : predictions) std::cout << line;
  failures.expect_none();
}

// The flags of a code object say where it runs. The key must differ for each processor, xnack and sramecc mode.
TEST(AmdSweep, FlagsAndKeysDependOnTargetModes) {
  CompilerLibrary compiler(LATHE_COMPILER_PATH);
  const DeviceFacts& facts = shipped_facts("gfx942");
  ProblemClass c = matmul_class(DType::kF16, DType::kF16, 64, 64, m_bucket(64));
  const auto ranked = rank_plans(c, facts, {1, 0});
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  const CompileConfig& config = ranked->ranked[0].plan.config;
  std::vector<Target> targets = {{Backend::kRocm, "gfx942", ""}};  // any mode
  for (const char* name : {"gfx942", "gfx942:sramecc-", "gfx942:xnack+", "gfx942:sramecc-:xnack+"})
    targets.push_back(parse_target(name).value());
  std::set<std::string> keys;
  std::set<uint32_t> flags;
  for (const Target& target : targets) {
    SCOPED_TRACE(target.features);
    const auto artifact = compiler.compile({c, config, target, nullptr});
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    const HsacoTarget code = read_hsaco_target(artifact->code);
    EXPECT_EQ(wrong_target(code, target), "");
    flags.insert(code.flags);
    keys.insert(key_of(c, config, target, codegen_id()).text);
  }
  EXPECT_EQ(keys.size(), targets.size());
  EXPECT_EQ(flags.size(), targets.size());
}

}  // namespace
}  // namespace lathe
