#include "runtime/cpu/slab_pool.h"

#include <sys/mman.h>

#include <cstdlib>

namespace lathe {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// From this size on, a slab gets whole huge pages, because the panels of a matmul would need hundreds of
// small ones.
constexpr size_t kHugeFrom = kHugePage / 2;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps memory that is aligned to 2 MiB: maps more and cuts off both ends.
void* map_huge(size_t bytes) {
  const size_t reserved = bytes + kHugePage;
  void* base = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = rounded(begin, kHugePage);
  if (aligned > begin) munmap(base, aligned - begin);
  const size_t tail = begin + reserved - (aligned + bytes);
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  void* data = reinterpret_cast<void*>(aligned);
  madvise(data, bytes, MADV_HUGEPAGE);  // only a hint: small pages work, too
  return data;
}

// The number of bytes that `allocate` is called with for a request.
size_t capacity_for(size_t bytes) {
  return bytes >= kHugeFrom ? rounded(bytes, kHugePage) : rounded(bytes, SlabPool::kAlignment);
}

void* allocate(size_t capacity) {
  return capacity >= kHugePage ? map_huge(capacity) : std::aligned_alloc(SlabPool::kAlignment, capacity);
}

void deallocate(void* data, size_t capacity) {
  if (capacity >= kHugePage) {
    munmap(data, capacity);
  } else {
    std::free(data);
  }
}

// Where this thread last found a slab, in any pool. A hint, so that a thread gets memory that its caches
// still hold.
uint32_t& last_slot() {
  static std::atomic<uint32_t> next{0};
  thread_local uint32_t slot = next.fetch_add(1, std::memory_order_relaxed) % SlabPool::kSlots;
  return slot;
}

}  // namespace

SlabPool::~SlabPool() {
  for (Slot& slot : slots_) {
    if (slot.data != nullptr) deallocate(slot.data, slot.bytes.load(std::memory_order_relaxed));
  }
}

SlabPool::Slab SlabPool::take(size_t bytes) {
  Slab slab;
  if (bytes > SIZE_MAX / 2) return slab;
  uint32_t& hint = last_slot();
  const auto hold = [&](uint32_t index) {
    slab.slot_ = &slots_[index];
    slab.data_ = slots_[index].data;
    hint = index;
  };
  // First look for a slab that fits, then for an idle one to grow.
  for (uint32_t i = 0; i < kSlots; ++i) {
    const uint32_t index = (hint + i) % kSlots;
    Slot& slot = slots_[index];
    if (slot.bytes.load(std::memory_order_relaxed) < bytes || slot.taken.load(std::memory_order_relaxed))
      continue;
    if (!try_take(slot)) continue;
    if (slot.bytes.load(std::memory_order_relaxed) < bytes) {  // another thread failed to grow it
      slot.taken.store(false, std::memory_order_release);
      continue;
    }
    hold(index);
    return slab;
  }
  const size_t capacity = capacity_for(bytes);
  for (uint32_t i = 0; i < kSlots; ++i) {
    const uint32_t index = (hint + i) % kSlots;
    Slot& slot = slots_[index];
    if (slot.taken.load(std::memory_order_relaxed) || !try_take(slot)) continue;
    const size_t had = slot.bytes.load(std::memory_order_relaxed);
    if (had < bytes) {
      if (slot.data != nullptr) deallocate(slot.data, had);
      slot.data = allocate(capacity);
      slot.bytes.store(slot.data == nullptr ? 0 : capacity, std::memory_order_relaxed);
    }
    hold(index);
    return slab;
  }
  slab.data_ = allocate(capacity);
  slab.own_bytes_ = slab.data_ == nullptr ? 0 : capacity;
  return slab;
}

SlabPool::Slab::~Slab() {
  if (slot_ != nullptr) {
    slot_->taken.store(false, std::memory_order_release);
  } else if (own_bytes_ != 0) {
    deallocate(data_, own_bytes_);
  }
}

}  // namespace lathe
