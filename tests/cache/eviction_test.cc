#include "cache/eviction.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "cache/file_io.h"
#include "cache_fixture.h"
#include "tests/sample_record.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EvictionTest : public CacheFixture {
 protected:
  // An artifact whose entry has about 1000 bytes.
  static Artifact large(const Key& key) {
    Artifact a = artifact(key);
    a.code += std::string(700, '.');
    return a;
  }
  CacheOptions capped(uint64_t bytes) {
    CacheOptions o = options();
    o.cap_bytes = bytes;
    return o;
  }
  // Uses a new cache, which to the store is like a new process.
  void make(int n, uint64_t cap = kNoCap) {
    ASSERT_TRUE(make_cache(capped(cap))->get_or_create(key(n), [&] { return large(key(n)); }).ok());
  }
  bool is_there(int n) const { return std::filesystem::exists(entry_path(key(n))); }
  bool hit(int n) { return make_cache(options())->get(key(n)).ok(); }
  uint64_t entry_bytes() const {
    uint64_t sum = 0;
    for (const std::string& name : names()) {
      std::error_code gone;
      const uint64_t bytes = std::filesystem::file_size(directory_ + "/" + name, gone);
      if (!gone) sum += bytes;
    }
    return sum;
  }
  void stamp(int n, time_t when) const {
    const timespec times[2] = {{when, 0}, {when, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, entry_path(key(n)).c_str(), times, 0), 0);
  }
};

TEST_F(EvictionTest, EvictsLeastRecentlyUsedFirst) {
  for (int n = 0; n < 8; ++n) make(n);
  const uint64_t one = std::filesystem::file_size(entry_path(key(0)));
  ASSERT_TRUE(hit(0));
  ASSERT_TRUE(hit(3));
  make(8, 8 * one + 100);  // 9 entries do not fit; evicts down to 7
  EXPECT_TRUE(is_there(0) && is_there(3) && is_there(8));
  EXPECT_FALSE(is_there(1) || is_there(2));
  EXPECT_EQ(names().size(), 7u);
}

TEST_F(EvictionTest, OrderComesFromTheJournalNotFromTimeStamps) {
  for (int n = 0; n < 4; ++n) make(n);
  const uint64_t one = std::filesystem::file_size(entry_path(key(0)));
  // The oldest entry gets a time stamp in the far future, the newest one in 1970.
  const time_t stamps[] = {4102444800, 1900000000, 86400, 1};
  for (int n = 0; n < 4; ++n) stamp(n, stamps[n]);
  for (int left = 3; left >= 1; --left) {
    EXPECT_EQ(make_cache(options())->prune(static_cast<uint64_t>(left) * one + 50).value(), 1u);
    for (int n = 0; n < 4; ++n) EXPECT_EQ(is_there(n), n >= 4 - left) << n << " of " << left;
  }
}

TEST_F(EvictionTest, RecordKeepsItsOrderWhenTheJournalIsRewritten) {
  const PlanRecord record = sample_record(RecordKind::kTuned);
  make(1);
  ASSERT_TRUE(make_cache(options())->write_record(record).ok());
  rewrite_at_next_note();
  make(2);
  ASSERT_LT(std::filesystem::file_size(journal()), 1000u);
  EXPECT_EQ(make_cache(options())->prune(entry_bytes() - 1).value(), 1u);
  EXPECT_FALSE(is_there(1)) << "the least recently used";
  EXPECT_TRUE(is_there(2));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/" + key_of(record).fingerprint + ".record"));
}

TEST_F(EvictionTest, NeverExceedsTheCap) {
  constexpr uint64_t kCap = 10000;
  const auto cache = make_cache(capped(kCap));
  for (int n = 0; n < 200; ++n) {
    ASSERT_TRUE(cache->get_or_create(key(n), [&] { return large(key(n)); }).ok());
    ASSERT_LE(entry_bytes(), kCap);
    ASSERT_TRUE(is_there(n));
  }
  EXPECT_GE(entry_bytes(), kCap / 2);
  EXPECT_EQ(cache->statistics().evictions, 200 - names().size());
  EXPECT_THAT(warnings_, IsEmpty());
  for (int n = 0; n < 200; ++n) EXPECT_EQ(cache->get(key(n))->outcome, CacheOutcome::kMemoryHit);
}

TEST_F(EvictionTest, EntryLargerThanTheCapStaysInMemory) {
  make(1);
  const auto cache = make_cache(capped(500));
  EXPECT_TRUE(cache->get_or_create(key(2), [&] { return large(key(2)); }).ok());
  EXPECT_TRUE(cache->get(key(2)).ok());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("larger than the limit of 500")));
  EXPECT_TRUE(is_there(1)) << "evicting it would not have helped";
  EXPECT_FALSE(is_there(2));
}

TEST_F(EvictionTest, OpenEntryStaysReadableAfterEviction) {
  make(1);
  const std::string before = read_file(entry_path(key(1)));
  const FileDescriptor opened = open_file(AT_FDCWD, entry_path(key(1)), O_RDONLY);
  ASSERT_TRUE(opened.valid());
  EXPECT_EQ(make_cache(options())->prune(0).value(), 1u);
  EXPECT_FALSE(is_there(1));
  std::string after(before.size(), '\0');
  ASSERT_TRUE(read_whole(opened.get(), &after).ok());
  EXPECT_EQ(after, before);
}

// Writers with a small cap, a process that prunes, and readers run at once. Each must get the right artifact
// or a miss, with no warning. Two writers may exceed the cap by entries that the third has not seen; the next
// write corrects that.
TEST_F(EvictionTest, ReadersDuringEvictionGetTheRightArtifactOrAMiss) {
  constexpr int kKeys = 24;
  const auto start = [](const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    return child;
  };
  const auto is_large = [](const absl::StatusOr<CacheResult>& r, const Key& k) {
    return r.ok() && serialize(*r->artifact) == serialize(large(k));
  };
  std::vector<pid_t> children;
  for (int writer = 0; writer < 3; ++writer)
    children.push_back(start([&, writer] {
      for (int round = 0; round < 200; ++round) {
        const Key k = key((round * 7 + writer * 5) % kKeys);
        if (!is_large(make_cache(capped(8000))->get_or_create(k, [&] { return large(k); }), k)) return false;
      }
      return warnings_.empty();
    }));
  children.push_back(start([&] {
    for (int round = 0; round < 100; ++round) (void)make_cache(options())->prune(3000).value();
    return warnings_.empty();
  }));
  for (int reader = 0; reader < 2; ++reader)
    children.push_back(start([&] {
      for (int round = 0; round < 1000; ++round) {
        const auto cache = make_cache(options());
        const Key k = key(round % kKeys);
        const auto result = cache->get(k);
        if (!is_large(result, k) && !absl::IsNotFound(result.status())) return false;
        if (cache->statistics().disk_rejects != 0) return false;
      }
      return warnings_.empty();
    }));
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  constexpr uint64_t kMostOfOne = 1100;
  EXPECT_LE(entry_bytes(), 8000 + 2 * kMostOfOne);
  make(kKeys, 8000);
  EXPECT_LE(entry_bytes(), 8000u);
}

// If the journal is unusable, entries are still written and evicted.
TEST_F(EvictionTest, UnusableJournalLosesOnlyTheOrder) {
  const std::string journal = this->journal();
  const std::function<void()> spoils[] = {
      [&] { write_file(journal, std::string(100000, '\xff')); },
      [&] {
        write_file(journal, key(1).fingerprint + " 99999999999999999999999 1\n\n \n" + key(1).fingerprint);
      },
      [&] { std::filesystem::create_symlink(scratch_ + "/elsewhere", journal); },
      [&] { ASSERT_EQ(mkfifo(journal.c_str(), 0600), 0); },
      [&] { std::filesystem::create_directory(journal); },
      [&] {
        write_file(journal, "");
        ASSERT_EQ(chmod(journal.c_str(), 0666), 0);
      }};
  for (const auto& spoil : spoils) {
    std::filesystem::remove_all(directory_);
    make(0);
    std::filesystem::remove(journal);
    spoil();
    for (int n = 1; n < 6; ++n) make(n, 4000);
    EXPECT_TRUE(is_there(5) || names().size() >= 2);
    EXPECT_LE(entry_bytes(), 4000u);
    for (int n = 0; n < 6; ++n) EXPECT_EQ(hit(n), is_there(n));
    EXPECT_FALSE(std::filesystem::exists(scratch_ + "/elsewhere"));
    EXPECT_THAT(warnings_, IsEmpty());
  }
}

}  // namespace
}  // namespace lathe
