// Launch memory that a driver owns: partial results of splits, and the counters by which workgroups find out
// who is last.
//
// One slab a stream. Launches of one stream follow each other, so they share it; two streams never do. (A
// default stream counts once a context, the per-thread default stream once a thread.) A launch finds its
// stream's slab without a lock or an allocation. A slab only grows: a larger one takes its place and the old
// one stays until the device closes, because captured graphs may name it. A launch that outgrows its slab at
// least doubles it, so that the old ones add up to less than the last. Memory is taken and zeroed in relaxed
// capture mode and on a stream of this class's own, so that a first launch is legal inside a capture.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "runtime/gpu/contexts.h"

namespace lathe::gpu {

// What a launch needs.
struct LaunchNeed {
  size_t workspace_bytes = 0;
  size_t counters = 0;  // 32-bit ones
  bool zeros = false;   // kZeroBytes that are 0 and stay so
};

class LaunchMemory {
 public:
  static constexpr size_t kAlignment = 256, kZeroBytes = 256;

  // Device memory of one allocation. Never changes once a launch can see it.
  struct Slab {
    Context context = nullptr;
    DevicePointer zeros = 0;  // the allocation's start
    DevicePointer counters = 0;
    size_t counter_count = 0;
    DevicePointer workspace = 0;
    size_t workspace_bytes = 0;

    bool serves(const LaunchNeed& need) const {
      return workspace_bytes >= need.workspace_bytes && counter_count >= need.counters;
    }
  };

  // Who a stream's memory belongs to. Only default streams have a context or thread here: other handles name
  // one stream.
  struct Key {
    void* stream = nullptr;
    Context context = nullptr;
    uint64_t thread = 0;
    bool operator==(const Key& o) const {
      return stream == o.stream && context == o.context && thread == o.thread;
    }
  };
  static Key key_of(void* stream, Context default_context);

  // One stream's state. Lives as long as the LaunchMemory.
  class StreamState {
   public:
    // The context its work is done in; another one if the handle was destroyed and given to a new stream.
    Context context() const { return context_.load(std::memory_order_acquire); }
    const Slab* slab() const { return slab_.load(std::memory_order_acquire); }
    // A launch that failed may leave counters half counted: the next ones zero them first, until one of them
    // has told the stream to and says so with what it was given here.
    void doubt_counters() { doubts_.fetch_add(1, std::memory_order_relaxed); }
    uint32_t doubts() const { return doubts_.load(std::memory_order_relaxed); }
    bool in_doubt(uint32_t doubts) const { return settled_.load(std::memory_order_acquire) != doubts; }
    void settle(uint32_t doubts) { settled_.store(doubts, std::memory_order_release); }
    // Held by a launch of several kernels that hand each other a workspace, or of a library's that may: those
    // of another thread's launch on this stream, whose workspace is the same, come before all of them or
    // after.
    std::mutex& sequence() { return sequence_; }

   private:
    friend class LaunchMemory;
    Key key_;
    std::atomic<Context> context_{nullptr};
    std::atomic<const Slab*> slab_{nullptr};
    std::atomic<uint32_t> doubts_{0}, settled_{0};
    std::mutex sequence_;
  };

  // Both outlive this object.
  LaunchMemory(const Library& library, const Contexts& contexts);
  // Frees all. No launch may be in flight.
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  // Null when the stream is new. No lock, no allocation.
  StreamState* find(const Key& key) const;
  // The stream's state, in `context` from now on.
  StreamState* adopt(const Key& key, Context context);
  // A slab of the stream's that serves `need`. The stream's context must be current. kResourceExhausted names
  // the size.
  absl::StatusOr<const Slab*> grow(StreamState* stream, const LaunchNeed& need);

  // No slab made from now on is smaller, and one is made ready, in the primary context, for the first stream
  // that asks.
  absl::Status reserve(const LaunchNeed& need);

 private:
  struct Table {
    explicit Table(size_t count) : mask(count - 1), slot(new std::atomic<StreamState*>[count]()) {}
    size_t mask;  // the count is a power of two, and at least half of the slots are empty
    std::unique_ptr<std::atomic<StreamState*>[]> slot;
  };
  static void place(Table& table, StreamState* stream);
  absl::StatusOr<std::unique_ptr<Slab>> make_slab(Context context, const LaunchNeed& need);
  void free_slab(const Slab& slab);

  const Library& library_;
  const Contexts& contexts_;
  std::mutex mutex_;
  LaunchNeed floor_;                                   // under mutex_
  std::unique_ptr<Slab> spare_;                        // under mutex_
  std::vector<std::unique_ptr<Slab>> slabs_;           // under mutex_
  std::vector<std::unique_ptr<StreamState>> streams_;  // under mutex_
  std::vector<std::unique_ptr<Table>> tables_;         // under mutex_; readers may still probe an old one
  std::atomic<const Table*> current_;
};

}  // namespace lathe::gpu
