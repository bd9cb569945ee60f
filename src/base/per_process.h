// A value that each process has for itself, so that a child of fork() starts with a new one.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace lathe {

// If another thread forks while a T is locked or half changed, that T stays so in the child. So a child gets
// a new T. The parent's T is leaked there. Thread-safe.
template <typename T>
class PerProcess {
 public:
  PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    Owned* owned = current_.load(std::memory_order_acquire);
    if (owned != nullptr && owned->owner == getpid()) delete owned;
  }

  T& get() {
    Owned* owned = current_.load(std::memory_order_acquire);
    while (owned == nullptr || owned->owner != getpid()) {
      auto fresh = std::make_unique<Owned>();
      if (current_.compare_exchange_strong(owned, fresh.get(), std::memory_order_acq_rel))
        return fresh.release()->value;
    }
    return owned->value;
  }
  // Returns null if this process has no value yet. Allocates nothing.
  T* find() {
    Owned* owned = current_.load(std::memory_order_acquire);
    return owned != nullptr && owned->owner == getpid() ? &owned->value : nullptr;
  }

 private:
  struct Owned {
    const pid_t owner = getpid();
    T value;
  };
  std::atomic<Owned*> current_{nullptr};
};

}  // namespace lathe
