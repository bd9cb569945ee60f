#include "cache/disk_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "cache/entry_file.h"
#include "cache_fixture.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DiskStoreTest : public CacheFixture {
 protected:
  // A new cache, like a new process, must miss key 1 and count one rejected file.
  void expect_refused(const std::string& what) {
    SCOPED_TRACE(what);
    const auto cache = make_cache(options());
    EXPECT_TRUE(absl::IsNotFound(cache->get(key(1)).status()));
    EXPECT_EQ(cache->statistics().disk_rejects, 1u);
  }
  // As above; then a compile must replace the file, so that the next process hits.
  void expect_refused_and_replaced(const std::string& what) {
    SCOPED_TRACE(what);
    expect_refused(what);
    warnings_.clear();
    const auto cache = make_cache(options());
    const auto result = cache->get_or_create(key(1), [&] { return artifact(key(1)); });
    ASSERT_TRUE(is_for(result, key(1)));
    EXPECT_EQ(result->outcome, CacheOutcome::kCompiled);
    EXPECT_EQ(cache->statistics().disk_rejects, 1u);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(key(1).fingerprint)));
    const auto next = make_cache(options())->get(key(1));
    EXPECT_TRUE(is_for(next, key(1)));
  }
  // The cache must work without writing to `directory`, with one warning.
  void expect_memory_only(const std::string& directory, const std::string& because) {
    SCOPED_TRACE(directory);
    warnings_.clear();
    const auto cache = make_cache(options_for(directory));
    for (int n = 1; n <= 3; ++n)
      EXPECT_TRUE(is_for(cache->get_or_create(key(n), [&] { return artifact(key(n)); }), key(n)));
    EXPECT_EQ(cache->get(key(1)).value().outcome, CacheOutcome::kMemoryHit);
    EXPECT_EQ(cache->statistics().disk_bytes_written, 0u);
    EXPECT_THAT(warnings_, ElementsAre(testing::AllOf(HasSubstr(because), HasSubstr("memory only"))));
  }
  // A directory that cannot be used must give errors, not an empty listing.
  void expect_no_answers(const std::string& directory, const std::string& because) {
    const auto cache = make_cache(options_for(directory));
    for (const absl::Status& status :
         {cache->list().status(), cache->clear().status(), cache->prune(0).status(),
          cache->store(key(1), artifact(key(1))).status()}) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr(directory), HasSubstr(because)));
    }
  }
};

TEST_F(DiskStoreTest, AnEntryIsOneFilePrivateToTheUser) {
  const mode_t before = umask(0);
  put(key(1));
  umask(before);
  EXPECT_THAT(names(), ElementsAre(key(1).fingerprint + ".lathe"));
  struct stat s;
  ASSERT_EQ(stat(entry_path(key(1)).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(directory_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0700u);
  const std::string bytes = read_file(entry_path(key(1)));
  const auto view = parse_entry(bytes);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->key_text, key(1).text);
  EXPECT_EQ(view->payload, serialize(artifact(key(1))));
}

TEST_F(DiskStoreTest, LookupCreatesNoDirectory) {
  (void)make_cache(options())->get(key(1));
  EXPECT_TRUE(make_cache(options())->list()->entries.empty());
  EXPECT_EQ(make_cache(options())->clear().value(), 0u);
  EXPECT_FALSE(fs::exists(directory_));
}

TEST_F(DiskStoreTest, TruncatedEntryIsAMiss) {
  put(key(1));
  const std::string bytes = read_file(entry_path(key(1)));
  for (size_t size = bytes.size(); size-- > 0;) {
    ASSERT_EQ(truncate(entry_path(key(1)).c_str(), static_cast<off_t>(size)), 0);
    expect_refused(std::to_string(size));
  }
  for (size_t size : {size_t{0}, size_t{47}, size_t{48}, bytes.size() - 1}) {
    write_file(entry_path(key(1)), bytes.substr(0, size));
    expect_refused_and_replaced(std::to_string(size));
  }
  write_file(entry_path(key(1)), bytes + "x");
  expect_refused_and_replaced("one byte too long");
}

TEST_F(DiskStoreTest, EntryWithAFlippedBitIsAMiss) {
  put(key(1));
  const std::string bytes = read_file(entry_path(key(1)));
  const int file = open(entry_path(key(1)).c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const char flipped = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_EQ(pwrite(file, &flipped, 1, static_cast<off_t>(bit / 8)), 1);
    expect_refused("bit " + std::to_string(bit));
    ASSERT_EQ(pwrite(file, &bytes[bit / 8], 1, static_cast<off_t>(bit / 8)), 1);
    if (HasFailure()) break;
  }
  close(file);
  EXPECT_TRUE(is_for(make_cache(options())->get(key(1)), key(1)));
}

TEST_F(DiskStoreTest, EntryOfAnotherKeyIsAMiss) {
  put(key(2));
  fs::rename(entry_path(key(2)), entry_path(key(1)));
  expect_refused_and_replaced("a good entry of another key");
}

// Two keys with the same fingerprint, as in a hash collision: the text of the key decides.
TEST_F(DiskStoreTest, CollidingKeyIsAMiss) {
  put(key(1));
  Key twin = key(1);
  twin.text = key(2).text;
  const auto cache = make_cache(options());
  EXPECT_TRUE(absl::IsNotFound(cache->get(twin).status()));
  EXPECT_EQ(cache->statistics().disk_rejects, 1u);
  EXPECT_TRUE(is_for(make_cache(options())->get(key(1)), key(1)));
}

TEST_F(DiskStoreTest, EntryWithInvalidArtifactIsAMiss) {
  put(key(1));
  write_file(entry_path(key(1)), make_entry(key(1).text, "no artifact"));
  expect_refused_and_replaced("payload");
}

TEST_F(DiskStoreTest, ReplacesEntriesThatAreLinksFifosOrWritableByOthers) {
  put(key(1));
  const std::string path = entry_path(key(1)), aside = scratch_ + "/aside";
  fs::rename(path, aside);
  fs::create_symlink(aside, path);
  expect_refused_and_replaced("symbolic link to a good entry");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path)));

  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_refused_and_replaced("FIFO");

  ASSERT_EQ(chmod(path.c_str(), 0620), 0);
  expect_refused_and_replaced("group-writable");
  ASSERT_EQ(chmod(path.c_str(), 0602), 0);
  expect_refused_and_replaced("world-writable");
}

TEST_F(DiskStoreTest, ReplacesEntryOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can change a file's owner; PrivateDirectoryTest tests the rule itself";
  put(key(1));
  ASSERT_EQ(chown(entry_path(key(1)).c_str(), 12345, 12345), 0);
  expect_refused_and_replaced("entry of another user");
}

TEST_F(DiskStoreTest, ReplacesADirectoryInAnEntrysPlace) {
  fs::create_directories(entry_path(key(1)));
  fs::permissions(directory_, fs::perms::owner_all);
  const auto cache = make_cache(options());
  EXPECT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
  EXPECT_EQ(cache->statistics().disk_rejects, 1u);
  EXPECT_THAT(names(), ElementsAre(key(1).fingerprint + ".lathe"));
}

TEST_F(DiskStoreTest, RejectsUntrustedDirectories) {
  put(key(1));
  ASSERT_EQ(chmod(directory_.c_str(), 0770), 0);
  expect_memory_only(directory_, "group or everybody");
  EXPECT_EQ(make_cache(options())->directory(), "");
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);

  const std::string link = scratch_ + "/link";
  fs::create_directory_symlink(directory_, link);
  expect_memory_only(link, "symbolic link");
  expect_memory_only(link + "/", "symbolic link");
  EXPECT_THAT(names(), ElementsAre(key(1).fingerprint + ".lathe"));
  expect_no_answers(link, "it is a symbolic link");

  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory_.c_str(), 12345, 12345), 0);
    expect_memory_only(directory_, "belongs to user 12345");
    expect_no_answers(directory_, "it belongs to user 12345");
    ASSERT_EQ(chown(directory_.c_str(), 0, 0), 0);
  } else {
    expect_memory_only("/", "belongs to user");
  }
  EXPECT_TRUE(is_for(make_cache(options())->get(key(1)), key(1)));
}

// The directory is trusted when the cache is made, but no longer when it writes.
TEST_F(DiskStoreTest, DoesNotWriteToADirectoryThatBecomesUntrusted) {
  put(key(1));
  const auto cache = make_cache(options());
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsNotFound(cache->get(key(1)).status()));
  EXPECT_TRUE(is_for(cache->get_or_create(key(2), [&] { return artifact(key(2)); }), key(2)));
  EXPECT_THAT(names(), ElementsAre(key(1).fingerprint + ".lathe"));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(DiskStoreTest, UnwritableDirectoryMeansMemoryOnlyAndOneWarning) {
  write_file(scratch_ + "/file", "x");
  expect_memory_only(scratch_ + "/file", "file");
  expect_memory_only(scratch_ + "/file/below", "file");
  expect_memory_only("/proc/lathe-test/cache", "/proc/lathe-test");
  expect_memory_only(scratch_ + "/" + std::string(300, 'n'), "name too long");
}

TEST_F(DiskStoreTest, RecreatesARemovedDirectory) {
  const auto cache = make_cache(options());
  EXPECT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
  fs::remove_all(directory_);
  EXPECT_TRUE(is_for(cache->get_or_create(key(2), [&] { return artifact(key(2)); }), key(2)));
  EXPECT_THAT(names(), ElementsAre(key(2).fingerprint + ".lathe"));
}

TEST_F(DiskStoreTest, RelativePathIsResolvedWhenGiven) {
  const fs::path before = fs::current_path();
  fs::current_path(scratch_);
  const auto cache = make_cache(options_for("cache/"));
  fs::current_path(before);
  EXPECT_EQ(cache->directory(), directory_);
  EXPECT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
  EXPECT_TRUE(fs::exists(entry_path(key(1))));
}

// The file lock shows whether the process that made a file still lives; time stamps do not.
TEST_F(DiskStoreTest, FirstPublishRemovesFilesOfEndedProcesses) {
  put(key(1));
  const std::string left = ".tmp-" + key(2).fingerprint + "-1-0-abc",
                    held = ".tmp-" + key(3).fingerprint + "-1-0-abc",
                    left_lock = key(5).fingerprint + ".lock", held_lock = key(6).fingerprint + ".lock";
  const std::vector<std::string> others = {".tmp-not-ours", "old-notes.txt", "notes.lock"};
  for (const std::string& name : {left, held, left_lock, held_lock, others[0], others[1], others[2]})
    write_file(directory_ + "/" + name, "x");
  const timespec years_ago[2] = {{86400, 0}, {86400, 0}}, in_years[2] = {{4000000000, 0}, {4000000000, 0}};
  for (const std::string& name : {held, held_lock, others[0], others[1], others[2]})
    ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/" + name).c_str(), years_ago, 0), 0);
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/" + left).c_str(), in_years, 0), 0);
  std::vector<int> holders;
  for (const std::string& name : {held, held_lock}) {
    holders.push_back(open((directory_ + "/" + name).c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(holders.back(), LOCK_EX | LOCK_NB), 0);
  }
  put(key(4));
  EXPECT_THAT(names(),
              testing::UnorderedElementsAre(held, held_lock, others[0], others[1], others[2],
                                            key(1).fingerprint + ".lathe", key(4).fingerprint + ".lathe"));
  for (int holder : holders) close(holder);
}

TEST_F(DiskStoreTest, ListsGoodEntriesAndCountsBadOnes) {
  put(key(1));
  put(key(2));
  put(key(3));
  ASSERT_EQ(truncate(entry_path(key(2)).c_str(), 60), 0);
  fs::copy_file(entry_path(key(1)), entry_path(key(4)));  // key 1's entry with key 4's name
  write_file(directory_ + "/notes.lathe", "not ours");
  const CacheListing listing = make_cache(options())->list().value();
  ASSERT_EQ(listing.defects.size(), 2u);
  EXPECT_THAT(listing.defects[0].cause, HasSubstr(listing.defects[0].file == key(2).fingerprint + ".lathe"
                                                      ? "do not add up"
                                                      : "its name is not that of its key"));
  std::vector<std::string> listed;
  for (const CacheEntryInfo& e : listing.entries) {
    listed.push_back(e.key_text);
    EXPECT_EQ(e.file, key_from_text(e.key_text).fingerprint + ".lathe");
    EXPECT_EQ(e.bytes, fs::file_size(directory_ + "/" + e.file));
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAre(key(1).text, key(3).text));
}

TEST_F(DiskStoreTest, ClearsItsOwnFilesOnly) {
  put(key(1));
  put(key(2));
  ASSERT_EQ(truncate(entry_path(key(2)).c_str(), 60), 0);
  write_file(directory_ + "/" + key(3).fingerprint + ".lock", "");
  write_file(directory_ + "/.tmp-" + key(3).fingerprint + "-1-0-abc", "x");
  const std::string outside = scratch_ + "/outside";
  write_file(outside, "x");
  fs::create_symlink(outside, entry_path(key(4)));
  const std::vector<std::string> others = {"NOTES", "abc.lathe", "sub", std::string(32, 'g') + ".lathe"};
  for (const std::string& name : others) {
    if (name == "sub") {
      fs::create_directory(directory_ + "/sub");
    } else {
      write_file(directory_ + "/" + name, "x");
    }
  }
  EXPECT_EQ(make_cache(options())->clear().value(), 3u);
  EXPECT_THAT(names(), testing::UnorderedElementsAreArray(others));
  EXPECT_TRUE(fs::exists(outside));
}

TEST_F(DiskStoreTest, MissingDirectoryIsNotFoundAndUsable) {
  const DiskStore store(scratch_ + "/none", kNoCap, Logger());
  EXPECT_TRUE(absl::IsNotFound(store.read(key(1)).status()));
  EXPECT_TRUE(store.check().ok());
}

}  // namespace
}  // namespace lathe
