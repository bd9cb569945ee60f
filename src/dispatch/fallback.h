// LATHE_MISS_FALLBACK: generic kernels, from the bundle that ships beside this library.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/bundle.h"

struct lathe_device;

namespace lathe {

struct DispatchEntry;
struct Request;

// The bundle file, opened at the first miss that needs it. Thread-safe, without a lock.
class FallbackBundle {
 public:
  // `path` "": lathe-fallback.bundle beside this library. Nothing is opened here.
  explicit FallbackBundle(std::string path);
  ~FallbackBundle() { delete bundle_.load(std::memory_order_relaxed); }

  // kUnavailable names the file and the cause. A failure is not remembered, so a file that appears later is found.
  absl::StatusOr<const Bundle*> open();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::atomic<const Bundle*> bundle_{nullptr};  // owned; stays open once it is open
};

// Whether a miss of this request may run on a generic kernel. Otherwise it blocks: if its determinism asks for the
// class's own numeric recipe, the caller forces a plan, or the context requires an external library.
bool may_fall_back(const lathe_device& device, const Request& request);

// The generic kernel that serves the request; null if none does. The first call loads it. Does not ask the oracle
// or the compiler, and waits for no compile. kUnavailable: the bundle is missing, damaged or from another build,
// or the device refuses its code.
absl::StatusOr<const DispatchEntry*> find_generic(lathe_device& device, const Request& request);

}  // namespace lathe
