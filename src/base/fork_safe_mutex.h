// A mutex that is always free in the child of a fork.
#pragma once

#include <mutex>

namespace lathe {

// fork() copies only the calling thread. A mutex that another thread holds would stay locked in the child for
// ever, and its data half changed. This mutex is locked before every fork and unlocked after it in parent and
// child, so the child finds complete data. Use it for data that the child inherits, and PerProcess for what
// belongs to one process (connections, waits for threads).
//
// A fork waits for the holder. So while you hold one: no I/O, no callbacks, and do not lock or create
// another.
class ForkSafeMutex {
 public:
  ForkSafeMutex() noexcept;
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  ~ForkSafeMutex();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct ForkSafeMutexes;
  std::mutex mutex_;
  ForkSafeMutex *previous_ = nullptr, *next_ = nullptr;  // in the list of all mutexes
};

using ForkSafeLock = std::lock_guard<ForkSafeMutex>;

}  // namespace lathe
