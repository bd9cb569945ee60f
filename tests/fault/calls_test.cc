// Every file-system call of the store fails in turn, in every way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <map>

#include "cache/bundle.h"
#include "cache/store_files.h"
#include "interpose.h"
#include "store_fixture.h"
#include "tests/sample_record.h"

namespace lathe::fault {
namespace {

struct Fault {
  const char* name;
  Way way;
  int error;
};
constexpr Fault kFaults[] = {{"EIO", Way::kErrno, EIO},
                             {"ENOSPC", Way::kErrno, ENOSPC},
                             {"EACCES", Way::kErrno, EACCES},
                             {"ESTALE", Way::kErrno, ESTALE},
                             {"EINTR", Way::kErrno, EINTR},
                             {"EDQUOT", Way::kErrno, EDQUOT},
                             {"EOPNOTSUPP", Way::kErrno, EOPNOTSUPP},
                             {"lost", Way::kLost, 0},
                             {"lost, EIO", Way::kLost, EIO},
                             {"short", Way::kShort, 0}};

class CallsTest : public StoreFixture {
 protected:
  static constexpr int kKeys = 8;
  absl::StatusOr<PackReport> packed_, imported_;
  absl::StatusOr<CacheListing> listed_;
  absl::StatusOr<uint64_t> pruned_, cleared_;

  // Puts keys 0 to 3 and a killed process's temporary on disk, and key 4 in a bundle. The other keys are
  // nowhere.
  void prepare() {
    std::filesystem::remove_all(scratch_);
    std::filesystem::create_directory(scratch_);
    put(key(4));
    ASSERT_TRUE(write_bundle(bundle(), {directory_}, [](absl::string_view) { return true; }).ok());
    std::filesystem::remove_all(directory_);
    for (int n = 0; n < 4; ++n) put(key(n));
    write_file(directory_ + "/.tmp-" + key(7).fingerprint + "-1-0-a", "left behind");
  }
  std::string bundle() const { return scratch_ + "/a.bundle"; }
  CacheOptions with_bundle() {
    CacheOptions o = options();
    o.bundles = {bundle()};
    o.cap_bytes = 5 * std::filesystem::file_size(entry_path(key(0))) + 10;  // the sixth entry evicts others
    o.lock_timeout_seconds = 0.05;
    return o;
  }

  // Loads, compiles, publishes, evicts and prunes. Every kernel must arrive, whatever fails.
  void use(const CacheOptions& o) {
    const auto cache = make_cache(o);
    for (int n : {0, 4, 5, 6, 7, 1}) {
      const auto result = cache->get_or_create(key(n), [&] { return artifact(key(n)); });
      EXPECT_TRUE(is_for(result, key(n))) << "key " << n << ": " << result.status();
    }
    const auto missing = cache->get(key(100));
    EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
    pruned_ = cache->prune(kPruned);
  }
  static constexpr uint64_t kPruned = 1000;
  uint64_t bytes_of_entries() const {
    uint64_t bytes = 0;
    for (const std::string& name : names())
      if (is_entry(name)) bytes += std::filesystem::file_size(directory_ + "/" + name);
    return bytes;
  }
  void check_pruned() {
    if (pruned_.ok()) EXPECT_LE(bytes_of_entries(), kPruned);
    expect_cause(pruned_.status());
  }
  // A failed operation must name the directory and the cause.
  void expect_cause(const absl::Status& status) {
    if (!status.ok()) EXPECT_THAT(std::string(status.message()), testing::HasSubstr(directory_ + ": "));
  }
  // Lists, packs and imports. A reported success must be complete.
  void administer() {
    const std::string out = scratch_ + "/out.bundle";
    listed_ = make_cache(options())->list();
    packed_ = write_bundle(out, {directory_, bundle()}, [](absl::string_view) { return true; });
    imported_ = import_bundle(bundle(), *make_cache(options()));
  }
  void check_administered() {
    expect_cause(listed_.status());
    if (listed_.ok()) EXPECT_EQ(listed_->entries.size() + listed_->defects.size(), 4u);
    check_bundle();
    if (!imported_.ok()) return;
    EXPECT_EQ(imported_->entries + imported_->duplicates + imported_->defects, 1u);
    if (imported_->entries == 1) EXPECT_TRUE(is_for(make_cache(options())->get(key(4)), key(4)));
  }
  void check_cleared() {
    expect_cause(cleared_.status());
    if (!cleared_.ok()) return;
    EXPECT_EQ(bytes_of_entries(), 0u);
    // If the reply to a removal was lost, the store cannot know who removed the file and may not count it.
    EXPECT_GE(*cleared_, 3u);
    EXPECT_LE(*cleared_, 4u);
  }
  // Writes new and existing records and reads them. A read must give the written record or a miss.
  void record() {
    CacheOptions o = options();
    o.bundles = {bundle()};
    for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kTuned})
      for (const int64_t m : {1, 2, 3}) {
        const PlanRecord written = sample_record(kind, m);
        (void)make_cache(o)->write_record(written);
        (void)make_cache(o)->store_record(written);
        check_record(*make_cache(o), written);
      }
  }
  static void check_record(ArtifactCache& cache, const PlanRecord& written) {
    const auto read = cache.read_record(written.kind, key_of(written));
    if (read.ok())
      EXPECT_EQ(serialize(*read), serialize(written));
    else
      EXPECT_TRUE(absl::IsNotFound(read.status())) << read.status();
  }
  void check_records() {
    const auto cache = make_cache(options());
    for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kTuned})
      for (const int64_t m : {1, 2, 3}) check_record(*cache, sample_record(kind, m));
    EXPECT_EQ(cache->statistics().disk_rejects, 0u) << "a defective record was published";
  }
  void check_bundle() {
    const auto opened = Bundle::open(scratch_ + "/out.bundle");
    ASSERT_EQ(opened.ok(), packed_.ok()) << opened.status() << packed_.status();
    if (!packed_.ok()) {
      for (const auto& file : std::filesystem::directory_iterator(scratch_))
        EXPECT_EQ(file.path().string().find("out.bundle"), std::string::npos)
            << file.path() << " was left behind";
      return;
    }
    EXPECT_EQ(packed_->entries + packed_->defects, 5u) << "some entries were skipped without being counted";
    EXPECT_EQ((*opened)->size(), packed_->entries);
    for (size_t i = 0; i < (*opened)->size(); ++i) {
      const Key k = key_from_text(std::string((*opened)->key_text(i)));
      const auto read = (*opened)->read(k);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(serialize(*read), serialize(artifact(k)));
    }
  }

  enum class Start { kFull, kNoDirectory };

  // Repeats `body`, each time with another failing call. Prints how many calls failed, by name.
  template <typename Body, typename Check>
  void campaign(const char* what, Start start, int least, Body&& body, Check&& check) {
    for (const Fault& fault : kFaults) {
      std::map<std::string, int> tried;
      for (int64_t index = 1;; ++index) {
        prepare();
        const CacheOptions o = with_bundle();
        if (start == Start::kNoDirectory) std::filesystem::remove_all(directory_);
        arm({fault.way, fault.error, index});
        body(o);
        const bool reached = disarm();
        const std::string call = failed_call();
        SCOPED_TRACE(std::string(fault.name) + " of call " + std::to_string(index) + ", " + call);
        check();
        uint64_t rejects = 0;
        EXPECT_TRUE(all_right(kKeys, &rejects));
        EXPECT_EQ(rejects, 0u) << "a defective entry was published";
        EXPECT_THAT(left_over(50), testing::IsEmpty());
        if (HasFailure()) return;
        if (!reached) break;
        if (!call.empty()) ++tried[call];
      }
      int total = 0;
      std::string line;
      for (const auto& [call, count] : tried) {
        total += count;
        line += " " + call + " " + std::to_string(count);
      }
      std::printf("%s: %-10s %4d calls failed, 0 wrong, 0 aborts:%s\n", what, fault.name, total,
                  line.c_str());
      if (fault.way == Way::kErrno) EXPECT_GT(total, least);
    }
  }
};

TEST_F(CallsTest, FirstUseSurvivesEveryFailingCall) {
  directory_ = scratch_ + "/one/two/cache";
  campaign(
      "first use", Start::kNoDirectory, 100, [&](const CacheOptions& o) { use(o); }, [&] { check_pruned(); });
}

TEST_F(CallsTest, UseSurvivesEveryFailingCall) {
  campaign(
      "use", Start::kFull, 100, [&](const CacheOptions& o) { use(o); }, [&] { check_pruned(); });
}

TEST_F(CallsTest, AdministrationSurvivesEveryFailingCall) {
  campaign(
      "administration", Start::kFull, 100, [&](const CacheOptions&) { administer(); },
      [&] { check_administered(); });
}

TEST_F(CallsTest, ClearSurvivesEveryFailingCall) {
  campaign(
      "clearing", Start::kFull, 20, [&](const CacheOptions& o) { cleared_ = make_cache(o)->clear(); },
      [&] { check_cleared(); });
}

TEST_F(CallsTest, RecordsSurviveEveryFailingCall) {
  campaign(
      "records", Start::kFull, 100, [&](const CacheOptions&) { record(); }, [&] { check_records(); });
}

}  // namespace
}  // namespace lathe::fault
