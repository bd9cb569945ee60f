#include "base/fork_safe_mutex.h"

#include <pthread.h>

namespace lathe {

// The list of all mutexes. It is constant-initialised and never destroyed, because a context may outlive
// main.
struct ForkSafeMutexes {
  std::mutex mutex;
  ForkSafeMutex* first = nullptr;

  static ForkSafeMutexes& get() {
    static union Kept {
      constexpr Kept() : all() {}
      ~Kept() {}
      ForkSafeMutexes all;
    } kept;
    return kept.all;
  }
  static void lock_all() {
    get().mutex.lock();
    for (ForkSafeMutex* m = get().first; m != nullptr; m = m->next_) m->lock();
  }
  static void unlock_all() {
    for (ForkSafeMutex* m = get().first; m != nullptr; m = m->next_) m->unlock();
    get().mutex.unlock();
  }
};

ForkSafeMutex::ForkSafeMutex() noexcept {
  // If there is no memory for the handlers, a fork is as unsafe as with any other mutex.
  static const int handlers =
      pthread_atfork(ForkSafeMutexes::lock_all, ForkSafeMutexes::unlock_all, ForkSafeMutexes::unlock_all);
  (void)handlers;
  ForkSafeMutexes& all = ForkSafeMutexes::get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  next_ = all.first;
  if (next_ != nullptr) next_->previous_ = this;
  all.first = this;
}

ForkSafeMutex::~ForkSafeMutex() {
  ForkSafeMutexes& all = ForkSafeMutexes::get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  (previous_ == nullptr ? all.first : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace lathe
