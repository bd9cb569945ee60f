#include "runtime/gpu/contexts.h"

#include <utility>

namespace lathe::gpu {

absl::StatusOr<Contexts> Contexts::open(const Library& library, Device device) {
  Context primary = nullptr;
  LATHE_RETURN_IF_ERROR(
      library.check(library.retain_primary(&primary, device), "retaining the device's primary context"));
  return Contexts(library, device, primary);
}

Contexts::Contexts(Contexts&& other) noexcept
    : driver_library_(other.driver_library_),
      device_(other.device_),
      primary_(std::exchange(other.primary_, nullptr)) {}

Contexts::~Contexts() {
  if (primary_ != nullptr) driver_library_.release_primary(device_);
}

absl::StatusOr<bool> Contexts::is_of_device(Context context) const {
  if (context == primary_) return true;
  Device device = -1;
  LATHE_RETURN_IF_ERROR(driver_library_.check(driver_library_.context_device(context, &device),
                                              "asking for a context's device"));
  return device == device_;
}

absl::StatusOr<Context> Contexts::of_stream(void* stream, Context current) const {
  Context context = nullptr;
  if (!is_default_stream(stream)) {
    const int result = driver_library_.stream_context(static_cast<Stream>(stream), &context);
    if (driver_library_.row(result).code != absl::StatusCode::kUnimplemented) {
      LATHE_RETURN_IF_ERROR(driver_library_.check(result, "asking for the stream's context"));
      LATHE_ASSIGN_OR_RETURN(const bool ours, is_of_device(context));
      if (!ours) return absl::InvalidArgumentError("the stream belongs to another device");
      return context;
    }
  }
  if (current == nullptr) return primary_;
  LATHE_ASSIGN_OR_RETURN(const bool ours, is_of_device(current));
  return ours ? current : primary_;
}

}  // namespace lathe::gpu
