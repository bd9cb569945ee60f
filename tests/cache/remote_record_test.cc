// Plan and tuning records in the remote store, with a real redis-server and with fake servers that misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/entry_file.h"
#include "cache/pack.h"
#include "remote_fixture.h"
#include "tests/sample_record.h"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RemoteRecordTest : public RemoteTest {
 protected:
  static bool reads(ArtifactCache& cache, const PlanRecord& record) {
    const absl::StatusOr<PlanRecord> read = cache.read_record(record.kind, key_of(record));
    return read.ok() && serialize(*read) == serialize(record);
  }
  static bool misses(ArtifactCache& cache, const PlanRecord& record) {
    return absl::IsNotFound(cache.read_record(record.kind, key_of(record)).status());
  }
  static PlanRecord measured_anew(PlanRecord record) {
    record.measured[0].measured_seconds *= 0.5;
    record.splits = 1;
    return record;
  }
  static std::string record_name(const PlanRecord& record) {
    return "test:record1:" + key_of(record).fingerprint;
  }
  int64_t listed_bytes() { return ask({"STRLEN", "test:tuned1"})->integer; }

  const PlanRecord plan_ = sample_record(RecordKind::kPlan), tuned_ = sample_record(RecordKind::kTuned);
};

TEST_F(RemoteRecordTest, AnotherMachineReadsAndKeepsRecords) {
  NEEDS_REDIS();
  ASSERT_TRUE(machine("a", url())->write_record(plan_).ok());
  ASSERT_TRUE(machine("a", url())->write_record(tuned_).ok());
  EXPECT_EQ(ask({"GET", record_name(tuned_)})->text, make_entry(key_of(tuned_).text, serialize(tuned_)));
  const auto b = machine("b", url());
  EXPECT_TRUE(reads(*b, plan_));
  EXPECT_TRUE(reads(*b, tuned_));
  EXPECT_TRUE(misses(*b, sample_record(RecordKind::kPlan, 8)));
  EXPECT_TRUE(misses(*b, sample_record(RecordKind::kTuned, 8)));
  const auto alone = machine("b", "");
  EXPECT_TRUE(reads(*alone, plan_)) << "it has written the record to disk";
  EXPECT_TRUE(reads(*alone, tuned_));
  EXPECT_EQ(alone->list()->records.size(), 2u);
  // A cache without a directory also reads and writes records.
  CacheOptions diskless = options_for("");
  diskless.remote = url();
  const auto c = make_cache(diskless);
  EXPECT_TRUE(c->keeps_records());
  EXPECT_TRUE(reads(*c, tuned_));
  const PlanRecord more = sample_record(RecordKind::kTuned, 40);
  EXPECT_TRUE(c->write_record(more).ok());
  EXPECT_TRUE(reads(*machine("d", url()), more));
  EXPECT_THAT(warnings_, IsEmpty());
}

// The record that was measured last replaces those that other machines took over earlier.
TEST_F(RemoteRecordTest, NewerMeasurementReplacesTheLocalRecord) {
  NEEDS_REDIS();
  ASSERT_TRUE(machine("a", url())->write_record(tuned_).ok());
  ASSERT_TRUE(reads(*machine("b", url()), tuned_));
  const PlanRecord anew = measured_anew(tuned_);
  ASSERT_TRUE(machine("c", url())->write_record(anew).ok());
  EXPECT_TRUE(reads(*machine("b", url()), anew));
  EXPECT_TRUE(reads(*machine("b", ""), anew)) << "on disk too";
  EXPECT_TRUE(reads(*machine("a", url()), anew));
  // An import does not replace the newer record, and writes to the directory only.
  const std::string bundle = scratch_ + "/bundle";
  ASSERT_TRUE(machine("old", "")->write_record(tuned_).ok());
  ASSERT_TRUE(write_bundle(bundle, {scratch_ + "/old"}, [](absl::string_view) { return true; }).ok());
  const auto importing = machine("e", url());
  EXPECT_EQ(import_bundle(bundle, *importing)->records, 1u);
  EXPECT_TRUE(reads(*machine("e", ""), tuned_));
  EXPECT_TRUE(reads(*importing, anew));
  EXPECT_THAT(warnings_, IsEmpty());
}

// For many classes that were never tuned, a process asks the server once, for the list.
TEST_F(RemoteRecordTest, ReadsTheListOnceForAllClasses) {
  NEEDS_REDIS();
  const auto asked = [&] {
    const std::string text = ask({"INFO", "commandstats"})->text;
    const size_t at = text.find("cmdstat_get:calls=");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 18);
  };
  ASSERT_TRUE(machine("a", url())->write_record(tuned_).ok());
  const int before = asked();
  const auto b = machine("b", url());
  for (int m = 100; m < 130; ++m) {
    PlanRecord other = sample_record(RecordKind::kTuned);
    other.problem.n = m;
    EXPECT_TRUE(misses(*b, other));
  }
  EXPECT_EQ(asked() - before, 1);
  EXPECT_TRUE(reads(*b, tuned_));
  EXPECT_TRUE(reads(*b, tuned_));
  EXPECT_EQ(asked() - before, 2) << "after the first read it is on disk";
}

// However often a class is measured, the list stays below a bound. A damaged list is repaired.
TEST_F(RemoteRecordTest, RewritesTheListWhenMostOfItIsOutdated) {
  NEEDS_REDIS();
  const auto cache = machine("a", url());
  PlanRecord record = tuned_;
  const PlanRecord other = sample_record(RecordKind::kTuned, 40);
  ASSERT_TRUE(cache->write_record(other).ok());
  int64_t most = 0;
  for (int i = 1; i <= 200; ++i) {
    record.measured[0].measured_seconds = i * 1e-6;
    ASSERT_TRUE(cache->write_record(record).ok());
    most = std::max(most, listed_bytes());
  }
  EXPECT_GT(most, 16 * 10);
  EXPECT_LE(most, 16 * 70);
  const int64_t bytes = listed_bytes();
  ASSERT_TRUE(cache->write_record(record).ok());
  EXPECT_EQ(listed_bytes(), bytes) << "an unchanged record is not listed again";
  EXPECT_TRUE(reads(*machine("b", url()), record));
  EXPECT_TRUE(reads(*machine("b", url()), other));
  // Part of a pair at the end of the list.
  ASSERT_TRUE(ask({"APPEND", "test:tuned1", "garbage"}).ok());
  EXPECT_TRUE(reads(*machine("c", url()), record));
  ASSERT_TRUE(cache->write_record(measured_anew(record)).ok());
  EXPECT_EQ(listed_bytes(), 2 * 16);
  EXPECT_TRUE(reads(*machine("d", url()), measured_anew(record)));
  EXPECT_TRUE(reads(*machine("d", url()), other));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RemoteRecordTest, WrongOrDamagedRecordIsAMiss) {
  NEEDS_REDIS();
  const auto a = machine("a", url());
  for (const PlanRecord& record : {plan_, tuned_}) {
    ASSERT_TRUE(a->write_record(record).ok());
    const PlanRecord other = sample_record(record.kind, 40);
    const Key key = key_of(record);
    const std::string whole = make_entry(key.text, serialize(record));
    std::vector<std::string> wrong = {"",
                                      whole + "x",
                                      make_entry(key_of(other).text, serialize(other)),
                                      make_entry(key.text, serialize(other)),
                                      make_entry(key.text, serialize(artifact(key))),
                                      make_entry(key.text, "{}"),
                                      std::string(1 << 20, '{')};
    Json later = to_json(record);
    later["lathe_record"] = 3;
    wrong.push_back(make_entry(key.text, canonical_text(later)));
    for (size_t size = 1; size < whole.size(); size += 97) wrong.push_back(whole.substr(0, size));
    for (size_t bit = 0; bit < whole.size() * 8; bit += 311) {
      wrong.push_back(whole);
      wrong.back()[bit / 8] = static_cast<char>(wrong.back()[bit / 8] ^ (1 << bit % 8));
    }
    const auto b = machine("b", url());
    const uint64_t rejects = b->statistics().remote_rejects;
    for (const std::string& bytes : wrong) {
      ASSERT_TRUE(ask({"SET", record_name(record), bytes}).ok());
      ASSERT_TRUE(misses(*b, record));
    }
    EXPECT_EQ(b->statistics().remote_rejects - rejects, wrong.size());
    EXPECT_THAT(warnings_.back(), HasSubstr("the remote store's record " + key.fingerprint + " is refused"));
    EXPECT_TRUE(reads(*machine("a", url()), record)) << "the local record is kept";
    ASSERT_TRUE(a->write_record(record).ok());
    EXPECT_TRUE(reads(*b, record)) << "writing the record again repairs it";
  }
}

// A list with a wrong digest costs one read, and a damaged list hides its records, but no wrong record is
// used.
TEST_F(RemoteRecordTest, WrongListNeverGivesAWrongRecord) {
  NEEDS_REDIS();
  ASSERT_TRUE(machine("a", url())->write_record(tuned_).ok());
  std::string list = ask({"GET", "test:tuned1"})->text;
  ASSERT_EQ(list.size(), 16u);
  list[12] = static_cast<char>(~list[12]);
  ASSERT_TRUE(ask({"SET", "test:tuned1", list}).ok());
  EXPECT_TRUE(reads(*machine("a", url()), tuned_)) << "the digest differs, so it is read again";
  EXPECT_TRUE(reads(*machine("b", url()), tuned_));
  ASSERT_TRUE(ask({"DEL", record_name(tuned_)}).ok());
  EXPECT_TRUE(reads(*machine("a", url()), tuned_)) << "it is gone, so the local record is kept";
  EXPECT_TRUE(misses(*machine("c", url()), tuned_));
  ASSERT_TRUE(ask({"SET", "test:tuned1", "x"}).ok());
  EXPECT_TRUE(misses(*machine("c", url()), tuned_));
  EXPECT_THAT(warnings_, IsEmpty());
  ASSERT_TRUE(ask({"DEL", "test:tuned1"}).ok());
  ASSERT_TRUE(ask({"LPUSH", "test:tuned1", "x"}).ok());
  EXPECT_TRUE(reads(*machine("a", url()), tuned_));
  EXPECT_TRUE(machine("a", url())->write_record(measured_anew(tuned_)).ok()) << "it is written to disk";
  EXPECT_TRUE(reads(*machine("a", ""), measured_anew(tuned_)));
}

// Whatever the server does, all record reads of a start wait for it only once, and local records still work.
TEST_F(RemoteRecordTest, FailingServerCostsTheTimeLimitOnce) {
  ASSERT_TRUE(machine("m", "")->write_record(tuned_).ok());
  const std::pair<const char*, std::function<void(int)>> ways[] = {
      {"never answers", [](int) {}},
      {"closes", [](int client) { shutdown(client, SHUT_RDWR); }},
      {"sends an array of a billion", [](int client) { say(client, "*1000000000\r\n"); }},
      {"promises a terabyte", [](int client) { say(client, "$1099511627776\r\nabc"); }},
      {"sends a number", [](int client) { say(client, ":5\r\n"); }},
      {"sends a list of more than all classes",
       [](int client) { say(client, bulk(std::string(7 << 20, 'x'))); }},
      {"truncates", [](int client) { say(client, "$100\r\nabc"), shutdown(client, SHUT_RDWR); }},
  };
  const auto calls = [&](ArtifactCache& cache) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(reads(cache, tuned_));
      EXPECT_TRUE(misses(cache, sample_record(RecordKind::kTuned, 40)));
      EXPECT_TRUE(misses(cache, sample_record(RecordKind::kPlan, 41)));
      EXPECT_TRUE(cache.write_record(tuned_).ok());
    }
  };
  const double alone = seconds_of([&] { calls(*machine("m", "")); });
  for (const auto& [what, answer] : ways) {
    SCOPED_TRACE(what);
    const LyingServer server(answer);
    warnings_.clear();
    const auto cache = machine("m", server.url());
    const double took = seconds_of([&] { calls(*cache); });
    EXPECT_LT(took, granted(RemoteStore::kConnectSeconds + 2 * RemoteStore::kCommandSeconds, alone));
    EXPECT_LE(warnings_.size(), 1u);
  }
}

TEST_F(RemoteRecordTest, ServerThatRefusesWritesIsStillRead) {
  NEEDS_REDIS();
  ASSERT_TRUE(machine("a", url())->write_record(tuned_).ok());
  ASSERT_TRUE(ask({"CONFIG", "SET", "maxmemory", "1"}).ok());
  const auto b = machine("b", url());
  EXPECT_TRUE(b->write_record(plan_).ok());
  EXPECT_TRUE(reads(*b, tuned_));
  EXPECT_TRUE(reads(*b, plan_));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("refuses a write: OOM"));
}

TEST_F(RemoteRecordTest, ForkedProcessReadsItsOwnList) {
  NEEDS_REDIS();
  const auto cache = machine("a", url());
  ASSERT_TRUE(misses(*cache, tuned_));
  ASSERT_TRUE(machine("b", url())->write_record(tuned_).ok());
  EXPECT_TRUE(misses(*cache, tuned_)) << "its list is not read again yet";
  const pid_t child = fork();
  if (child == 0) _exit(reads(*cache, tuned_) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lathe
