// A mutex that a fork finds free.
#pragma once

#include <mutex>

namespace lathe {

// fork() copies one thread: what another held stays locked in the child for ever, and what it guards half
// changed. This one is taken ahead of every fork and let go behind it on both sides, so the child goes on
// with whole data. For data that the child inherits; what belongs to a process (connections, waits for
// threads) is a PerProcess.
//
// A fork waits for whoever holds one: so nobody does any I/O, calls back, or takes or makes another of them
// meanwhile.
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
  ForkSafeMutex *previous_ = nullptr, *next_ = nullptr;  // in the list of all
};

using ForkSafeLock = std::lock_guard<ForkSafeMutex>;

}  // namespace lathe
