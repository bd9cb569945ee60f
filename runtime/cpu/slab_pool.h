// Launch memory that a driver owns: partial results and per-worker scratch for launches without a caller's
// workspace.
//
// A launch takes one slab and gives it back, so launches in flight never share memory. Taking a slab that
// fits costs one compare-and-swap. There is no lock, and no allocation once there are as many slabs of a size
// as concurrent launches. A thread starts its search at the slab that it had last. Slabs only grow, and are
// freed with the pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lathe {

class SlabPool {
 public:
  // More concurrent launches than this still work: their memory is allocated and freed for each launch.
  static constexpr uint32_t kSlots = 64;
  static constexpr size_t kAlignment = 64;

  class Slab;

  SlabPool() = default;
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  // Returns at least `bytes` (> 0) of memory, aligned to 64 bytes; from 1 MiB on, aligned to 2 MiB and in
  // huge pages if the system grants them. The contents are unspecified. data() is null if there is no memory.
  Slab take(size_t bytes);

 private:
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<size_t> bytes{0};  // written only by the thread that took the slot
    void* data = nullptr;          // written only by the thread that took the slot
  };
  bool try_take(Slot& slot) { return !slot.taken.exchange(true, std::memory_order_acquire); }

  Slot slots_[kSlots];
};

// Gives its memory back when it goes out of scope.
class SlabPool::Slab {
 public:
  Slab() = default;
  ~Slab();
  Slab(Slab&& other) noexcept { *this = std::move(other); }
  Slab& operator=(Slab&& other) noexcept {
    std::swap(slot_, other.slot_);
    std::swap(data_, other.data_);
    std::swap(own_bytes_, other.own_bytes_);
    return *this;
  }

  void* data() const { return data_; }

 private:
  friend class SlabPool;
  Slot* slot_ = nullptr;
  void* data_ = nullptr;
  size_t own_bytes_ = 0;  // not 0: allocated for this launch only
};

}  // namespace lathe
