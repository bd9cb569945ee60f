#include "dispatch/miss.h"

#include "core/manifest.h"
#include "dispatch/device.h"

namespace lathe {
namespace {

thread_local bool in_callback = false;

class CallbackScope {
 public:
  CallbackScope() { in_callback = true; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  ~CallbackScope() { in_callback = false; }
};

lathe_miss_policy to_c(MissPolicy policy) {
  switch (policy) {
    case MissPolicy::kBlock: return LATHE_MISS_BLOCK;
    case MissPolicy::kFallback: return LATHE_MISS_FALLBACK;
    case MissPolicy::kError: return LATHE_MISS_ERROR;
  }
  return LATHE_MISS_DEFAULT;
}

}  // namespace

void MissWatch::set(MissPolicy policy, lathe_miss_fn callback, void* user) {
  auto next = callback == nullptr ? nullptr : std::make_shared<const Callback>(Callback{callback, user});
  {
    const ForkSafeLock lock(mutex_);
    callback_.swap(next);
  }
  policy_.store(policy, std::memory_order_relaxed);
}

void MissWatch::tell(const lathe_device& device, const Request& request, bool capturing) const {
  if (in_callback) return;
  std::shared_ptr<const Callback> callback;
  {
    const ForkSafeLock lock(mutex_);
    callback = callback_;
  }
  if (callback == nullptr) return;
  const std::string problem = describe(request);
  const std::string entry =
      manifest_line({"", request.key.problem, 0, request.key.split_k, request.key.candidate,
                     request.program == nullptr ? nullptr : request.program->program});
  const lathe_miss miss = {sizeof miss,        nullptr,       device.name.c_str(),
                           problem.c_str(),    entry.c_str(), to_c(request.miss_policy),
                           capturing ? 1u : 0u};
  const CallbackScope scope;
  callback->call(callback->user, &miss);
}

void note_miss(lathe_device& device, const Request& request, bool capturing) {
  device.context.counters.dispatch_misses.fetch_add(1, std::memory_order_relaxed);
  if (request.program != nullptr) device.context.programs.keep(request.program->program);
  device.context.miss_manifest.add(request.key,
                                   request.program == nullptr ? nullptr : request.program->program);
  device.context.misses.tell(device, request, capturing);
}

}  // namespace lathe
