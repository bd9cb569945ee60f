#include "oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/products.h"
#include "kernels/candidates.h"
#include "kernels/candidates_model.h"

namespace lathe {
namespace {

absl::Status check_class(const ProblemClass& c, const OraclePolicy& policy, Backend backend) {
  if (policy.workers < 1) return absl::InvalidArgumentError(absl::StrCat("workers ", policy.workers, " < 1"));
  if (policy.split_k < 0) return absl::InvalidArgumentError(absl::StrCat("split_k ", policy.split_k, " < 0"));
  if (has_row_lengths(c.op) && (c.row_lo < 1 || c.row_hi < c.row_lo))
    return absl::InvalidArgumentError(absl::StrCat("row bucket [", c.row_lo, ",", c.row_hi, "] is empty"));
  if (multiplies(c.op) && (c.n < 1 || c.k < 1 || c.m_lo < 1 || c.m_hi < c.m_lo))
    return absl::InvalidArgumentError(
        absl::StrCat("n ", c.n, " k ", c.k, " m [", c.m_lo, ",", c.m_hi, "] is an empty product"));
  if (c.rows != Rows::kPlain && backend != Backend::kCpu && policy.split_k > 1)
    return absl::UnimplementedError(absl::StrCat("split_k ", policy.split_k, ": rows ", name_of(c.rows),
                                                 " are known only on the device, so K is not split"));
  const ClassDefect defect = find_defect(c, devices_of(backend));
  if (defect.ok()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(std::string(name_of(c.op)), ": ", defect.field, ": ", defect.reason));
}

// Lists each reason once, in table order, preceded by the names of its kernels. Reasons that have the same
// words up to the first number count as one.
std::string join_reasons(const std::vector<RankedPlan>& plans) {
  struct Reason {
    absl::string_view words, text;
    std::vector<absl::string_view> kernels;
  };
  std::vector<Reason> reasons;
  for (const RankedPlan& p : plans) {
    const absl::string_view text = p.rejection, kernel = name_of(p.plan.config.kernel());
    const absl::string_view words = text.substr(0, text.find_first_of("0123456789"));
    auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const Reason& r) { return r.words == words; });
    if (same == reasons.end()) same = reasons.insert(same, {words, text, {}});
    if (std::find(same->kernels.begin(), same->kernels.end(), kernel) == same->kernels.end())
      same->kernels.push_back(kernel);
  }
  return absl::StrJoin(reasons, "; ", [](std::string* out, const Reason& r) {
    absl::StrAppend(out, absl::StrJoin(r.kernels, ", "), ": ", r.text);
  });
}

// On a GPU the tiles along N are the grid's y dimension, which is limited to 65535 (CUDA Programming Guide,
// table of technical specifications; HIP allows one more).
void reject_beyond_grid(const ProblemClass& c, std::vector<RankedPlan>* table) {
  constexpr int64_t kMostAlongY = 65535;
  if (!multiplies(c.op)) return;
  for (RankedPlan& r : *table) {
    const CompileConfig& config = r.plan.config;
    if (!r.rejection.empty() || config.tile_n() < 1 || config.persistent() > 0) continue;
    const int64_t tiles = ceil_div(c.n, config.tile_n());
    if (tiles > kMostAlongY)
      r.rejection = absl::StrCat("grid: ", tiles, " tiles of ", config.tile_n(), " along N > ", kMostAlongY);
  }
}

// The part of a GPU that one group of the mean size gets. Part of shared memory is left for the rows of a tile
// (GroupRows).
DeviceFacts share_of_group(DeviceFacts facts) {
  constexpr double kListBytes = 8 << 10;
  for (const char* divided :
       {"compute_units", "memory_bytes_per_second", "l2_bytes", "flops_f32", "flops_matrix_f16"})
    if (const auto fact = facts.facts.find(divided); fact != facts.facts.end())
      fact->second.value /= kGroupsAtOnce;
  if (const auto fact = facts.facts.find("shared_memory_bytes"); fact != facts.facts.end())
    fact->second.value = std::max(fact->second.value - kListBytes, 1.0);
  return facts;
}

// Why a family does not serve classes whose rows are not plain; "" if it does.
std::string rows_refusal(const KernelFamily& family) {
  if (family.backend == Backend::kSpirv) return "modules for SPIR-V have no step that reads the routing";
  if (family.backend != Backend::kCpu && (family.kernels & set_of(KernelKind::kUkernel)))
    return "ukernels read whole tiles of rows that follow each other";
  if (family.kernels & set_of(KernelKind::kExternal))
    return "external libraries read rows that follow each other at one distance";
  return "";
}

// `fastest`: see CandidateContext.
void enumerate_family(const KernelFamily& family, const CandidateContext& context,
                      std::vector<RankedPlan>* table) {
  if (context.problem.rows == Rows::kPlain) return family.enumerate(context, table);
  if (const std::string why = rows_refusal(family); why.empty()) {
    family.enumerate(context, table);
  } else {
    RankedPlan refused;
    for (const KernelRow& kernel : kKernels)
      if (family.kernels & set_of(kernel.kind))
        refused.plan.config = {family_of(kernel.kind, context.problem.op, family.backend), kernel.kind};
    refused.rejection = absl::StrCat("rows ", name_of(context.problem.rows), ": ", why);
    table->push_back(std::move(refused));
  }
}

std::vector<RankedPlan> enumerate(const ProblemClass& c, const DeviceFacts& facts, const OraclePolicy& policy,
                                  double* fastest) {
  std::optional<DeviceFacts> share;
  const bool on_cpu = facts.target.backend == Backend::kCpu;
  if (is_grouped(c.rows) && !on_cpu) share = share_of_group(facts);
  // On a GPU the parts of a split could end in different workgroups' tiles, so K is not split.
  const int32_t split_k = c.rows == Rows::kPlain || on_cpu ? policy.split_k : 1;
  const CandidateContext context{
      c, share ? *share : facts, policy.workers, split_k, &policy.external, policy.user_ukernels, fastest};
  std::vector<RankedPlan> table;
  table.reserve(fastest != nullptr ? 32 : 1024);
  for (const KernelFamily& family : families_of(c.op))
    if (family.backend == facts.target.backend) enumerate_family(family, context, &table);
  if (facts.target.backend != Backend::kCpu) reject_beyond_grid(c, &table);
  return table;
}

// Whether the policy ranks external libraries first, even ahead of faster plans.
bool prefers_external(const OraclePolicy& policy) {
  const ExternalUse use = policy.external.choice.use;
  return use == ExternalUse::kRequire || use == ExternalUse::kPrefer;
}

}  // namespace

absl::StatusOr<OracleAnswer> first_plan(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy) {
  if (prefers_external(policy)) return rank_plans(c, facts, policy);
  if (absl::Status s = check_class(c, policy, facts.target.backend); !s.ok()) return s;
  double fastest = std::numeric_limits<double>::infinity();
  std::vector<RankedPlan> table = enumerate(c, facts, policy, &fastest);
  const RankedPlan* first = nullptr;
  for (const RankedPlan& r : table) {
    if (!r.rejection.empty() || !std::isfinite(r.plan.predicted_seconds)) continue;
    if (first == nullptr || r.plan.predicted_seconds < first->plan.predicted_seconds) first = &r;
  }
  if (first == nullptr) return rank_plans(c, facts, policy);  // its error lists the reasons
  return OracleAnswer{{*first}, 1};
}

absl::StatusOr<OracleAnswer> rank_plans(const ProblemClass& c, const DeviceFacts& facts,
                                        const OraclePolicy& policy) {
  if (absl::Status s = check_class(c, policy, facts.target.backend); !s.ok()) return s;
  std::vector<RankedPlan> table = enumerate(c, facts, policy, nullptr);

  // Facts that fit no real device can lead to an infinite or NaN prediction, which cannot be ranked.
  for (RankedPlan& r : table)
    if (r.rejection.empty() && !std::isfinite(r.plan.predicted_seconds))
      r.rejection = absl::StrCat("prediction is not finite: ", r.plan.predicted_seconds);

  // kRequire rejects every plan without an external library; kPrefer ranks external libraries first.
  const bool require = policy.external.choice.use == ExternalUse::kRequire;
  const bool prefer = prefers_external(policy);
  for (RankedPlan& r : table)
    if (require && r.rejection.empty() && r.plan.config.external.provider.empty())
      r.rejection = absl::StrCat("an external library is required: ",
                                 std::string(name_of(policy.external.choice.which)));

  // Sort by (rejected, not preferred, seconds, index in the table), a total order.
  std::vector<std::tuple<bool, bool, double, size_t>> order;
  for (size_t i = 0; i < table.size(); ++i) {
    const bool illegal = !table[i].rejection.empty();
    const bool behind = prefer && table[i].plan.config.external.provider.empty();
    order.emplace_back(illegal, !illegal && behind, illegal ? 0.0 : table[i].plan.predicted_seconds, i);
  }
  std::sort(order.begin(), order.end());
  OracleAnswer answer;
  answer.ranked.reserve(table.size());
  for (const auto& [illegal, behind, seconds, i] : order) {
    answer.legal += !illegal;
    answer.ranked.push_back(std::move(table[i]));
  }
  if (answer.legal == 0)
    return absl::UnimplementedError(absl::StrCat(
        std::string(name_of(c.op)), " on ", facts.target.arch, ": ",
        answer.ranked.empty() ? "no kernel family" : "no legal candidate: ", join_reasons(answer.ranked)));
  return answer;
}

double seconds_of_groups(const Plan& of_group, const Dims& dims, const DeviceFacts& facts) {
  const GpuRates rates(facts);
  const auto groups = static_cast<double>(std::min(dims.m, dims.batch));  // that can have rows
  // Fewer groups share the whole device if their tiles fill it.
  const CompileConfig& config = of_group.config;
  const auto tiles = static_cast<double>(
      ceil_div(ceil_div(dims.m, std::max<int64_t>(dims.batch, 1)), std::max<int64_t>(config.tile_m(), 1)) *
      ceil_div(dims.n, std::max<int64_t>(config.tile_n(), 1)));
  const double waves = std::ceil(tiles / (rates.units / kGroupsAtOnce));
  return rates.launch_seconds +
         (of_group.predicted_seconds - rates.launch_seconds) * std::max(groups / kGroupsAtOnce, 1 / waves);
}

std::vector<ProblemClass> classes_of_weight(const ProblemClass& c, int64_t m_max, Backend backend) {
  std::vector<ProblemClass> classes;
  // Several alignments or buckets can give the same class: all alignments on the CPU, all buckets of kByte.
  const auto add = [&](const ProblemClass& next) {
    if (std::find(classes.begin(), classes.end(), next) == classes.end()) classes.push_back(next);
  };
  for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
    ProblemClass next = c;
    if (has_row_lengths(c.op)) {
      for (const Bucket& row : row_buckets()) {
        next.row_lo = row.lo;
        next.row_hi = row.hi;
        add(with_alignment(next, alignment, backend == Backend::kCpu));
      }
      continue;
    }
    if (has_program(c.op)) {
      add(with_alignment(next, alignment, backend == Backend::kCpu));
      continue;
    }
    for (const Bucket& m : m_buckets(m_max)) {
      next.m_lo = m.lo;
      next.m_hi = m.hi;
      add(with_alignment(next, alignment, backend == Backend::kCpu));
    }
  }
  return classes;
}

}  // namespace lathe
