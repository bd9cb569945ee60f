// Compiles at idle priority: urgent callers of the key do not wait for them, but they wait for urgent
// callers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "remote_fixture.h"

namespace lathe {
namespace {

// Runs get_or_create on another thread. Its compile starts and blocks until let_go.
class Held {
 public:
  Held(ArtifactCache& cache, const Key& key, const Artifact& made, Urgency urgency)
      : thread_([this, &cache, key, made, urgency] {
          result_ = cache.get_or_create(
              key,
              [&]() -> absl::StatusOr<Artifact> {
                started_.set_value();
                go_on_.get_future().wait();
                return made;
              },
              nullptr, urgency);
        }) {
    started_.get_future().wait();
  }
  absl::StatusOr<CacheResult> let_go() {
    go_on_.set_value();
    thread_.join();
    return result_;
  }

 private:
  absl::StatusOr<CacheResult> result_;
  std::promise<void> started_, go_on_;
  std::thread thread_;
};

class UrgencyTest : public RemoteTest {
 protected:
  // While an idle compile of the key is blocked, an urgent call must compile the key itself. Afterwards both
  // caches have an artifact.
  void call_beside(ArtifactCache& idle, ArtifactCache& cache) {
    Held held(idle, key(1), artifact(key(1)), Urgency::kIdle);
    const auto now = cache.get_or_create(key(1), [&] { return artifact(key(1)); });
    EXPECT_TRUE(is_for(now, key(1)));
    EXPECT_EQ(now->outcome, CacheOutcome::kCompiled);
    EXPECT_EQ(cache.get(key(1))->outcome, CacheOutcome::kMemoryHit) << "while the idle compile still runs";
    const auto later = held.let_go();
    EXPECT_TRUE(is_for(later, key(1)));
    EXPECT_EQ(idle.get(key(1))->artifact, later->artifact);
    EXPECT_THAT(warnings_, testing::IsEmpty());
  }
  // While a compile of urgency `of_first` is blocked, a second, idle call must wait and compile nothing.
  void wait_for(ArtifactCache& first, Urgency of_first, ArtifactCache& second) {
    Held held(first, key(2), artifact(key(2)), of_first);
    auto waits = std::async(std::launch::async, [&] {
      return second.get_or_create(
          key(2),
          [&]() -> absl::StatusOr<Artifact> {
            ADD_FAILURE() << "the second call must not compile";
            return artifact(key(2));
          },
          nullptr, Urgency::kIdle);
    });
    EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
    EXPECT_TRUE(is_for(held.let_go(), key(2)));
    EXPECT_TRUE(is_for(waits.get(), key(2)));
  }
};

TEST_F(UrgencyTest, UrgentCallsDoNotWaitForIdleOnesInAProcess) {
  for (const std::string& directory : {std::string(), directory_}) {
    const auto cache = make_cache(options_for(directory));
    call_beside(*cache, *cache);
    wait_for(*cache, Urgency::kNow, *cache);
    cache->clear().value();
  }
}

TEST_F(UrgencyTest, UrgentCallsDoNotWaitForIdleOnesOnAMachine) {
  const auto one = make_cache(options()), other = make_cache(options());
  call_beside(*one, *other);
  wait_for(*one, Urgency::kNow, *other);
  EXPECT_THAT(names(),
              testing::UnorderedElementsAre(key(1).fingerprint + ".lathe", key(2).fingerprint + ".lathe"))
      << "no lock is left";
}

TEST_F(UrgencyTest, IdleCallsWaitForEachOtherOnAMachine) {
  const auto one = make_cache(options()), other = make_cache(options());
  wait_for(*one, Urgency::kIdle, *other);
}

TEST_F(UrgencyTest, UrgentCallsDoNotWaitForIdleOnesInAFleet) {
  NEEDS_REDIS();
  const auto one = machine("a", url()), other = machine("b", url());
  call_beside(*one, *other);
  wait_for(*one, Urgency::kNow, *other);
}

TEST_F(UrgencyTest, IdleCallsWaitForEachOtherInAFleet) {
  NEEDS_REDIS();
  const auto one = machine("a", url()), other = machine("b", url());
  wait_for(*one, Urgency::kIdle, *other);
}

// A killed process leaves its idle lock file.
TEST_F(UrgencyTest, ClearRemovesALeftIdleLock) {
  const auto cache = make_cache(options());
  ASSERT_TRUE(is_for(cache->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));
  write_file(directory_ + "/" + key(2).fingerprint + ".idle", "");
  ASSERT_TRUE(cache->clear().ok());
  EXPECT_THAT(names(), testing::IsEmpty());
}

}  // namespace
}  // namespace lathe
