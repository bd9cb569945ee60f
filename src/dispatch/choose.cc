#include "dispatch/choose.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dispatch/class_on_device.h"
#include "dispatch/device.h"
#include "dispatch/externals.h"
#include "dispatch/plan_records.h"
#include "oracle_id.h"

namespace lathe {
namespace {

bool is_forced(const DispatchKey& key) { return key.candidate > 0 || key.split_k > 0; }

absl::StatusOr<OracleAnswer> ask_oracle(const lathe_device& device, const DispatchKey& key, Ranking ranking) {
  const std::shared_ptr<const std::vector<UserUkernel>> ukernels = device.context.ukernels.all();
  const OraclePolicy policy = {device.workers, key.split_k, external_policy(device, key), ukernels.get()};
  return ranking == Ranking::kWhole ? rank_plans(key.problem, device.facts, policy)
                                    : first_plan(key.problem, device.facts, policy);
}

// The tuning record that may decide for this request. A request that forces a candidate or prefers
// an external library overrides it.
std::optional<PlanRecord> find_tuning_for(const lathe_device& device, const DispatchKey& key) {
  const ExternalUse use = external_choice(device, key).use;
  if (is_forced(key) || use == ExternalUse::kPrefer || use == ExternalUse::kRequire) return std::nullopt;
  return find_tuning(device, key.problem);
}

void log_foreign_tuning(const lathe_device& device, const ProblemClass& problem, const PlanRecord& record) {
  const bool first = !device.context.told_of_foreign_tuning.exchange(true);
  device.context.logger.log(
      first ? LogLevel::kWarning : LogLevel::kDebug,
      absl::StrCat("tuning: ", describe_class(device, problem), ": the record names a ",
                   name_of(record.config.kernel()),
                   " kernel that is not a candidate here; the oracle's choice is used"));
}

bool is_outdated(const PlanRecord& record, const Plan& recorded, const Plan& chosen) {
  return record.oracle != LATHE_ORACLE_ID ||
         recorded.predicted_seconds > (1 + kRecordTolerance) * chosen.predicted_seconds;
}

}  // namespace

void take_rank(const lathe_device& device, const DispatchKey& key, size_t rank, ChosenBy by, Choice* choice) {
  choice->rank = rank;
  choice->by = by;
  choice->key =
      key_of(key.problem, choice->plan().config, device.facts.target, codegen_for(device, key.problem));
}

absl::StatusOr<Choice> choose_by_oracle(const lathe_device& device, const DispatchKey& key) {
  Choice choice;
  LATHE_ASSIGN_OR_RETURN(choice.answer, ask_oracle(device, key, Ranking::kWhole));
  size_t rank = 0;
  if (key.candidate > 0) {
    rank = static_cast<size_t>(key.candidate) - 1;
    if (rank >= choice.answer.ranked.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("candidate ", key.candidate, " of ", choice.answer.ranked.size()));
    }
    if (rank >= choice.answer.legal) {
      return absl::InvalidArgumentError(absl::StrCat(
          "candidate ", key.candidate, " is not legal here: ", choice.answer.ranked[rank].rejection));
    }
  }
  take_rank(device, key, rank, is_forced(key) ? ChosenBy::kRequest : ChosenBy::kOracle, &choice);
  return choice;
}

absl::StatusOr<Choice> choose_plan(const lathe_device& device, const DispatchKey& key, Ranking ranking) {
  const std::optional<PlanRecord> record = find_tuning_for(device, key);
  if (!record && !is_forced(key) && ranking == Ranking::kChoiceAlone) {
    Choice first;
    LATHE_ASSIGN_OR_RETURN(first.answer, ask_oracle(device, key, ranking));
    take_rank(device, key, 0, ChosenBy::kOracle, &first);
    return first;
  }
  absl::StatusOr<Choice> choice = choose_by_oracle(device, key);
  if (!choice.ok() || !record) return choice;
  if (const std::optional<size_t> rank = recorded_rank(choice->answer, key.problem, *record))
    take_rank(device, key, *rank, ChosenBy::kTuning, &*choice);
  else
    log_foreign_tuning(device, key.problem, *record);
  return choice;
}

absl::StatusOr<Choice> choice_of(const lathe_device& device, const DispatchEntry& entry) {
  DispatchKey key = entry.key;
  if (entry.without_external) key = without_external(device, key).value_or(key);
  absl::StatusOr<Choice> choice = choose_by_oracle(device, key);
  if (!choice.ok()) return choice;
  std::vector<RankedPlan>& ranked = choice->answer.ranked;
  const auto is_it = [&](const RankedPlan& r) {
    return r.plan.config == entry.plan.config && r.plan.launch.splits == entry.plan.launch.splits;
  };
  const auto found = std::find_if(ranked.begin(), ranked.end(), is_it);
  const auto rank = static_cast<size_t>(found - ranked.begin());
  if (found == ranked.end()) ranked.push_back({entry.plan, ""});  // a user's ukernel, removed in the meantime
  take_rank(device, key, rank, entry.by, &*choice);
  return choice;
}

bool is_asked_for(const lathe_device& device, const Choice& choice) {
  const CompileConfig& config = choice.plan().config;
  return !config.external.provider.empty() || !device.context.ukernels.bitcode_of(config.ukernel).empty();
}

std::optional<RecordedChoice> find_recorded_choice(const lathe_device& device, const DispatchKey& key,
                                                   const Choice& choice) {
  if (choice.by != ChosenBy::kOracle || is_asked_for(device, choice)) return std::nullopt;
  ArtifactCache& cache = *device.context.cache;
  const absl::StatusOr<PlanRecord> record =
      cache.read_record(RecordKind::kPlan, key_of(make_record(device, RecordKind::kPlan, key.problem)));
  if (!record.ok() || record->names(choice.plan())) return std::nullopt;
  absl::StatusOr<Choice> recorded = choose_by_oracle(device, key);
  if (!recorded.ok()) return std::nullopt;
  const std::optional<size_t> rank = recorded_rank(recorded->answer, key.problem, *record);
  if (!rank) return std::nullopt;
  take_rank(device, key, *rank, ChosenBy::kRecord, &*recorded);
  if (is_asked_for(device, *recorded) || !cache.get(recorded->key).ok()) return std::nullopt;
  const bool outdated = is_outdated(*record, recorded->plan(), choice.plan());
  return RecordedChoice{*std::move(recorded), outdated};
}

}  // namespace lathe
