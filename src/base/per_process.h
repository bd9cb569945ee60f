// A value of which each process has its own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace lathe {

// What is locked or half done when another thread forks stays so for ever in the child: it begins anew with a
// T of its own. Thread-safe.
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
  // Null where this process has none yet. Allocates nothing.
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
