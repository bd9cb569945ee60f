// Launch memory that a driver owns: partial results and per-worker scratch when the caller brings no
// workspace.
//
// A launch takes one slab and gives it back, so launches in flight never share memory. Taking a slab that
// fits costs one compare-and-swap; no lock, and no allocation once as many slabs of a size exist as there are
// launches at once. A thread starts its search at the slab it had last. Slabs only grow, and are returned to
// the system with the pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lathe {

class SlabPool {
 public:
  // Launches beyond this many at once still work: their memory is allocated for the launch and freed after
  // it.
  static constexpr uint32_t kSlots = 64;
  static constexpr size_t kAlignment = 64;

  class Slab;

  SlabPool() = default;
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  // At least `bytes` of memory aligned to 64 bytes (from 1 MiB on to 2 MiB, with huge pages where the system
  // grants them), contents unspecified. data() is null if the system has no memory left. bytes > 0.
  Slab take(size_t bytes);

 private:
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<size_t> bytes{0};  // written by the taker alone
    void* data = nullptr;          // likewise
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
  size_t own_bytes_ = 0;  // allocated for this launch alone
};

}  // namespace lathe
