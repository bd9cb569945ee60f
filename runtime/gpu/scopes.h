// State of the calling thread that a call changes while it uses a GPU driver: the current context and the
// capture mode. These scopes restore it.
#pragma once

#include "base/status.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// Changes the thread's current context. CUDA's driver has a stack of contexts; push and pop leave the
// caller's stack unchanged, even an empty one. HIP has a current device.
class ContextScope {
 public:
  explicit ContextScope(const Library& library) : library_(library) {}
  ~ContextScope() {
    if (entered_) library_.leave_context(before_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Makes `wanted` current until the scope ends; `current` is the caller's context. Costs nothing if they are
  // equal. Call at most once per scope.
  absl::Status enter(Context wanted, Context current) {
    if (__builtin_expect(wanted == current, 1)) return absl::OkStatus();
    LATHE_RETURN_IF_ERROR(
        library_.check(library_.enter_context(wanted), "making the device's context current"));
    entered_ = true;
    before_ = current;
    return absl::OkStatus();
  }
  absl::Status enter(Context wanted) {
    Context current = nullptr;
    LATHE_RETURN_IF_ERROR(
        library_.check(library_.current_context(&current), "asking for the current context"));
    return enter(wanted, current);
  }

 private:
  const Library& library_;
  bool entered_ = false;
  Context before_ = nullptr;
};

// Lets this thread allocate, free, load code and wait while any stream is being captured. Without it such
// calls fail and invalidate the capture. No work inside this scope may go to a caller's stream.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Library& library) : library_(library) {
    library_.call().exchange_capture_mode(&mode_);
  }
  ~RelaxedCapture() { library_.call().exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Library& library_;
  int mode_ = kCaptureRelaxed;  // the caller's mode after the constructor
};

}  // namespace lathe::gpu
