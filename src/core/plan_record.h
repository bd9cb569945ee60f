// What stores, bundles and tuning files keep of a class' plan beside its artifact: a plan record says what
// was compiled for it, a tuning record what was measured on a device and won.
//
// As bytes: canonical JSON with a version and a digest (XXH3) of the rest; whatever is not exactly what
// serialize() of this version writes is no record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/key.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

enum class RecordKind : int32_t { kPlan = 1, kTuned = 2 };
absl::string_view name_of(RecordKind kind);  // "plan", "tuned"

struct MeasuredCandidate {
  CompileConfig config;
  int32_t splits = 1;
  double predicted_seconds = 0, measured_seconds = 0;
};

struct PlanRecord {
  RecordKind kind = RecordKind::kPlan;
  ProblemClass problem;
  Target target;
  // Of a tuning record: the device's name as its facts have it, and its workers (CPU) or compute units (GPU).
  // Two devices that agree in these and the target are one: other facts are queried anew at every start, and
  // a detail among them does not change who wins.
  std::string device;
  int32_t units = 0;
  std::string codegen;  // the codegen id it is of
  std::string oracle;   // the oracle id of who wrote it: by whose prices the plan was the best
  CompileConfig config;
  int32_t splits = 1;                       // LaunchPolicy's
  std::vector<MeasuredCandidate> measured;  // a tuning record's, by the oracle's rank

  bool names(const Plan& plan) const { return plan.launch.splits == splits && plan.config == config; }
};

// What a record is looked up by. A plan record's has the codegen id, for its artifact's key has it; a tuning
// record outlives a release that changes code, as long as the candidate is there. The format's version is in
// it: libraries that write others share a store without refusing each other's.
Key key_of(const PlanRecord& record);

std::string serialize(const PlanRecord& record);
Json to_json(const PlanRecord& record);
// Of any bytes; kInvalidArgument says why it is none, kUnimplemented that it is another version's.
absl::StatusOr<PlanRecord> parse_record(absl::string_view bytes);
// The same of one that was found under `key`, which must be its own.
absl::StatusOr<PlanRecord> record_of(const Key& key, absl::string_view bytes);
// Whether a payload of a store or a bundle is a record's rather than an artifact's: by its first byte.
bool is_record(absl::string_view payload);

// A file of tuning records: {"lathe_tuning": 1, "records": [...]}, one a line.
struct TuningFile {
  std::vector<PlanRecord> records;   // no two of one key: the last stays
  std::vector<std::string> refused;  // why others are none: of another version, damaged
};
std::string tuning_text(const std::vector<PlanRecord>& records);
// kInvalidArgument: it is no such file.
absl::StatusOr<TuningFile> parse_tuning(absl::string_view text);

}  // namespace lathe
