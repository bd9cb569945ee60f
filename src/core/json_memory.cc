// Memory for JSON vectors: the heap, or a static reserve once the heap is exhausted.
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>

#include "core/json.h"

namespace lathe {
namespace {

// A bump allocator that becomes empty again when its last block is freed. Blocks live only for a moment, so
// nothing better is needed.
class Reserve {
 public:
  void* take(size_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    constexpr size_t kAlignment = alignof(std::max_align_t);
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (size < bytes || size > sizeof(memory_) - used_) return nullptr;
    ++blocks_;
    used_ += size;
    return memory_ + used_ - size;
  }
  // Returns false if the block is not from this reserve.
  bool give_back(void* memory) noexcept {
    if (std::less<void*>()(memory, memory_) || !std::less<void*>()(memory, memory_ + sizeof(memory_)))
      return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--blocks_ == 0) used_ = 0;
    return true;
  }

 private:
  std::mutex mutex_;
  size_t blocks_ = 0, used_ = 0;
  alignas(std::max_align_t) char memory_[1 << 20] = {};
};

Reserve reserve;  // in .bss: takes no memory until it is used, and has no destructor

}  // namespace

void* allocate_json(size_t bytes) {
  if (void* memory = ::operator new(bytes, std::nothrow)) return memory;
  if (void* memory = reserve.take(bytes)) return memory;
  throw std::bad_alloc();
}

void free_json(void* memory) noexcept {
  if (!reserve.give_back(memory)) ::operator delete(memory);
}

}  // namespace lathe
