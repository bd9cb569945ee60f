// Plan and tuning records in stores and bundles are kept and shipped like artifacts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "cache/entry_file.h"
#include "cache/file_io.h"
#include "cache/pack.h"
#include "cache_fixture.h"
#include "tests/sample_record.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

class RecordTest : public CacheFixture {
 protected:
  const PlanRecord plan_ = sample_record(RecordKind::kPlan), tuned_ = sample_record(RecordKind::kTuned);

  std::string path_of(const PlanRecord& record) const {
    return directory_ + "/" + key_of(record).fingerprint + ".record";
  }
  static bool has(ArtifactCache& cache, const PlanRecord& record) {
    const absl::StatusOr<PlanRecord> read = cache.read_record(record.kind, key_of(record));
    return read.ok() && serialize(*read) == serialize(record);
  }
  void write_both() {
    const auto cache = make_cache(options());
    ASSERT_TRUE(cache->write_record(plan_).ok());
    ASSERT_TRUE(cache->write_record(tuned_).ok());
  }
  std::string pack() {
    const std::string bundle = scratch_ + "/b";
    const auto report = write_bundle(bundle, {directory_}, [](absl::string_view) { return true; });
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->records, 2u);
    EXPECT_EQ(report->entries, 1u);
    EXPECT_EQ(report->payloads, 1u);
    return bundle;
  }
};

TEST_F(RecordTest, PersistBesideArtifacts) {
  write_both();
  put(key(1));
  const auto cache = make_cache(options());
  EXPECT_TRUE(has(*cache, plan_));
  EXPECT_TRUE(has(*cache, tuned_));
  EXPECT_TRUE(absl::IsNotFound(
      cache->read_record(RecordKind::kPlan, key_of(sample_record(RecordKind::kPlan, 8))).status()));
  const CacheListing listing = cache->list().value();
  EXPECT_EQ(listing.entries.size(), 1u);
  EXPECT_EQ(listing.records.size(), 2u);
  EXPECT_TRUE(listing.defects.empty());
  PlanRecord other = tuned_;
  other.splits = 1;
  EXPECT_EQ(cache->store_record(other).value(), false) << "the existing record is kept";
  EXPECT_TRUE(has(*cache, tuned_));
  EXPECT_TRUE(cache->write_record(other).ok());
  EXPECT_TRUE(has(*cache, other));
  EXPECT_EQ(cache->clear().value(), 1u) << "only kernels are counted";
  EXPECT_TRUE(names().empty());
  EXPECT_FALSE(has(*cache, other));
}

// Changes every bit and every length of the files of both kinds in place.
TEST_F(RecordTest, RejectsEveryFlippedBitAndTruncation) {
  write_both();
  const auto cache = make_cache(options());
  uint64_t tried = 0;
  for (const PlanRecord& record : {plan_, tuned_}) {
    const std::string whole = read_file(path_of(record));
    const Key key = key_of(record);
    const FileDescriptor file = open_file(AT_FDCWD, path_of(record), O_RDWR);
    const auto put = [&](size_t byte, char value) { ASSERT_EQ(pwrite(file.get(), &value, 1, byte), 1); };
    const auto expect_refused = [&](const char* what, size_t at) {
      EXPECT_TRUE(absl::IsNotFound(cache->read_record(record.kind, key).status())) << what << at;
      EXPECT_EQ(cache->statistics().disk_rejects, ++tried) << what << at;
    };
    for (size_t bit = 0; bit < whole.size() * 8 && !HasFailure(); ++bit) {
      put(bit / 8, static_cast<char>(whole[bit / 8] ^ 1 << bit % 8));
      expect_refused("bit ", bit);
      put(bit / 8, whole[bit / 8]);
    }
    EXPECT_TRUE(has(*cache, record)) << "the restored file is valid again";
    for (size_t size = whole.size(); size-- > 0 && !HasFailure();) {
      ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(size)), 0);
      expect_refused("length ", size);
    }
  }
}

// Any defect of a record is a miss, and so is an entry of another kind under its name.
TEST_F(RecordTest, DefectiveOrWrongRecordIsAMiss) {
  write_both();
  const std::string path = path_of(tuned_), whole = read_file(path);
  const auto refused = [&] {
    const auto cache = make_cache(options());
    const bool missed = absl::IsNotFound(cache->read_record(RecordKind::kTuned, key_of(tuned_)).status());
    return missed && cache->statistics().disk_rejects == 1 && cache->list()->defects.size() == 1;
  };
  write_file(path, whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(refused());
  // Valid files that do not match their name.
  write_file(path, make_entry(key_of(tuned_).text, serialize(artifact(key(1)))));
  EXPECT_TRUE(refused());
  write_file(path, make_entry(key_of(tuned_).text, serialize(plan_)));
  EXPECT_TRUE(refused());
  write_file(path, make_entry(key_of(plan_).text, serialize(plan_)));
  EXPECT_TRUE(refused());
  write_file(path, whole);
  EXPECT_TRUE(has(*make_cache(options()), tuned_));
  std::filesystem::rename(path, scratch_ + "/elsewhere");
  std::filesystem::create_symlink(scratch_ + "/elsewhere", path);
  EXPECT_TRUE(refused()) << "a symbolic link";
}

TEST_F(RecordTest, AreCarriedByBundles) {
  write_both();
  put(key(1));
  const std::string bundle = pack();
  CacheOptions from_bundle = options_for("");
  from_bundle.bundles = {bundle};
  EXPECT_TRUE(has(*make_cache(from_bundle), plan_));
  EXPECT_TRUE(has(*make_cache(from_bundle), tuned_));
  EXPECT_TRUE(is_for(make_cache(from_bundle)->get(key(1)), key(1)));
  // If two sources have a record of one key, the first is kept.
  PlanRecord other = tuned_;
  other.splits = 1;
  std::filesystem::remove_all(directory_);
  ASSERT_TRUE(make_cache(options())->write_record(other).ok());
  const std::string merged = scratch_ + "/merged";
  const auto report = write_bundle(merged, {bundle, directory_}, [](absl::string_view) { return true; });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 2u);
  from_bundle.bundles = {merged};
  EXPECT_TRUE(has(*make_cache(from_bundle), tuned_));
  // An import keeps existing records.
  const auto cache = make_cache(options());
  const auto imported = import_bundle(merged, *cache);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->records, 1u);
  EXPECT_EQ(imported->entries, 1u);
  EXPECT_TRUE(has(*cache, other));
  EXPECT_TRUE(has(*cache, plan_));
}

TEST_F(RecordTest, DamagedRecordInABundleIsAMiss) {
  write_both();
  put(key(1));
  const std::string bundle = pack(), whole = read_file(bundle);
  size_t defects = 0;
  for (size_t byte = 0; byte < whole.size(); byte += 29) {
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 0x10);
    write_file(bundle, flipped);
    CacheOptions from_bundle = options_for("");
    from_bundle.bundles = {bundle};
    const auto cache = make_cache(from_bundle);
    for (const PlanRecord& record : {plan_, tuned_}) {
      const absl::StatusOr<PlanRecord> read = cache->read_record(record.kind, key_of(record));
      if (read.ok()) EXPECT_EQ(serialize(*read), serialize(record)) << byte;
    }
    defects += cache->statistics().disk_rejects;
  }
  EXPECT_GT(defects, whole.size() / 60);
}

TEST_F(RecordTest, AreEvictedLikeEntries) {
  write_both();
  put(key(1));
  const auto cache = make_cache(options());
  EXPECT_EQ(cache->prune(0).value(), 1u);
  EXPECT_TRUE(names().empty());
}

// Reads and writes of records change no totals, neither those of entries nor those of removed ones.
TEST_F(RecordTest, AreNotCountedAsUses) {
  write_both();
  put(key(1));
  EXPECT_TRUE(has(*make_cache(options()), plan_));
  EXPECT_TRUE(has(*make_cache(options()), tuned_));
  EXPECT_EQ(make_cache(options())->prune(0).value(), 1u);
  rewrite_at_next_note();
  put(key(2));
  const CacheListing listing = make_cache(options())->list().value();
  EXPECT_EQ(listing.hits_of_removed, 0u);
  EXPECT_EQ(listing.made_of_removed, 1u) << "the artifact was written once";
}

// Records that a later version of the library wrote, in the store or in a bundle, are misses but not defects.
TEST_F(RecordTest, OtherVersionsAreNotDefects) {
  write_both();
  put(key(1));
  Json later = to_json(tuned_), later_key = Json::parse(key_of(tuned_).text);
  later["lathe_record"] = 3;
  later["more"] = {1, 2};
  later_key["version"] = 3;
  const Key theirs = key_from_text(canonical_text(later_key));
  const std::string path = directory_ + "/" + theirs.fingerprint + ".record";
  write_file(path, make_entry(theirs.text, canonical_text(later)));
  const auto cache = make_cache(options());
  EXPECT_TRUE(has(*cache, tuned_)) << "other records are still read";
  const CacheListing listing = cache->list().value();
  EXPECT_EQ(listing.records.size(), 2u);
  EXPECT_TRUE(listing.defects.empty()) << listing.defects[0].cause;
  EXPECT_EQ(cache->statistics().disk_rejects, 0u);
  pack();  // expects the same number of records
  const std::string bundle = scratch_ + "/theirs";
  write_file(bundle, make_bundle("{\"kind\":\"kernels\"}", {{theirs.text, canonical_text(later)},
                                                            {key_of(plan_).text, serialize(plan_)}}));
  const auto report = write_bundle(scratch_ + "/merged", {bundle}, [](absl::string_view) { return true; });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 1u);
  EXPECT_EQ(report->defects, 0u);
  std::filesystem::remove_all(directory_);
  const auto imported = import_bundle(bundle, *make_cache(options()));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->records, 1u);
  EXPECT_EQ(imported->defects, 0u);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(RecordTest, AreNotAvailableWithoutADirectory) {
  const auto cache = make_cache(options_for(""));
  EXPECT_TRUE(absl::IsUnavailable(cache->write_record(plan_)));
  EXPECT_TRUE(absl::IsNotFound(cache->read_record(RecordKind::kPlan, key_of(plan_)).status()));
}

}  // namespace
}  // namespace lathe
