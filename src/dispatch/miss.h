// Misses of dispatch tables: what calls do that leave it to their context, and who is told.
#pragma once

#include <atomic>
#include <memory>

#include "base/fork_safe_mutex.h"
#include "lathe/lathe.h"
#include "options/options.h"

struct lathe_device;

namespace lathe {

struct Request;

// Thread-safe. The policy is read on the path of a hit: one relaxed load.
class MissWatch {
 public:
  explicit MissWatch(MissPolicy policy) : initial_(policy), policy_(policy) {}

  MissPolicy initial() const { return initial_; }
  MissPolicy policy() const { return policy_.load(std::memory_order_relaxed); }
  void set(MissPolicy policy, lathe_miss_fn callback, void* user);
  // Calls the callback, if there is one and this thread is not in it. No lock is held meanwhile.
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

// Every miss but a warm-up's passes here before anything comes of it: counted, recorded, told.
void note_miss(lathe_device& device, const Request& request, bool capturing);

}  // namespace lathe
