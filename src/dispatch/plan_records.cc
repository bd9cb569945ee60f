#include "dispatch/plan_records.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "dispatch/class_on_device.h"
#include "dispatch/device.h"
#include "observe/text_file.h"
#include "oracle_id.h"

namespace lathe {

TuningRecords::TuningRecords(const std::string& path, const Logger& logger) {
  if (path.empty()) return;
  const absl::StatusOr<std::string> text = read_text_file(path);
  absl::StatusOr<TuningFile> file =
      text.ok() ? parse_tuning(*text) : absl::StatusOr<TuningFile>(text.status());
  if (!file.ok()) {
    logger.log(LogLevel::kWarning,
               absl::StrCat("tuning: ", text.ok() ? absl::StrCat(path, ": ") : "", file.status().message()));
    return;
  }
  if (!file->refused.empty())
    logger.log(LogLevel::kWarning, absl::StrCat("tuning: ", path, ": ", file->refused.size(), " of ",
                                                file->records.size() + file->refused.size(),
                                                " records are refused: ", file->refused.front()));
  for (PlanRecord& record : file->records) {
    const std::string bytes = serialize(record);
    digest_ ^= XXH3_64bits(bytes.data(), bytes.size());
    records_.emplace(key_of(record).text, std::move(record));
  }
}

const PlanRecord* TuningRecords::find(const Key& key) const {
  const auto found = records_.find(key.text);
  return found == records_.end() ? nullptr : &found->second;
}

PlanRecord make_record(const lathe_device& device, RecordKind kind, const ProblemClass& problem) {
  PlanRecord record;
  record.kind = kind;
  record.problem = problem;
  record.target = device.facts.target;
  record.codegen = codegen_for(device, problem);
  record.oracle = LATHE_ORACLE_ID;
  if (kind == RecordKind::kPlan) return record;
  record.device = device.facts.name;
  record.units =
      device.is_cpu ? device.workers : static_cast<int32_t>(device.facts.fact_or("compute_units", 0));
  return record;
}

std::optional<PlanRecord> find_tuning(const lathe_device& device, const ProblemClass& problem) {
  const Key key = key_of(make_record(device, RecordKind::kTuned, problem));
  if (const PlanRecord* record = device.context.tuning.find(key)) return *record;
  absl::StatusOr<PlanRecord> record = device.context.cache->read_record(RecordKind::kTuned, key);
  if (!record.ok()) return std::nullopt;  // the cache has logged any defect
  return *std::move(record);
}

bool keeps_promise(const OracleAnswer& answer, const ProblemClass& problem, size_t rank) {
  return problem.determinism == Determinism::kFast ||
         answer.ranked[rank].plan.numeric_recipe == answer.ranked[0].plan.numeric_recipe;
}

std::optional<size_t> recorded_rank(const OracleAnswer& answer, const ProblemClass& problem,
                                    const PlanRecord& record) {
  for (size_t i = 0; i < answer.legal; ++i)
    if (record.names(answer.ranked[i].plan) && keeps_promise(answer, problem, i)) return i;
  return std::nullopt;
}

}  // namespace lathe
