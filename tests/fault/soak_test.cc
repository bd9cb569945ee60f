// Many processes with many threads use one store for a while, during eviction, deletion and pruning.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>

#include "store_fixture.h"

namespace lathe::fault {
namespace {

using Clock = std::chrono::steady_clock;

class SoakTest : public StoreFixture {
 protected:
  static constexpr int kKeys = 256;
  // Counters shared by all processes.
  struct Counts {
    std::atomic<uint64_t> lookups, loads, rejects, overlaps, wrong, evictions, removed;
    std::atomic<int> compiling[kKeys];
    std::atomic<uint64_t> compiles[kKeys];
  };

  void SetUp() override {
    StoreFixture::SetUp();
    void* const memory =
        mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    counts_ = new (memory) Counts{};
    // Cause one miss before any thread starts. Abseil builds its message table at the first error, and
    // ThreadSanitizer, which does not see into that library, would report a race.
    ASSERT_TRUE(absl::IsNotFound(make_cache(capped())->get(key(0)).status()));
  }
  void TearDown() override {
    munmap(counts_, sizeof(Counts));
    StoreFixture::TearDown();
  }
  static double seconds() {
    const char* text = std::getenv("LATHE_FAULT_SECONDS");
    return text != nullptr ? std::atof(text) : is_long_form() ? 600 : 3;
  }

  CacheOptions capped() {
    CacheOptions o = options();
    // The cap has room for about half of the keys.
    o.cap_bytes = kKeys / 2 * 512;
    o.lock_timeout_seconds = 3600;  // long, because the test expects one compile at a time
    return o;
  }
  Artifact compile(int n) {
    if (counts_->compiling[n].fetch_add(1) != 0) ++counts_->overlaps;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++counts_->compiles[n];
    --counts_->compiling[n];
    return artifact(key(n));
  }
  void use(ArtifactCache& cache, unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 64; ++i) {
      const int n = static_cast<int>(random() % kKeys);
      if (!is_for(cache.get_or_create(key(n), [&] { return compile(n); }), key(n))) ++counts_->wrong;
      ++counts_->lookups;
    }
  }
  // Whether the time is over. A busy machine works on until it has done all that the test counts, but not for ever.
  bool is_over(Clock::time_point end) const {
    if (Clock::now() < end) return false;
    const bool all_compiled = std::all_of(std::begin(counts_->compiles), std::end(counts_->compiles),
                                          [](const auto& n) { return n.load() > 0; });
    return (all_compiled && counts_->evictions > 0 && counts_->removed > 0 && counts_->loads > 0) ||
           Clock::now() > end + std::chrono::minutes(5);
  }
  // The life of a process: one cache after the other, so that the disk is read and not only memory.
  void live(unsigned process, int threads, Clock::time_point end) {
    for (unsigned round = 0; !is_over(end); ++round) {
      const auto cache = make_cache(capped());
      std::vector<std::thread> running;
      for (int t = 0; t < threads; ++t)
        running.emplace_back(
            [&, t] { use(*cache, process * 7919 + round * 104729 + static_cast<unsigned>(t)); });
      for (std::thread& t : running) t.join();
      add(cache->statistics());
    }
  }
  void add(const CacheStatistics& s) {
    counts_->evictions += s.evictions;
    counts_->loads += s.disk_hits;
    counts_->rejects += s.disk_rejects;
  }
  void tidy(Clock::time_point end) {
    std::mt19937 random(1);
    for (int round = 0; !is_over(end); ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const auto cache = make_cache(capped());
      if (round % 3 == 0) counts_->removed += cache->prune(kKeys / 8 * 512).value();
      if (round % 3 == 1)
        counts_->removed += unlink(entry_path(key(static_cast<int>(random() % kKeys))).c_str()) == 0;
      if (round % 10 == 2) counts_->removed += cache->clear().value();
      (void)cache->list().value();
    }
  }

  Counts* counts_ = nullptr;
};

TEST_F(SoakTest, NoWrongArtifactAndOneCompileAtATime) {
  const int processes = is_long_form() ? 64 : 8, threads = is_long_form() ? 16 : 4;
  const auto end = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds() * 1000));
  std::vector<pid_t> children;
  for (int i = 0; i <= processes; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    if (i == processes)
      tidy(end);
    else
      live(static_cast<unsigned>(i), threads, end);
    for (const std::string& warning : warnings_) std::fprintf(stderr, "process %d: %s\n", i, warning.c_str());
    _exit(warnings_.empty() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  uint64_t compiles = 0, least = UINT64_MAX, most = 0, never = 0;
  for (const auto& of_key : counts_->compiles) {
    const uint64_t n = of_key.load();
    compiles += n;
    least = std::min(least, n);
    most = std::max(most, n);
    never += n == 0;
  }
  uint64_t left = 0;
  for (const std::string& name : names()) left += name.size() == 38;
  const auto value = [](const std::atomic<uint64_t>& n) { return static_cast<unsigned long long>(n.load()); };
  std::printf(
      "%d processes x %d threads, %g s: %llu lookups, %llu loads from the store; %llu compiles, %llu to %llu "
      "a key; "
      "%llu entries evicted, %llu removed, %llu left; %llu wrong, %llu refused, %llu keys compiled twice at "
      "a time\n",
      processes, threads, seconds(), value(counts_->lookups), value(counts_->loads),
      static_cast<unsigned long long>(compiles), static_cast<unsigned long long>(least),
      static_cast<unsigned long long>(most), value(counts_->evictions), value(counts_->removed),
      static_cast<unsigned long long>(left), value(counts_->wrong), value(counts_->rejects),
      value(counts_->overlaps));
  EXPECT_EQ(counts_->wrong.load(), 0u);
  EXPECT_EQ(counts_->rejects.load(), 0u);
  EXPECT_EQ(counts_->overlaps.load(), 0u);
  // Each compile happened because the key's entry was missing. So every compiled entry was evicted, removed,
  // or is still there.
  EXPECT_EQ(compiles, left + counts_->evictions.load() + counts_->removed.load());
  EXPECT_GT(counts_->evictions.load(), 0u);
  EXPECT_GT(counts_->removed.load(), 0u);
  EXPECT_GT(counts_->loads.load(), 0u);
  EXPECT_EQ(never, 0u) << "the run was too short to compile every key";
  uint64_t rejects = 0;
  EXPECT_TRUE(all_right(kKeys, &rejects));
  EXPECT_EQ(rejects, 0u);
  EXPECT_THAT(left_over(kKeys + 1), testing::IsEmpty());
}

}  // namespace
}  // namespace lathe::fault
