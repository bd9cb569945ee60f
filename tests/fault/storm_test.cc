// Many processes start at once on an empty store, and processes fork while they use a cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <thread>

#include "storm_fixture.h"

// Turns off AddressSanitizer's quarantine. At a fork it takes its allocator's locks but not those of the
// quarantine, so the child may wait for ever for a lock that another thread held.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=0:thread_local_quarantine_size_kb=0";
}

namespace lathe::fault {
namespace {

class StormTest : public StormFixture {};

TEST_F(StormTest, ColdStartCompilesEachKeyOnce) {
  storm();
  std::printf("%d processes, %d keys: %zu compiles\n", kProcesses, kKeys, compiles());
  EXPECT_EQ(compiles(), size_t{kKeys});
  EXPECT_THAT(left_over(kKeys), testing::IsEmpty());
}

// A cache made before the fork must work in parent and children, and so must one made after it.
TEST_F(StormTest, CachesWorkWhetherMadeBeforeOrAfterAFork) {
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

// The compiling thread does not exist in a child, and the child must not wait for its result.
TEST_F(StormTest, ChildDoesNotWaitForAThreadOfItsParent) {
  for (const std::string& directory : {std::string(), directory_}) {
    SCOPED_TRACE("directory '" + directory + "'");
    CacheOptions o = options_for(directory);
    o.lock_timeout_seconds = 0.2;  // the parent holds the key's lock throughout
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

// Threads load, compile, publish and evict all the time. Whatever they hold at a fork, the child must go on.
TEST_F(StormTest, ChildWorksAfterAForkDuringOtherThreadsWork) {
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
