#include "dispatch/prepare.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "dispatch/plan_records.h"
#include "oracle_id.h"

namespace lathe {
namespace {

// In place of compiling. Of no other's making.
constexpr char kServedByRecord[] = "the plan record's artifact is there";

// A candidate that is there because somebody asked for it: a user's ukernel, an external library's routine.
bool is_asked_for(const lathe_device& device, const Choice& choice) {
  const CompileConfig& config = choice.plan().config;
  return !config.external.provider.empty() || !device.context.ukernels.bitcode_of(config.ukernel).empty();
}

struct Recorded {
  Choice choice;
  bool is_outdated;
};

bool is_outdated(const PlanRecord& record, const Choice& choice, const Choice& recorded) {
  return record.oracle != LATHE_ORACLE_ID ||
         recorded.plan().predicted_seconds > (1 + kDetail) * choice.plan().predicted_seconds;
}

// The candidate of the class' plan record, if it is another and its artifact is to be had. It spares what
// other facts would compile anew; one that is asked for comes or goes by intent, and is no such detail.
std::optional<Recorded> find_recorded(const lathe_device& device, const DispatchKey& key,
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
  const bool outdated = is_outdated(*record, choice, *recorded);
  return Recorded{*std::move(recorded), outdated};
}

absl::StatusOr<PreparedClass> prepare_choice(lathe_device& device, const DispatchKey& key,
                                             const Choice& choice, const Making& making) {
  PreparedClass prepared = {nullptr, CacheOutcome::kMemoryHit, choice.plan().config.kernel};
  if (device.driver == nullptr) {
    LATHE_ASSIGN_OR_RETURN(const CacheResult result, get_artifact(device, key.problem, choice, making));
    prepared.outcome = result.outcome;
    return prepared;
  }
  LATHE_ASSIGN_OR_RETURN(const Prepared made, prepare_kernel(device, key, choice, making));
  prepared.entry = made.entry;
  prepared.outcome = made.outcome;
  return prepared;
}

// Best effort: a store that cannot be written has said so when the artifact came.
void record_plan(const lathe_device& device, const DispatchKey& key, const Choice& choice) {
  PlanRecord record = make_record(device, RecordKind::kPlan, key.problem);
  record.config = choice.plan().config;
  record.splits = choice.plan().launch.splits;
  (void)device.context.cache->write_record(record);
}

}  // namespace

absl::StatusOr<PreparedClass> prepare_class(lathe_device& device, const DispatchKey& key,
                                            PrepareFor purpose) {
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choose_plan(device, key, Ranking::kChoiceAlone));
  const bool waits = purpose != PrepareFor::kLater && purpose != PrepareFor::kIdle;
  Making making;
  making.may_compile = purpose != PrepareFor::kNoMiss;
  making.urgency = purpose == PrepareFor::kIdle ? Urgency::kIdle : Urgency::kNow;
  Making unless_recorded = making;
  std::optional<Recorded> recorded;
  bool serves = false;
  unless_recorded.before_compile = [&]() -> absl::Status {
    recorded = find_recorded(device, key, choice);
    serves = recorded && (waits || !recorded->is_outdated);
    return serves ? absl::AbortedError(kServedByRecord) : absl::OkStatus();
  };
  absl::StatusOr<PreparedClass> prepared = prepare_choice(device, key, choice, unless_recorded);
  if (recorded && !prepared.ok()) {
    if (recorded->is_outdated && purpose == PrepareFor::kCall)
      (void)device.context.background.submit(device, key, JobKind::kRefresh);  // else at the next start
    absl::StatusOr<PreparedClass> by_record = prepare_choice(device, key, recorded->choice, making);
    if (by_record.ok()) return by_record;
    if (serves) prepared = prepare_choice(device, key, choice, making);
  }
  if (prepared.ok() && prepared->outcome == CacheOutcome::kCompiled && choice.by == ChosenBy::kOracle &&
      !is_asked_for(device, choice))
    record_plan(device, key, choice);
  return prepared;
}

absl::Status refresh_class(lathe_device& device, const DispatchKey& key) {
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choose_plan(device, key, Ranking::kChoiceAlone));
  if (choice.by != ChosenBy::kOracle || is_asked_for(device, choice)) return absl::OkStatus();
  Making making;
  making.urgency = Urgency::kIdle;
  LATHE_RETURN_IF_ERROR(get_artifact(device, key.problem, choice, making).status());
  record_plan(device, key, choice);
  return absl::OkStatus();
}

}  // namespace lathe
