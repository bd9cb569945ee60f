// What a call changes in its thread while it talks to a GPU driver, put back on every path: the current
// context and the stream-capture mode.
#pragma once

#include "base/status.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// The thread's current context. CUDA's driver keeps a stack of them: pushing and popping leaves the caller's
// stack, an empty one included, as it was. HIP's has a current device.
class ContextScope {
 public:
  explicit ContextScope(const Library& library) : library_(library) {}
  ~ContextScope() {
    if (entered_) library_.leave_context(before_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Makes `wanted` current until the scope ends; costs nothing where it is `current`, the caller's. At most
  // once a scope.
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

// Lets this thread allocate, free, load and wait while any stream, of this thread or another, is being
// captured: calls that would otherwise be refused and invalidate the capture. Nothing done inside goes to a
// stream of the caller's.
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
  int mode_ = kCaptureRelaxed;  // the caller's, after the first exchange
};

}  // namespace lathe::gpu
