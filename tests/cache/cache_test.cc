#include "cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "cache_fixture.h"

namespace lathe {
namespace {

using CacheTest = CacheFixture;

TEST_F(CacheTest, CompilesOnceThenHitsMemoryThenDisk) {
  int compiles = 0;
  const auto compile = [&]() -> absl::StatusOr<Artifact> {
    ++compiles;
    return artifact(key(1));
  };
  const auto first = make_cache(options());
  EXPECT_TRUE(absl::IsNotFound(first->get(key(1)).status()));
  auto result = first->get_or_create(key(1), compile);
  ASSERT_TRUE(is_for(result, key(1)));
  EXPECT_EQ(result->outcome, CacheOutcome::kCompiled);
  result = first->get_or_create(key(1), compile);
  ASSERT_TRUE(is_for(result, key(1)));
  EXPECT_EQ(result->outcome, CacheOutcome::kMemoryHit);
  EXPECT_EQ(first->get(key(1)).value().artifact, result->artifact);

  const auto second = make_cache(options());
  result = second->get_or_create(key(1), compile);
  ASSERT_TRUE(is_for(result, key(1)));
  EXPECT_EQ(result->outcome, CacheOutcome::kDiskHit);
  EXPECT_EQ(second->get(key(1)).value().outcome, CacheOutcome::kMemoryHit);
  const auto third = make_cache(options());
  EXPECT_EQ(third->get(key(1)).value().outcome, CacheOutcome::kDiskHit);
  EXPECT_EQ(compiles, 1);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(CacheTest, CountsHitsMissesAndBytes) {
  const auto compile = [&] { return artifact(key(1)); };
  const auto first = make_cache(options());
  (void)first->get(key(1));
  (void)first->get_or_create(key(1), compile);
  (void)first->get_or_create(key(1), compile);
  const CacheStatistics s = first->statistics();
  EXPECT_EQ(s.misses, 2u);
  EXPECT_EQ(s.memory_hits, 1u);
  EXPECT_EQ(s.disk_hits, 0u);
  EXPECT_EQ(s.disk_rejects, 0u);
  EXPECT_EQ(s.disk_bytes_written, std::filesystem::file_size(entry_path(key(1))));
  EXPECT_EQ(s.memory_bytes, key(1).text.size() + artifact(key(1)).code.size() + 2);

  const auto second = make_cache(options());
  (void)second->get_or_create(key(1), compile);
  const CacheStatistics t = second->statistics();
  EXPECT_EQ(t.misses, 0u);
  EXPECT_EQ(t.disk_hits, 1u);
  EXPECT_EQ(t.disk_bytes_read, s.disk_bytes_written);
  EXPECT_EQ(t.disk_bytes_written, 0u);
  EXPECT_GT(t.disk_load_seconds, 0);
  EXPECT_EQ(t.memory_bytes, s.memory_bytes);
}

TEST_F(CacheTest, ReplacesInMemoryAndOnDisk) {
  const auto cache = make_cache(options());
  const auto held = cache->get_or_create(key(1), [&] { return artifact(key(1)); }).value().artifact;
  const uint64_t bytes = cache->statistics().memory_bytes;
  Artifact fresh = artifact(key(1));
  fresh.code += " made anew";
  EXPECT_EQ(cache->replace(key(1), fresh)->code, fresh.code);
  EXPECT_EQ(cache->get(key(1)).value().artifact->code, fresh.code);
  EXPECT_EQ(cache->statistics().memory_bytes, bytes + 10);
  EXPECT_EQ(held->code, artifact(key(1)).code) << "a holder of the old artifact keeps it";
  EXPECT_EQ(make_cache(options())->get(key(1)).value().artifact->code, fresh.code);
  EXPECT_EQ(cache->replace(key(2), artifact(key(2)))->code, artifact(key(2)).code) << "the key was new";
  EXPECT_TRUE(is_for(cache->get(key(2)), key(2)));
}

TEST_F(CacheTest, WithoutADirectoryUsesMemoryOnly) {
  const auto cache = make_cache(options_for(""));
  EXPECT_EQ(cache->directory(), "");
  EXPECT_EQ(cache->get_or_create(key(1), [&] { return artifact(key(1)); }).value().outcome,
            CacheOutcome::kCompiled);
  EXPECT_EQ(cache->get(key(1)).value().outcome, CacheOutcome::kMemoryHit);
  EXPECT_TRUE(cache->list()->entries.empty());
  EXPECT_TRUE(cache->list()->defects.empty());
  EXPECT_EQ(cache->clear().value(), 0u);
  EXPECT_EQ(cache->prune(0).value(), 0u);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(CacheTest, ReturnsCompileErrorsWithoutCachingThem) {
  const auto cache = make_cache(options());
  const auto failed = cache->get_or_create(
      key(1), []() -> absl::StatusOr<Artifact> { return absl::AbortedError("stage 3 failed"); });
  EXPECT_EQ(failed.status(), absl::AbortedError("stage 3 failed"));
  EXPECT_THAT(names(), testing::IsEmpty());
  EXPECT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
}

TEST_F(CacheTest, TurnsExceptionsIntoErrorsAndKeepsTheKeyUsable) {
  const auto cache = make_cache(options());
  const auto thrown = cache->get_or_create(
      key(1), []() -> absl::StatusOr<Artifact> { throw std::runtime_error("unexpected"); });
  EXPECT_EQ(thrown.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(thrown.status().message()), testing::HasSubstr("unexpected"));
  const auto exhausted =
      cache->get_or_create(key(1), []() -> absl::StatusOr<Artifact> { throw std::bad_alloc(); });
  EXPECT_EQ(exhausted.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
}

// The logger is the host's code and may throw anything.
TEST_F(CacheTest, ThrowingLoggerKeepsTheKeyUsable) {
  struct NotAnException {};
  put(key(1));
  const std::string good = read_file(entry_path(key(1)));
  for (const bool standard : {true, false}) {
    write_file(entry_path(key(1)), "defective");
    CacheOptions throwing = options();
    bool throws = true;
    throwing.logger = Logger(LogLevel::kWarning, [&](LogLevel, const std::string&) {
      if (throws && standard) throw std::bad_alloc();
      if (throws) throw NotAnException();
    });
    const auto cache = make_cache(throwing);
    const auto compile = [&] { return artifact(key(1)); };
    EXPECT_EQ(cache->get_or_create(key(1), compile).status().code(),
              standard ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal);
    throws = false;
    const auto next = cache->get_or_create(key(1), compile);
    ASSERT_TRUE(is_for(next, key(1))) << "the flight has landed and the key is free again";
    EXPECT_EQ(next->outcome, CacheOutcome::kCompiled);
    EXPECT_EQ(read_file(entry_path(key(1))), good);
  }
}

TEST_F(CacheTest, ThrowWhilePublishingKeepsTheKernel) {
  CacheOptions throwing = options();
  int logged = 0;
  throwing.logger = Logger(LogLevel::kWarning, [&](LogLevel, const std::string&) {
    if (++logged == 1) throw std::runtime_error("no log");
  });
  const auto cache = make_cache(throwing);
  write_file(directory_, "a file where the directory should be");
  const auto result = cache->get_or_create(key(1), [&] { return artifact(key(1)); });
  ASSERT_TRUE(is_for(result, key(1))) << result.status();
  EXPECT_EQ(result->outcome, CacheOutcome::kCompiled);
  EXPECT_EQ(logged, 2) << "the failed write, then the exception";
  EXPECT_EQ(cache->get_or_create(key(1), [&] { return artifact(key(1)); })->outcome,
            CacheOutcome::kMemoryHit);
}

// Calls `call` from `count` threads at once and returns the results.
std::vector<absl::StatusOr<CacheResult>> call_together(
    int count, const std::function<absl::StatusOr<CacheResult>()>& call) {
  std::vector<absl::StatusOr<CacheResult>> results(count);
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      ++waiting;
      while (waiting < count) std::this_thread::yield();
      results[i] = call();
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST_F(CacheTest, ManyThreadsOnOneKeyCompileOnce) {
  for (const std::string& directory : {directory_, std::string()}) {
    const auto cache = make_cache(options_for(directory));
    std::atomic<int> compiles{0};
    const auto results = call_together(16, [&] {
      return cache->get_or_create(key(1), [&] {
        ++compiles;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return artifact(key(1));
      });
    });
    EXPECT_EQ(compiles, 1);
    int compiled = 0;
    for (const auto& result : results) {
      EXPECT_TRUE(is_for(result, key(1)));
      EXPECT_EQ(result->artifact, results[0]->artifact);
      compiled += result->outcome == CacheOutcome::kCompiled;
    }
    EXPECT_EQ(compiled, 1);
  }
}

TEST_F(CacheTest, WaitingThreadsShareTheError) {
  const auto cache = make_cache(options());
  std::atomic<int> compiles{0};
  const auto results = call_together(8, [&] {
    return cache->get_or_create(key(1), [&]() -> absl::StatusOr<Artifact> {
      ++compiles;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return absl::AbortedError("failed on purpose");
    });
  });
  for (const auto& result : results) EXPECT_EQ(result.status(), absl::AbortedError("failed on purpose"));
  EXPECT_LT(compiles, 8);
}

TEST_F(CacheTest, OtherKeysAreNotBlockedByACompile) {
  const auto cache = make_cache(options());
  std::promise<void> started, go_on;
  std::thread slow([&] {
    (void)cache->get_or_create(key(1), [&] {
      started.set_value();
      go_on.get_future().wait();
      return artifact(key(1));
    });
  });
  started.get_future().wait();
  EXPECT_TRUE(is_for(cache->get_or_create(key(2), [&] { return artifact(key(2)); }), key(2)));
  EXPECT_TRUE(absl::IsNotFound(cache->get(key(3)).status()));
  (void)cache->statistics();
  EXPECT_EQ(cache->list()->entries.size(), 1u);
  go_on.set_value();
  slow.join();
  EXPECT_TRUE(is_for(cache->get(key(1)), key(1)));
}

TEST_F(CacheTest, ManyThreadsAndCachesCompileEachKeyOnce) {
  constexpr int kKeys = 12;
  std::vector<std::unique_ptr<ArtifactCache>> caches;
  for (int i = 0; i < 3; ++i) caches.push_back(make_cache(options()));
  std::atomic<int> compiles{0}, wrong{0};
  std::atomic<int> next{0};
  call_together(12, [&]() -> absl::StatusOr<CacheResult> {
    ArtifactCache& cache = *caches[next++ % 3];
    for (int round = 0; round < 30; ++round) {
      const Key k = key(round % kKeys);
      const auto result = cache.get_or_create(k, [&] {
        ++compiles;
        return artifact(k);
      });
      wrong += !is_for(result, k);
    }
    return absl::CancelledError();
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiles, kKeys);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

// A caller that will not wait is asked before it has to wait. Its refusal concerns that caller only.
TEST_F(CacheTest, BeforeWaitMayStopItsCaller) {
  const auto never = []() -> absl::StatusOr<Artifact> {
    ADD_FAILURE() << "no compile was expected";
    return artifact(key(1));
  };
  int asked = 0;
  const auto stops = [&] { return ++asked, OnMiss::kStop; };
  const auto stays = [&] { return ++asked, OnMiss::kCompile; };
  const auto cache = make_cache(options());
  EXPECT_EQ(cache->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kStopped);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(names().empty()) << "no lock was taken";
  // The same while this process compiles the key, and while another cache does.
  std::promise<void> began, may_end;
  std::thread compiling([&, may = may_end.get_future()]() mutable {
    EXPECT_TRUE(is_for(cache->get_or_create(key(1),
                                            [&] {
                                              began.set_value();
                                              may.wait();
                                              return artifact(key(1));
                                            }),
                       key(1)));
  });
  began.get_future().wait();
  EXPECT_EQ(cache->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kStopped);
  EXPECT_EQ(make_cache(options())->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kStopped);
  EXPECT_EQ(asked, 3);
  std::thread waiting([&] {
    const auto result = cache->get_or_create(key(1), never, stays);
    EXPECT_TRUE(is_for(result, key(1)));
    EXPECT_EQ(result->outcome, CacheOutcome::kMemoryHit);
  });
  may_end.set_value();
  compiling.join();
  waiting.join();
  // If a store has the key, before_wait is not called.
  asked = 0;
  EXPECT_EQ(cache->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kMemoryHit);
  EXPECT_EQ(make_cache(options())->get_or_create(key(1), never, stops)->outcome, CacheOutcome::kDiskHit);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(is_for(cache->get_or_create(
                         key(2), [] { return artifact(key(2)); }, stays),
                     key(2)));
  EXPECT_EQ(asked, 1);
}

// If a leader cancels, one of the waiters leads, and no other caller gets its error.
TEST_F(CacheTest, CancelledLeaderDoesNotFailTheWaiters) {
  const auto cache = make_cache(options());
  std::atomic<int> compiles{0}, gone{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 50; ++n) {
        const auto compile = [&] {
          ++compiles;
          return artifact(key(n));
        };
        if (i % 2 == 0) {
          EXPECT_TRUE(is_for(cache->get_or_create(key(n), compile), key(n)));
          continue;
        }
        const auto result = cache->get_or_create(key(n), compile, [] { return OnMiss::kStop; });
        ASSERT_TRUE(result.ok()) << result.status();
        const bool stopped = result->outcome == CacheOutcome::kStopped;
        EXPECT_TRUE(stopped ? result->artifact == nullptr : is_for(result, key(n)));
        gone += stopped;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiles.load(), 50);
  std::printf("%d of 400 calls were cancelled\n", gone.load());
}

TEST_F(CacheTest, OutcomesHaveNames) {
  EXPECT_EQ(name_of(CacheOutcome::kMemoryHit), "memory hit");
  EXPECT_EQ(name_of(CacheOutcome::kDiskHit), "disk hit");
  EXPECT_EQ(name_of(CacheOutcome::kBundleHit), "bundle hit");
  EXPECT_EQ(name_of(CacheOutcome::kCompiled), "compiled");
}

}  // namespace
}  // namespace lathe
