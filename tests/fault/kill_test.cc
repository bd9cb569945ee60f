// Kills writers at random moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <random>

#include "cache/bundle.h"
#include "cache/key_lock.h"
#include "cache/store_files.h"
#include "interpose.h"
#include "observe/text_file.h"
#include "store_fixture.h"

namespace lathe::fault {
namespace {

class KillTest : public StoreFixture {
 protected:
  static constexpr int kKeys = 32;

  // Compiles, publishes, evicts and reads until it is killed.
  [[noreturn]] void write_for_ever(unsigned seed) {
    std::mt19937 random(seed);
    CacheOptions o = options();
    o.cap_bytes = 12 * 400;  // all keys together take about 32 x 330 bytes
    for (;;) {
      const auto cache = make_cache(o);
      for (int i = 0; i < 10; ++i) {
        const Key k = key(static_cast<int>(random() % kKeys));
        if (!is_for(cache->get_or_create(k, [&] { return artifact(k); }), k)) _exit(1);
      }
      if (!cache->prune(2000).ok()) _exit(1);
    }
  }
};

// While reclaim opens a lock file, its holder ends and another process takes a new lock with the same name.
// The new lock must stay.
TEST_F(KillTest, ReclaimKeepsANewLockOfTheSameName) {
  ASSERT_EQ(mkdir(directory_.c_str(), 0700), 0);
  const FileDescriptor directory = open_file(AT_FDCWD, directory_, O_RDONLY | O_DIRECTORY);
  const std::string name = lock_name(key(0).fingerprint);
  std::optional<KeyLock> first(KeyLock::acquire(directory.get(), name, 0)), second;
  ASSERT_TRUE(first->held());
  before_next_flock([&] {
    first.reset();
    second.emplace(KeyLock::acquire(directory.get(), name, 0));
  });
  EXPECT_FALSE(reclaim(directory.get(), name));
  ASSERT_TRUE(second.has_value() && second->held());
  EXPECT_THAT(names(), testing::ElementsAre(name));
  EXPECT_FALSE(KeyLock::acquire(directory.get(), name, 0).held()) << "two processes hold the lock";
  // A holder that ends must not remove a lock file that is not its own.
  ASSERT_EQ(unlink((directory_ + "/" + name).c_str()), 0);
  const KeyLock third = KeyLock::acquire(directory.get(), name, 0);
  ASSERT_TRUE(third.held());
  second.reset();
  EXPECT_THAT(names(), testing::ElementsAre(name));
  EXPECT_FALSE(KeyLock::acquire(directory.get(), name, 0).held());
}

TEST_F(KillTest, KilledWritersLeaveNoBadEntries) {
  const int kills = is_long_form() ? 10000 : 200;
  std::mt19937 random(20261121);
  int killed = 0, with_remains = 0;
  for (int i = 0; i < kills; ++i) {
    const unsigned seed = static_cast<unsigned>(random());
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(seed);
    usleep(static_cast<useconds_t>(random() % 6000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer saw a wrong artifact";
    ++killed;
    bool remains = false;
    for (const std::string& name : names()) remains |= name.size() != 38;  // a temporary or a lock
    with_remains += remains;
    uint64_t rejects = 0;
    ASSERT_TRUE(all_right(kKeys, &rejects)) << "after kill " << i;
    ASSERT_EQ(rejects, 0u) << "after kill " << i;
  }
  EXPECT_THAT(left_over(kKeys + 1), testing::IsEmpty());
  std::printf("%d kills, %d of them in the middle of something; 0 bad loads, 0 files left\n", killed,
              with_remains);
  EXPECT_GT(with_remains, 0) << "the kills tested nothing";
}

// Bundles and text files lie outside the store. They must be complete or absent, and the next write removes
// what killed writers left behind.
TEST_F(KillTest, KilledWritersOfOtherFilesLeaveNoBadFiles) {
  for (int n = 0; n < 8; ++n) put(key(n));
  const std::string folder = scratch_ + "/outside", bundle = folder + "/out.bundle", text = folder + "/text";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  constexpr size_t kTextBytes = 20000;
  const auto write_both = [&] {
    bool locked = false;
    return write_bundle(bundle, {directory_}, [](absl::string_view) { return true; }).ok() &&
           update_text_file(text, 5, &locked, [](absl::string_view before) -> absl::StatusOr<std::string> {
             return std::string(kTextBytes, before.empty() || before[0] == 'z' ? 'a' : before[0] + 1);
           }).ok();
  };
  const auto left = [&] {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder))
      if (file.path() != bundle && file.path() != text) names.push_back(file.path().filename());
    return names;
  };
  const int kills = is_long_form() ? 10000 : 200;
  std::mt19937 random(20261122);
  int with_remains = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      while (write_both()) {
      }
    if (child == 0) _exit(1);
    usleep(static_cast<useconds_t>(random() % 6000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a write failed";
    with_remains += !left().empty();
    if (std::filesystem::exists(bundle)) {
      const auto opened = Bundle::open(bundle);
      ASSERT_TRUE(opened.ok()) << opened.status();
      ASSERT_EQ((*opened)->size(), 8u);
    }
    if (std::filesystem::exists(text)) {
      const std::string whole = read_file(text);
      ASSERT_EQ(whole, std::string(kTextBytes, whole[0]));
    }
  }
  EXPECT_TRUE(write_both());
  EXPECT_THAT(left(), testing::IsEmpty());
  std::printf("%d kills of writers outside the store, %d of them in the middle; 0 bad files, 0 left\n", kills,
              with_remains);
  EXPECT_GT(with_remains, 0) << "the kills tested nothing";
}

}  // namespace
}  // namespace lathe::fault
