// Where JSON lies: on the heap, and in a reserve where that has no more.
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>

#include "core/json.h"

namespace lathe {
namespace {

// Blocks one after the other; all of it is free again when the last of them is. They are held for moments, so
// no more is needed.
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
  // False: it is not of here.
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

Reserve reserve;  // zeros, and nothing to destroy

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
