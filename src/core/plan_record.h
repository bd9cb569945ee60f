// Records about the plan of a class, kept beside artifacts in stores, bundles and tuning files. A plan record
// says which plan was compiled. A tuning record says which plan won a measurement on a device.
//
// The bytes are canonical JSON with a version and an XXH3 digest of all other fields. parse_record accepts
// only exactly what serialize() of the same version writes.
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
  // Tuning records only: the device's name from its facts, and its workers (CPU) or compute units (GPU). A
  // record applies to every device with the same name, units and target. All other facts are ignored: they
  // are queried at every start, and small differences do not change the winner.
  std::string device;
  int32_t units = 0;
  std::string codegen;  // codegen id
  std::string oracle;   // id of the oracle that chose the plan
  CompileConfig config;
  int32_t splits = 1;                       // as LaunchPolicy::splits
  std::vector<MeasuredCandidate> measured;  // tuning records only; ordered by the oracle's rank

  bool names(const Plan& plan) const { return plan.launch.splits == splits && plan.config == config; }
};

// The key for looking up a record. The key of a plan record includes the codegen id, as the key of its
// artifact does. The key of a tuning record does not: the record stays valid after a release that changes
// code, as long as its candidate exists. The format version is in the key, so that libraries with different
// versions can share a store.
Key key_of(const PlanRecord& record);

std::string serialize(const PlanRecord& record);
Json to_json(const PlanRecord& record);
// Accepts any bytes as input. kInvalidArgument: not a valid record; kUnimplemented: a record of another
// version.
absl::StatusOr<PlanRecord> parse_record(absl::string_view bytes);
// The same for a record that was found under `key`; fails if the record has another key.
absl::StatusOr<PlanRecord> record_of(const Key& key, absl::string_view bytes);
// Whether a payload of a store or a bundle is a record and not an artifact. Looks only at the first byte.
bool is_record(absl::string_view payload);

// A file of tuning records: {"lathe_tuning": 1, "records": [...]}, with one record per line.
struct TuningFile {
  std::vector<PlanRecord> records;   // keys are unique: of several records with one key the last is kept
  std::vector<std::string> refused;  // one message for each record that is damaged or has another version
};
std::string tuning_text(const std::vector<PlanRecord>& records);
// kInvalidArgument if the text is not a tuning file. A bad record inside a file is not an error (`refused`).
absl::StatusOr<TuningFile> parse_tuning(absl::string_view text);

}  // namespace lathe
