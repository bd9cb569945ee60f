// Any bytes are either rejected, or are a record exactly as serialize() writes it. A tuning file must keep
// each record or give the reason why not, and so must a calibration file with its machines.
#include <cstdlib>

#include "core/calibration.h"
#include "core/json_object.h"
#include "made_file.h"
#include "tests/sample_record.h"

namespace lathe::fuzz {
namespace {

constexpr size_t kMostRecordBytes = 1 << 20, kMostFileBytes = 64 << 20, kMostMeasured = 4096;

// Sets the digest to that of the record's current contents.
void repair(Json* record) {
  if (!record->is_object()) return;
  record->erase("digest");
  const std::string text = canonical_text(*record);
  char digest[17];
  std::snprintf(digest, sizeof(digest), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  (*record)["digest"] = digest;
}

enum Flags : uint8_t { kTunedRecord = 8, kTuningFile = 16, kTooMany = 32, kInLines = 64 };

std::string repaired(const std::string& bytes, uint8_t flags) {
  Json json = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return bytes;
  try {
    if ((flags & kTuningFile) == 0) {
      if ((flags & kTooMany) != 0 && json.is_object()) json["measured"] = std::vector<int>(kMostMeasured + 1);
      repair(&json);
    } else if (json.is_object() && json.contains("records") && json["records"].is_array()) {
      for (Json& record : json["records"]) repair(&record);
    }
    return (flags & kInLines) != 0 ? json.dump(1) : canonical_text(json);
  } catch (const Json::exception&) {
    return bytes;  // the text is not UTF-8
  }
}

void check_record(const std::string& bytes) {
  const absl::StatusOr<PlanRecord> record = parse_record(bytes);
  if (!record.ok()) {
    if (record.status().message().empty() || record_of(key_from_text("any"), bytes).ok()) abort();
    return;
  }
  if (serialize(*record) != bytes || !is_record(bytes)) abort();
  if (!record_of(key_of(*record), bytes).ok()) abort();
  const PlanRecord other = sample_record(RecordKind::kTuned, 40);
  if (record_of(key_of(other), bytes).ok() != (key_of(*record) == key_of(other))) abort();
  const absl::StatusOr<TuningFile> file = parse_tuning(tuning_text({*record, other, *record}));
  if (!file.ok() || file->refused.empty() != (record->kind == RecordKind::kTuned)) abort();
}

void check_file(const std::string& bytes) {
  const absl::StatusOr<TuningFile> file = parse_tuning(bytes);
  if (!file.ok()) return;
  const absl::StatusOr<TuningFile> again = parse_tuning(tuning_text(file->records));
  if (!again.ok() || !again->refused.empty() || again->records.size() != file->records.size()) abort();
  for (size_t i = 0; i < file->records.size(); ++i)
    if (serialize(again->records[i]) != serialize(file->records[i])) abort();
}

void check_calibrations(const std::string& bytes) {
  const absl::StatusOr<CalibrationFile> file = parse_calibrations(bytes);
  if (!file.ok()) return;
  const absl::StatusOr<CalibrationFile> again = parse_calibrations(calibration_text(file->machines));
  if (!again.ok() || !again->refused.empty() || again->machines.size() != file->machines.size()) abort();
}

// Records and files above the length limit must be rejected.
int check_lengths() {
  static const std::string kLong(kMostFileBytes + 1, ' ');
  if (parse_record(absl::string_view(kLong).substr(0, kMostRecordBytes + 1)).ok() ||
      parse_tuning(kLong).ok() || parse_calibrations(kLong).ok())
    abort();
  return 0;
}

}  // namespace
}  // namespace lathe::fuzz

// Byte 0 has the flags of make_file and of Flags: use a tuning record; use a tuning file; use a text above
// the length limit or, with a repaired digest, too many candidates; format repaired JSON in lines.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  const uint8_t flags = size > 0 ? data[0] : 0;
  const bool of_file = (flags & fuzz::kTuningFile) != 0;
  const PlanRecord sample =
      sample_record((flags & fuzz::kTunedRecord) != 0 ? RecordKind::kTuned : RecordKind::kPlan);
  fuzz::MadeFile file = fuzz::make_file(
      data, size, of_file ? tuning_text({sample, sample_record(RecordKind::kTuned, 40)}) : serialize(sample));
  if (file.repair)
    file.bytes = fuzz::repaired(file.bytes, flags);
  else if ((flags & fuzz::kTooMany) != 0)
    return fuzz::check_lengths();
  of_file ? fuzz::check_file(file.bytes) : fuzz::check_record(file.bytes);
  fuzz::check_calibrations(file.bytes);
  return 0;
}
