// Which context a call works in. HIP's are its devices.
//
// A device's own context is its primary one, retained while the device is open. A call on a stream works in
// the stream's context, whichever context of the device that is; a call on a default stream in the caller's
// current context if that is of this device, else in the primary one. Green contexts' streams are treated as
// default streams are.
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
  // kInvalidArgument for a stream of another device. `current` is the caller's, or null.
  absl::StatusOr<Context> of_stream(void* stream, Context current) const;

 private:
  Contexts(const Library& library, Device device, Context primary)
      : driver_library_(library), device_(device), primary_(primary) {}
  absl::StatusOr<bool> is_of_device(Context context) const;

  const Library& driver_library_;
  const Device device_;
  Context primary_;  // null: moved from
};

}  // namespace lathe::gpu
