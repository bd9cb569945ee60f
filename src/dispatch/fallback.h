// LATHE_MISS_FALLBACK: generic kernels from the bundle that ships beside this library, and where they are
// kept.
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

// The bundle's file, opened at the first miss that asks for it. Thread-safe, without a lock.
class FallbackBundle {
 public:
  // `path` "": lathe-fallback.bundle beside this library. Nothing is opened here.
  explicit FallbackBundle(std::string path);
  ~FallbackBundle() { delete bundle_.load(std::memory_order_relaxed); }

  // kUnavailable names the file and the cause; a failure is not remembered, so a file that appears later is
  // found.
  absl::StatusOr<const Bundle*> open();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::atomic<const Bundle*> bundle_{nullptr};  // owned, never closed once open
};

// Whether a miss of this request may run on a generic kernel. Not where its determinism asks for the class's
// own numeric recipe, nor where the caller forces a plan or the context requires an external library: such a
// miss blocks.
bool may_fall_back(const lathe_device& device, const Request& request);

// The generic kernel that serves the request, loaded at the first call for it: neither the oracle nor the
// compiler is asked, and nobody's compilation is waited for. kNotFound: none serves it; kUnavailable: the
// bundle is missing, damaged or another build's, or the device refuses its code.
absl::StatusOr<const DispatchEntry*> find_generic(lathe_device& device, const Request& request);

}  // namespace lathe
