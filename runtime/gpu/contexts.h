// Chooses the context in which a call works. With HIP, a context is a device.
//
// A device's own context is its primary context, which is retained while the device is open. A call on a
// stream works in the stream's context, if that belongs to the device. A call on a default stream works in
// the caller's current context if that belongs to the device, otherwise in the primary context. Streams of
// green contexts are treated like default streams.
#pragma once

#include "base/status.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

inline bool is_default_stream(const void* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= kPerThreadStream;
}

class Contexts {
 public:
  // Retains the primary context; the destructor releases it.
  static absl::StatusOr<Contexts> open(const Library& library, Device device);
  Contexts(Contexts&& other) noexcept;
  Contexts(const Contexts&) = delete;
  ~Contexts();

  Context primary() const { return primary_; }
  // The context for work on `stream`. `current` is the caller's current context or null. kInvalidArgument:
  // the stream belongs to another device.
  absl::StatusOr<Context> of_stream(void* stream, Context current) const;

 private:
  Contexts(const Library& library, Device device, Context primary)
      : driver_library_(library), device_(device), primary_(primary) {}
  absl::StatusOr<bool> is_of_device(Context context) const;

  const Library& driver_library_;
  const Device device_;
  Context primary_;  // null after a move
};

}  // namespace lathe::gpu
