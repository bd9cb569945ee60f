// The counters of a context. Its cache has counters of its own. Counters never decrease; all accesses are relaxed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lathe {

// The only counter on the hot path. It is sharded over cache lines, so that threads do not contend for one.
class HitCounter {
 public:
  void add() {
    // The address of the thread's stack selects the shard, which is faster than thread-local storage.
    const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    shards_[(stack >> 16) * 0x9e3779b97f4a7c15u >> 60].count.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const Shard& s : shards_) sum += s.count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Shard {
    std::atomic<uint64_t> count{0};
  };
  std::array<Shard, 16> shards_;
};

struct Counters {
  HitCounter dispatch_hits;
  std::atomic<uint64_t> dispatch_misses{0};
  std::atomic<uint64_t> loaded_hits{
      0};  // misses whose kernel the device had loaded already, for another class
  std::atomic<uint64_t> fallback_runs{0};  // calls that ran on a generic kernel
  std::atomic<uint64_t> kernel_loads{0};
  std::atomic<uint64_t> background_compiles{0};
  std::atomic<uint64_t> background_refused{0};
  std::atomic<uint64_t> compiles{0};
  std::atomic<uint64_t> compile_failures{0};
  std::atomic<uint64_t> compile_nanoseconds{0};
  std::atomic<uint64_t> link_nanoseconds{0};
};

// Adds the time from its construction to its destruction to a counter.
class ScopedTimer {
 public:
  explicit ScopedTimer(std::atomic<uint64_t>* nanoseconds) : nanoseconds_(nanoseconds) {}
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
  ~ScopedTimer() {
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start_;
    nanoseconds_->fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>* nanoseconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lathe
