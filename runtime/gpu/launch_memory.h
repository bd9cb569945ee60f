// Launch memory that a driver owns: partial results of split-K, and the counters by which workgroups find out
// which one is last.
//
// Each stream has one slab. Launches on a stream run one after the other, so they share it; two streams never
// do. (A default stream has one per context, the per-thread default stream one per thread.) A launch finds
// its stream's slab without a lock or an allocation.
//
// A slab only grows: a larger one replaces it, and the old one stays until the device closes, because
// captured graphs may use it. Growth at least doubles a slab, so the old ones together are smaller than the
// last. Memory is allocated and zeroed in relaxed capture mode on this class's own stream, so a first launch
// is legal inside a capture.
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
  size_t counters = 0;  // of 32 bits
  bool zeros = false;   // kZeroBytes of memory that are always 0
};

class LaunchMemory {
 public:
  static constexpr size_t kAlignment = 256, kZeroBytes = 256;

  // One allocation of device memory. It never changes once a launch can see it.
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

  // Identifies whose memory a slab is. Context and thread are set for default streams only; any other handle
  // identifies one stream.
  struct Key {
    void* stream = nullptr;
    Context context = nullptr;
    uint64_t thread = 0;
    bool operator==(const Key& o) const {
      return stream == o.stream && context == o.context && thread == o.thread;
    }
  };
  static Key key_of(void* stream, Context default_context);

  // The state of one stream. It lives as long as the LaunchMemory.
  class StreamState {
   public:
    // The context of the stream. It changes if the handle was destroyed and given to a new stream.
    Context context() const { return context_.load(std::memory_order_acquire); }
    const Slab* slab() const { return slab_.load(std::memory_order_acquire); }
    // A failed launch may leave counters with wrong values. Later launches zero them first while in_doubt(),
    // until one of them has enqueued the zeroing and calls settle() with the number that doubts() returned.
    void doubt_counters() { doubts_.fetch_add(1, std::memory_order_relaxed); }
    uint32_t doubts() const { return doubts_.load(std::memory_order_relaxed); }
    bool in_doubt(uint32_t doubts) const { return settled_.load(std::memory_order_acquire) != doubts; }
    void settle(uint32_t doubts) { settled_.store(doubts, std::memory_order_release); }
    // Held by a launch of several kernels that share a workspace, or of a library call, which may be several.
    // So the kernels of another thread's launch on this stream, which uses the same workspace, cannot come
    // between them.
    std::mutex& sequence() { return sequence_; }

   private:
    friend class LaunchMemory;
    Key key_;
    std::atomic<Context> context_{nullptr};
    std::atomic<const Slab*> slab_{nullptr};
    std::atomic<uint32_t> doubts_{0}, settled_{0};
    std::mutex sequence_;
  };

  // Both must outlive this object.
  LaunchMemory(const Library& library, const Contexts& contexts);
  // Frees all memory. No launch may be in flight.
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  // Returns null for a new stream. No lock, no allocation.
  StreamState* find(const Key& key) const;
  // Returns the stream's state and assigns it to `context`.
  StreamState* adopt(const Key& key, Context context);
  // Returns a slab of the stream that serves `need`. The stream's context must be current.
  // kResourceExhausted: no memory; the message has the size.
  absl::StatusOr<const Slab*> grow(StreamState* stream, const LaunchNeed& need);

  // Later slabs are at least this large, and one is allocated now, in the primary context, for the first
  // stream that needs it.
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
  std::vector<std::unique_ptr<Table>> tables_;  // under mutex_; kept, since readers may still use an old one
  std::atomic<const Table*> current_;
};

}  // namespace lathe::gpu
