// Many processes at once on an empty store, and forks around a cache.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "interpose.h"
#include "store_fixture.h"

namespace lathe::fault {
namespace {

class StormTest : public StoreFixture {
 protected:
  static constexpr int kProcesses = 16, kKeys = 64;

  static pid_t start(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    return child;
  }
  static void expect_success(const std::vector<pid_t>& children) {
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }
  // One byte for each compile, by whatever process.
  Artifact compile(const Key& k) const {
    const int file = open((scratch_ + "/compiles").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (write(file, "x", 1) != 1) abort();
    close(file);
    usleep(2000);
    return artifact(k);
  }
  size_t compiles() const { return read_file(scratch_ + "/compiles").size(); }

  bool take_all(ArtifactCache& cache, unsigned seed) {
    std::vector<int> order(kKeys);
    for (int n = 0; n < kKeys; ++n) order[static_cast<size_t>(n)] = n;
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    for (int n : order)
      if (!is_for(cache.get_or_create(key(n), [&] { return compile(key(n)); }), key(n))) return false;
    return warnings_.empty();
  }
  void storm() {
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i)
      children.push_back(start([&, i] {
        close(gate[1]);
        char byte;
        (void)!read(gate[0], &byte, 1);  // until the parent closes the gate
        CacheOptions o = options();
        o.lock_timeout_seconds = 60;  // however slow the machine: the locks are what is tested
        return take_all(*make_cache(o), static_cast<unsigned>(i));
      }));
    close(gate[0]);
    close(gate[1]);
    expect_success(children);
    uint64_t rejects = 0;
    EXPECT_TRUE(all_right(kKeys, &rejects));
    EXPECT_EQ(rejects, 0u);
    EXPECT_EQ(make_cache(options())->list()->entries.size(), size_t{kKeys});
  }
};

TEST_F(StormTest, ColdStartCompilesEachKeyOnce) {
  storm();
  std::printf("%d processes, %d keys: %zu compiles\n", kProcesses, kKeys, compiles());
  EXPECT_EQ(compiles(), size_t{kKeys});
  EXPECT_THAT(left_over(kKeys), testing::IsEmpty());
}

TEST_F(StormTest, WithoutLocksNothingFails) {
  set_locks(false);
  storm();
  set_locks(true);
  std::printf("%d processes, %d keys, no locks: %zu compiles, 0 failures\n", kProcesses, kKeys, compiles());
  EXPECT_GE(compiles(), size_t{kKeys});
}

// A cache made before the fork serves parent and children; one made after, too.
TEST_F(StormTest, ForksBeforeAndAfterInit) {
  const auto cache = make_cache(options());
  ASSERT_TRUE(is_for(cache->get_or_create(key(0), [&] { return artifact(key(0)); }), key(0)));
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    children.push_back(start([&, i] { return take_all(*cache, i); }));
    children.push_back(start([&, i] { return take_all(*make_cache(options()), i); }));
  }
  EXPECT_TRUE(take_all(*cache, 99));
  expect_success(children);
  uint64_t rejects = 0;
  EXPECT_TRUE(all_right(kKeys, &rejects));
  EXPECT_EQ(rejects, 0u);
}

// The thread that compiles is not there in a child, nor is what it would have published.
TEST_F(StormTest, AChildDoesNotWaitForAThreadOfItsParent) {
  for (const std::string& directory : {std::string(), directory_}) {
    SCOPED_TRACE("directory '" + directory + "'");
    CacheOptions o = options_for(directory);
    o.lock_timeout_seconds = 0.2;  // the parent has the key's lock all the time
    const auto cache = make_cache(o);
    std::promise<void> began, goes_on;
    std::thread parent([&] {
      EXPECT_TRUE(is_for(cache->get_or_create(key(1),
                                              [&] {
                                                began.set_value();
                                                goes_on.get_future().wait();
                                                return artifact(key(1));
                                              }),
                         key(1)));
    });
    began.get_future().wait();
    const pid_t child = start([&] {
      alarm(20);
      bool good = true;
      for (int n : {1, 2, 1})
        good &= is_for(cache->get_or_create(key(n), [&] { return artifact(key(n)); }), key(n));
      return good;
    });
    expect_success({child});
    goes_on.set_value();
    parent.join();
    EXPECT_TRUE(is_for(cache->get(key(1)), key(1)));
  }
}

// Threads load, compile, publish and evict all the time; whatever they hold at a fork, the child goes on.
TEST_F(StormTest, ForksBesideThreadsThatWork) {
  put(key(kKeys));
  const std::string bundle = scratch_ + "/a.bundle";
  ASSERT_TRUE(write_bundle(bundle, {directory_}, [](absl::string_view) { return true; }).ok());
  CacheOptions o = options();
  o.bundles = {bundle};
  o.cap_bytes = 20 * std::filesystem::file_size(entry_path(key(kKeys)));
  o.lock_timeout_seconds = 0.2;
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  auto shared = make_cache(o);
  const auto call = [&](ArtifactCache& cache, int n) {
    return is_for(cache.get_or_create(key(n), [&] { return artifact(key(n)); }), key(n));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int n = t; !stop; ++n, ++calls) EXPECT_TRUE(call(*shared, t % 2 == 0 ? n % 2000 : n));
    });
  for (int i = 0; i < 200; ++i)
    expect_success({start([&] {
      alarm(20);
      return call(*shared, i % 3 == 0 ? kKeys : calls.load());
    })});
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("200 forks beside 4 threads, which made %d calls\n", calls.load());
  EXPECT_GT(calls.load(), 200);
}

}  // namespace
}  // namespace lathe::fault
