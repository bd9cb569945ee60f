#include "core/plan_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"
#include "tests/sample.h"
#include "tests/sample_record.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

std::string error_of(absl::string_view bytes) { return std::string(parse_record(bytes).status().message()); }

std::string error_of_file(absl::string_view text) {
  return std::string(parse_tuning(text).status().message());
}

// Changes a field without updating the digest.
std::string changed_text(const std::string& whole, const std::function<void(Json*)>& change) {
  Json json = Json::parse(whole);
  change(&json);
  return canonical_text(json);
}

TEST(PlanRecord, RoundTripsThroughBytes) {
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kTuned}) {
    const PlanRecord record = sample_record(kind);
    const std::string bytes = serialize(record);
    EXPECT_TRUE(is_record(bytes));
    const absl::StatusOr<PlanRecord> read = parse_record(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(serialize(*read), bytes);
    EXPECT_TRUE(read->problem == record.problem);
    EXPECT_TRUE(read->config == record.config);
    EXPECT_TRUE(read->target == record.target);
    EXPECT_EQ(read->splits, 3);
    EXPECT_EQ(read->measured.size(), record.measured.size());
    if (kind == RecordKind::kTuned) {
      EXPECT_EQ(read->measured[1].measured_seconds, record.measured[1].measured_seconds) << "every bit";
      EXPECT_TRUE(read->measured[0].config == record.measured[0].config);
    }
  }
}

TEST(PlanRecord, RefusesEveryTruncationAndEveryFlippedBit) {
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kTuned}) {
    const std::string whole = serialize(sample_record(kind));
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_FALSE(parse_record(whole.substr(0, size)).ok()) << size;
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      if (!is_in_sample(sample_seed(), bit)) continue;
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(parse_record(flipped).ok()) << "bit " << bit;
    }
    EXPECT_FALSE(parse_record(whole + " ").ok());
  }
}

TEST(PlanRecord, NamesTheDefect) {
  const std::string whole = serialize(sample_record(RecordKind::kTuned));
  const auto with = [&](const char* field, Json value) {
    return error_of(changed_text(whole, [&](Json* json) { (*json)[field] = std::move(value); }));
  };
  const std::string later_text = changed_text(whole, [](Json* json) { (*json)["lathe_record"] = 3; });
  EXPECT_TRUE(absl::IsUnimplemented(parse_record(later_text).status())) << "no damage";
  EXPECT_THAT(with("lathe_record", 3), HasSubstr("version 3, but this library reads version 2"));
  EXPECT_THAT(with("kind", "measured"), HasSubstr("\"kind\": measured is unknown"));
  EXPECT_THAT(with("splits", 0), HasSubstr("\"splits\" 0"));
  EXPECT_THAT(with("units", -1), HasSubstr("\"units\" -1"));
  EXPECT_THAT(with("splits", 4), HasSubstr("wrong digest"));
  EXPECT_THAT(with("more", 1), HasSubstr("13 fields, expected 12"));
  Json of_no_request = to_json(sample_record(RecordKind::kTuned).problem);
  of_no_request["m_hi"] = 9;
  EXPECT_THAT(with("class", of_no_request), HasSubstr("not a bucket of M"));
  Json later = to_json(CompileConfig());
  const size_t fields = later.size();
  later["a_later_field"] = 1;
  EXPECT_THAT(with("config", later), HasSubstr(absl::StrCat(fields + 1, " fields, expected ", fields)))
      << "written by a later release";
  EXPECT_THAT(with("kind", 5), HasSubstr("\"kind\""));
  EXPECT_THAT(with("measured", 5), HasSubstr("\"measured\" is not an array"));
  EXPECT_THAT(with("measured", std::vector<int>(4097)), HasSubstr("too many candidates"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not an object"));
  EXPECT_THAT(error_of(std::string((1 << 20) + 1, ' ')), HasSubstr("more than the limit of 1048576"));
  EXPECT_THAT(error_of(Json::parse(whole).dump(1)), HasSubstr("not in the canonical form"));
  Json slow = to_json(sample_record(RecordKind::kTuned).measured[0].config);
  EXPECT_THAT(
      with(
          "measured",
          Json::array(
              {{{"config", slow}, {"splits", 1}, {"predicted_seconds", 1e-6}, {"measured_seconds", -1e-6}}})),
      HasSubstr("\"measured_seconds\" is negative"));
  EXPECT_THAT(error_of("LATHEART"), HasSubstr("record: "));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("record: "));
}

// The key contains exactly the fields that a look-up knows.
TEST(PlanRecord, KeyContainsOnlyTheFieldsOfALookUp) {
  const auto change = [](RecordKind kind, const std::function<void(PlanRecord*)>& change) {
    PlanRecord record = sample_record(kind);
    change(&record);
    return key_of(record).text;
  };
  const std::string plan = key_of(sample_record(RecordKind::kPlan)).text,
                    tuned = key_of(sample_record(RecordKind::kTuned)).text;
  std::set<std::string> keys = {plan, tuned};
  keys.insert(change(RecordKind::kPlan, [](PlanRecord* r) { r->problem.n = 41; }));
  keys.insert(change(RecordKind::kPlan, [](PlanRecord* r) { r->target.features = "+avx"; }));
  keys.insert(change(RecordKind::kPlan, [](PlanRecord* r) { r->codegen = "another"; }));
  keys.insert(change(RecordKind::kTuned, [](PlanRecord* r) { r->problem.n = 41; }));
  keys.insert(change(RecordKind::kTuned, [](PlanRecord* r) { r->target.arch = "aarch64"; }));
  keys.insert(change(RecordKind::kTuned, [](PlanRecord* r) { r->device = "another"; }));
  keys.insert(change(RecordKind::kTuned, [](PlanRecord* r) { r->units = 8; }));
  EXPECT_EQ(keys.size(), 9u);
  EXPECT_EQ(change(RecordKind::kTuned, [](PlanRecord* r) { r->codegen = "a later one"; }), tuned);
  EXPECT_EQ(change(RecordKind::kTuned, [](PlanRecord* r) { r->splits = 1; }), tuned);
  EXPECT_EQ(change(RecordKind::kPlan, [](PlanRecord* r) { r->config.set("tile_m", 1); }), plan);
  EXPECT_EQ(change(RecordKind::kPlan, [](PlanRecord* r) { r->oracle = "another"; }), plan);
  EXPECT_THAT(plan, HasSubstr("\"version\":2")) << "records of other versions have other keys";
  EXPECT_TRUE(
      record_of(key_of(sample_record(RecordKind::kPlan)), serialize(sample_record(RecordKind::kPlan))).ok());
  EXPECT_FALSE(
      record_of(key_of(sample_record(RecordKind::kPlan, 8)), serialize(sample_record(RecordKind::kPlan)))
          .ok());
}

TEST(TuningFile, KeepsTheLastRecordOfEachKey) {
  PlanRecord later = sample_record(RecordKind::kTuned);
  later.splits = 1;
  const std::string text =
      tuning_text({sample_record(RecordKind::kTuned), sample_record(RecordKind::kTuned, 8), later});
  const absl::StatusOr<TuningFile> file = parse_tuning(text);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->refused.empty());
  ASSERT_EQ(file->records.size(), 2u);
  EXPECT_EQ(file->records[0].splits, 1) << "the last record of a class is kept";
  EXPECT_EQ(parse_tuning(tuning_text({}))->records.size(), 0u);
  // Formatting does not matter.
  EXPECT_EQ(parse_tuning(Json::parse(text).dump(3))->records.size(), 2u);
}

// A damaged record is refused and the others are kept. A damaged file is refused as a whole.
TEST(TuningFile, RefusesDamagedRecordsAndDamagedFiles) {
  const std::string whole =
      tuning_text({sample_record(RecordKind::kTuned), sample_record(RecordKind::kTuned, 8)});
  std::set<std::string> legal = {serialize(sample_record(RecordKind::kTuned)),
                                 serialize(sample_record(RecordKind::kTuned, 8))};
  for (size_t size = 0; size + 1 < whole.size(); size += 5)
    EXPECT_FALSE(parse_tuning(whole.substr(0, size)).ok()) << size;
  int damaged = 0;
  for (size_t bit = 0; bit < whole.size() * 8; bit += 9) {
    if (!is_in_sample(sample_seed(), bit)) continue;
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const absl::StatusOr<TuningFile> file = parse_tuning(flipped);
    if (!file.ok()) continue;
    damaged += file->refused.size() == 1;
    EXPECT_EQ(file->records.size() + file->refused.size(), 2u) << bit;
    for (const PlanRecord& record : file->records) EXPECT_EQ(legal.count(serialize(record)), 1u) << bit;
  }
  EXPECT_GT(damaged, 250 / static_cast<int>(sample_divisor()));
  const auto file = parse_tuning(tuning_text({sample_record(RecordKind::kPlan)}));
  EXPECT_THAT(file->refused, testing::ElementsAre(HasSubstr("its kind is not \"tuned\"")));
  EXPECT_THAT(std::string(parse_tuning("{\"lathe_tuning\": 2, \"records\": []}").status().message()),
              HasSubstr("version 2, but this library reads version 1"));
  EXPECT_FALSE(parse_tuning("{\"lathe_tuning\": 1, \"records\": [], \"more\": 1}").ok());
  Json many = Json::parse(tuning_text({}));
  many["records"] = std::vector<int>(100001);
  EXPECT_THAT(error_of_file(many.dump()), HasSubstr("not an array of at most 100000 records"));
  EXPECT_THAT(error_of_file("{\"lathe_tuning\": 1, \"records\": {}}"), HasSubstr("not an array"));
  EXPECT_THAT(error_of_file(std::string((64 << 20) + 1, ' ')), HasSubstr("more than the limit of 67108864"));
}

TEST(JsonObject, EqualsAnInitializerList) {
  const Json list = {{"m", 7}, {"name", "x"}, {"none", nullptr}, {"inner", {{"a", 1.5}, {"b", {1, 2}}}}};
  const Json object = json_object("m", 7, "name", "x", "none", nullptr, "inner",
                                  json_object("a", 1.5, "b", std::vector<int>{1, 2}));
  EXPECT_EQ(object.dump(), list.dump());
  EXPECT_EQ(json_object().dump(), "{}");
}

}  // namespace
}  // namespace lathe
