// A store that several machines share through a network file system: lost replies, locks that other machines
// do not see, names that are listed twice, and errors at close.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "cache/eviction.h"
#include "cache/file_io.h"
#include "cache/store_files.h"
#include "cache/use_journal.h"
#include "interpose.h"
#include "store_fixture.h"

namespace lathe::fault {
namespace {

class NetworkTest : public StoreFixture {
 protected:
  void TearDown() override {
    set_locks(Locks::kReal);
    set_names_twice(false);
    StoreFixture::TearDown();
  }
  void start_anew(int keys) {
    std::filesystem::remove_all(directory_);
    for (int n = 0; n < keys; ++n) put(key(n));
  }
  size_t entries() const {
    const std::vector<std::string> all = names();
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const auto& n) { return is_entry(n); }));
  }
  FileDescriptor open_directory() const { return open_file(AT_FDCWD, directory_, O_RDONLY | O_DIRECTORY); }
  // The name of a temporary file that the machine `host` made.
  std::string temporary(const std::string& host) const {
    return ".tmp-" + key(9).fingerprint + "-" + host + "-1-0-a";
  }
};

constexpr char kAnotherHost[] = "00000000000000ff";

// Loses the reply of each call in turn. The request still succeeds, without a warning.
TEST_F(NetworkTest, LostReplyLosesNoEntry) {
  for (const int error : {0, EIO}) {
    for (int64_t index = 1;; ++index) {
      start_anew(1);
      warnings_.clear();
      arm({Way::kLost, error, index});
      const auto result = make_cache(options())->get_or_create(key(1), [&] { return artifact(key(1)); });
      const bool reached = disarm();
      const std::string call = failed_call();
      EXPECT_TRUE(is_for(result, key(1)));
      // If the open of a temporary fails with EIO, the write may fail: a lost reply looks like a real error.
      if (error == 0 || call != "openat") {
        EXPECT_EQ(entries(), 2u) << call;
        EXPECT_TRUE(warnings_.empty()) << call << ": " << warnings_.front();
      }
      if (!reached) break;
    }
  }
}

TEST_F(NetworkTest, EntryReplacedDuringAReadIsReadAgain) {
  start_anew(1);
  bool tried = false;
  for (int64_t index = 1;; ++index) {
    const auto cache = make_cache(options());
    arm({Way::kErrno, ESTALE, index});
    const auto result = cache->get(key(0));
    const bool reached = disarm();
    if (failed_call() == std::string("read")) {
      tried = true;
      EXPECT_TRUE(is_for(result, key(0))) << result.status();
    }
    if (!reached) break;
  }
  EXPECT_TRUE(tried);
}

// If several machines evict the same entries, each also counts the space that another one freed.
TEST_F(NetworkTest, MachinesThatEvictTogetherRemoveNoMoreThanOneWould) {
  start_anew(8);
  const uint64_t bytes = 4 * std::filesystem::file_size(entry_path(key(0)));
  for (int64_t index = 1;; ++index) {
    start_anew(8);
    arm({Way::kLost, ENOENT, index});
    const absl::StatusOr<StoreSize> size = evict(open_directory().get(), bytes, bytes);
    const bool reached = disarm();
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(entries(), 4u) << "call " << index << ", " << failed_call();
    EXPECT_EQ(size->bytes, bytes);
    if (!reached) break;
  }
}

TEST_F(NetworkTest, NamesListedTwiceCountOnce) {
  start_anew(8);
  const uint64_t bytes = 4 * std::filesystem::file_size(entry_path(key(0)));
  set_names_twice(true);
  EXPECT_EQ(make_cache(options())->list()->entries.size(), 8u);
  EXPECT_EQ(*make_cache(options())->prune(2 * bytes), 0u) << "the store is exactly as large as the limit";
  set_names_twice(false);
  EXPECT_EQ(entries(), 8u);
}

// Another machine may still be writing its temporary, so only an old one is removed.
TEST_F(NetworkTest, KeepsAnotherMachinesTemporaryForAnHour) {
  start_anew(1);
  const std::string path = directory_ + "/" + temporary(kAnotherHost);
  for (const Locks locks : {Locks::kReal, Locks::kNone, Locks::kOwn}) {
    set_locks(locks);
    for (const int minutes : {0, 10, -10, 59, -59}) {
      write_file(path, "x");
      const timespec stamp = {time(nullptr) + 60 * minutes, 0}, stamps[] = {stamp, stamp};
      ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), stamps, 0), 0);
      EXPECT_FALSE(reclaim(open_directory().get(), temporary(kAnotherHost))) << minutes;
    }
    const timespec stamp = {time(nullptr) - 2 * 3600, 0}, stamps[] = {stamp, stamp};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), stamps, 0), 0);
    EXPECT_TRUE(reclaim(open_directory().get(), temporary(kAnotherHost)));
  }
}

// A temporary's name identifies its machine. If this machine made it and nobody locks it, it is removed at
// once.
TEST_F(NetworkTest, RemovesThisMachinesUnlockedTemporaryAtOnce) {
  start_anew(1);
  std::string own;
  before_next_flock([&] {
    for (const std::string& name : names())
      if (name.rfind(".tmp-", 0) == 0) own = name;
  });
  const FileDescriptor directory = open_directory();
  ASSERT_TRUE(publish_file(directory.get(), key(1).fingerprint, entry_name(key(1).fingerprint), "x",
                           Durability::kWhole)
                  .ok());
  std::string id = read_file("/proc/sys/kernel/random/boot_id");
  id.erase(std::remove(id.begin(), id.end(), '-'), id.end());
  const std::string wanted =
      ".tmp-" + key(1).fingerprint + "-" + id.substr(0, 16) + "-" + std::to_string(getpid()) + "-";
  EXPECT_EQ(own.substr(0, wanted.size()), wanted);
  write_file(directory_ + "/" + own, "x");
  EXPECT_TRUE(reclaim(directory.get(), own));
}

TEST_F(NetworkTest, RewritesTheJournalWithoutLocks) {
  start_anew(2);
  set_locks(Locks::kNone);
  const FileDescriptor directory = open_directory();
  constexpr int kUses = 30000;  // of 37 bytes each: four times the size at which the journal is rewritten
  for (int i = 0; i < kUses; ++i) note_use(directory.get(), key(i % 2).fingerprint, UseKind::kHit);
  EXPECT_LT(std::filesystem::file_size(directory_ + "/" + kUsesName), 300000u);
  const UseTable uses = read_uses(directory.get());
  EXPECT_EQ(uses.of(key(0).fingerprint).hits, kUses / 2);
  EXPECT_EQ(uses.of(key(1).fingerprint).hits, kUses / 2);
}

// Even without fsync, a file is complete or is not renamed.
TEST_F(NetworkTest, ErrorAtCloseKeepsTheOldFile) {
  start_anew(1);
  const FileDescriptor directory = open_directory();
  bool told = false;
  for (const int error : {EDQUOT, EIO, ENOSPC})
    for (int64_t index = 1;; ++index) {
      write_file(directory_ + "/text", "old");
      arm({Way::kErrno, error, index});
      const absl::Status status =
          publish_through(directory.get(), "text.tmp-", "text", "new", {0600, Durability::kWritten});
      const bool reached = disarm();
      EXPECT_EQ(read_file(directory_ + "/text"), status.ok() ? "new" : "old") << failed_call();
      told |= !status.ok() && failed_call() == std::string("close");
      if (!reached) break;
    }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace lathe::fault
