#include "core/plan_record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <map>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/json_object.h"
#include "core/manifest.h"

namespace lathe {
namespace {

constexpr int kRecordVersion = 2, kFileVersion = 1;
constexpr size_t kMostBytes = 1 << 20, kMostFileBytes = 64u << 20;
constexpr size_t kMostMeasured = 4096, kMostRecords = 100000;
constexpr int32_t kMostSplits = 65535;
constexpr const char* kDigest = "digest";

Json measured_json(const PlanRecord& record) {
  Json measured(Json::value_t::array);
  for (const MeasuredCandidate& m : record.measured)
    measured.push_back(json_object("config", to_json(m.config), "splits", m.splits, "predicted_seconds",
                                   m.predicted_seconds, "measured_seconds", m.measured_seconds));
  return measured;
}

Json fields_json(const PlanRecord& r) {
  return json_object("lathe_record", kRecordVersion, "kind", std::string(name_of(r.kind)), "class",
                     to_json(r.problem), "target", to_json(r.target), "device", r.device, "units", r.units,
                     "codegen", r.codegen, "oracle", r.oracle, "config", to_json(r.config), "splits",
                     r.splits, "measured", measured_json(r));
}

std::string digest_of(const Json& fields) {
  const std::string text = canonical_text(fields);
  return absl::StrCat(absl::Hex(XXH3_64bits(text.data(), text.size()), absl::kZeroPad16));
}

// Returns the value, or throws the error as an exception.
template <typename T>
T or_throw(absl::StatusOr<T> read) {
  if (!read.ok()) throw std::invalid_argument(std::string(read.status().message()));
  return *std::move(read);
}

int32_t splits_field(const Json& json) {
  return static_cast<int32_t>(int_field(json, "splits", 1, kMostSplits));
}

double seconds_field(const Json& json, const char* name) {
  const double seconds = number_field(json, name);
  if (seconds < 0) throw std::out_of_range(absl::StrCat("\"", name, "\" is negative"));
  return seconds;
}

std::vector<MeasuredCandidate> read_measured(const Json& json) {
  if (!json.is_array()) throw std::invalid_argument("\"measured\" is not an array");
  if (json.size() > kMostMeasured) throw std::invalid_argument("\"measured\" has too many candidates");
  std::vector<MeasuredCandidate> measured;
  for (const Json& m : json) {
    expect_fields(m, 4);
    measured.push_back({or_throw(compile_config_from_json(m.at("config"))), splits_field(m),
                        seconds_field(m, "predicted_seconds"), seconds_field(m, "measured_seconds")});
  }
  return measured;
}

RecordKind read_kind(const std::string& name) {
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kTuned})
    if (name == name_of(kind)) return kind;
  throw std::invalid_argument(absl::StrCat("\"kind\": ", name, " is unknown"));
}

bool is_of_another_version(const Json& json) {
  if (!json.is_object()) return false;
  const auto version = json.find("lathe_record");
  return version != json.end() && version->is_number_integer() && *version != kRecordVersion;
}

// Throws.
PlanRecord read_record(const Json& json) {
  if (!json.is_object()) throw std::invalid_argument("not an object");
  const int64_t version = int_field(json, "lathe_record", 0, INT32_MAX);
  if (version != kRecordVersion)
    throw std::invalid_argument(
        absl::StrCat("version ", version, ", but this library reads version ", kRecordVersion));
  expect_fields(json, 12);
  PlanRecord r;
  r.kind = read_kind(text_field(json, "kind"));
  r.problem = or_throw(problem_class_from_json(json.at("class")));
  if (const absl::Status legal = check_class(r.problem); !legal.ok())
    throw std::invalid_argument(std::string(legal.message()));
  r.target = or_throw(target_from_json(json.at("target")));
  r.device = text_field(json, "device");
  r.units = static_cast<int32_t>(int_field(json, "units", 0, INT32_MAX));
  r.codegen = text_field(json, "codegen");
  r.oracle = text_field(json, "oracle");
  r.config = or_throw(compile_config_from_json(json.at("config")));
  r.splits = splits_field(json);
  r.measured = read_measured(json.at("measured"));
  if (text_field(json, kDigest) != digest_of(fields_json(r)))
    throw std::invalid_argument("wrong digest: the record is damaged");
  return r;
}

}  // namespace

absl::string_view name_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kPlan: return "plan";
    case RecordKind::kTuned: return "tuned";
  }
  return "unknown";
}

Key key_of(const PlanRecord& r) {
  Json key = json_object("record", std::string(name_of(r.kind)), "version", kRecordVersion, "class",
                         to_json(r.problem), "target", to_json(r.target));
  if (r.kind == RecordKind::kPlan)
    set_fields(&key, "codegen", r.codegen);
  else
    set_fields(&key, "device", r.device, "units", r.units);
  return key_from_text(canonical_text(key));
}

Json to_json(const PlanRecord& record) {
  Json json = fields_json(record);
  std::string digest = digest_of(json);
  json[kDigest] = std::move(digest);
  return json;
}

std::string serialize(const PlanRecord& record) { return canonical_text(to_json(record)); }

bool is_record(absl::string_view payload) { return absl::StartsWith(payload, "{"); }

absl::StatusOr<PlanRecord> parse_record(absl::string_view bytes) {
  if (bytes.size() > kMostBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("record: ", bytes.size(), " bytes, more than the limit of ", kMostBytes));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(bytes, "record"));
  if (is_of_another_version(json))
    return absl::UnimplementedError(absl::StrCat("record: version ", json["lathe_record"].dump(),
                                                 ", but this library reads version ", kRecordVersion));
  absl::StatusOr<PlanRecord> record = read_json("record", [&] { return read_record(json); });
  if (record.ok() && serialize(*record) != bytes)
    return absl::InvalidArgumentError("record: not in the canonical form that this library writes");
  return record;
}

absl::StatusOr<PlanRecord> record_of(const Key& key, absl::string_view bytes) {
  absl::StatusOr<PlanRecord> record = parse_record(bytes);
  if (record.ok() && !(key_of(*record) == key))
    return absl::InvalidArgumentError("record: stored under the key of another record");
  return record;
}

std::string tuning_text(const std::vector<PlanRecord>& records) {
  std::string text = absl::StrCat("{\n \"lathe_tuning\": ", kFileVersion, ",\n \"records\": [");
  for (const PlanRecord& record : records)
    absl::StrAppend(&text, &record == &records.front() ? "\n  " : ",\n  ", serialize(record));
  return absl::StrCat(text, records.empty() ? "]\n}\n" : "\n ]\n}\n");
}

absl::StatusOr<TuningFile> parse_tuning(absl::string_view text) {
  if (text.size() > kMostFileBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("tuning file: ", text.size(), " bytes, more than the limit of ", kMostFileBytes));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(text, "tuning file"));
  return read_json("tuning file", [&] {
    expect_fields(json, 2);
    const int64_t version = int_field(json, "lathe_tuning", 0, INT32_MAX);
    if (version != kFileVersion)
      throw std::invalid_argument(absl::StrCat("\"lathe_tuning\": version ", version,
                                               ", but this library reads version ", kFileVersion));
    const Json& records = json.at("records");
    if (!records.is_array() || records.size() > kMostRecords)
      throw std::invalid_argument(
          absl::StrCat("\"records\" is not an array of at most ", kMostRecords, " records"));
    TuningFile file;
    std::map<std::string, size_t> places;  // from a record's key to its index in file.records
    for (size_t i = 0; i < records.size(); ++i) {
      absl::StatusOr<PlanRecord> record = read_json("record", [&] { return read_record(records[i]); });
      if (record.ok() && record->kind != RecordKind::kTuned)
        record = absl::InvalidArgumentError("record: its kind is not \"tuned\"");
      if (!record.ok()) {
        file.refused.push_back(absl::StrCat("records[", i, "]: ", record.status().message()));
        continue;
      }
      const auto [at, fresh] = places.emplace(key_of(*record).text, file.records.size());
      if (fresh)
        file.records.push_back(*std::move(record));
      else
        file.records[at->second] = *std::move(record);
    }
    return file;
  });
}

}  // namespace lathe
