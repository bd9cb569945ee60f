// Misses of the dispatch tables: the context's policy, and the callback that is told of each miss.
#pragma once

#include <atomic>
#include <memory>

#include "base/fork_safe_mutex.h"
#include "lathe/lathe.h"
#include "options/options.h"

struct lathe_device;

namespace lathe {

struct Request;

// Thread-safe. policy() is one relaxed load, since every hit reads it.
class MissWatch {
 public:
  explicit MissWatch(MissPolicy policy) : initial_(policy), policy_(policy) {}

  MissPolicy initial() const { return initial_; }
  MissPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  void set(MissPolicy policy, lathe_miss_fn callback, void* user);
  // Calls the callback, if there is one and this thread is not inside it already. Holds no lock during the call.
  void tell(const lathe_device& device, const Request& request, bool capturing) const;

 private:
  struct Callback {
    lathe_miss_fn call;
    void* user;
  };
  const MissPolicy initial_;
  std::atomic<MissPolicy> policy_;
  mutable ForkSafeMutex mutex_;
  std::shared_ptr<const Callback> callback_;  // under mutex_
};

// Called first for every miss, except those of a warm-up. Counts it, adds it to the miss manifest and tells the
// callback.
void note_miss(lathe_device& device, const Request& request, bool capturing);

}  // namespace lathe
