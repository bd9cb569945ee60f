// Contexts, contexts of streams, and launches, which CUDA and HIP call differently.
#include "runtime/gpu/library.h"

namespace lathe::gpu {
namespace {

// HIP has no context handles. A device's context is its ordinal plus 1, so that no handle is null.
Context context_of(Device device) { return reinterpret_cast<Context>(static_cast<uintptr_t>(device) + 1); }
Device device_of(Context context) { return static_cast<Device>(reinterpret_cast<uintptr_t>(context) - 1); }

}  // namespace

int Library::retain_primary(Context* context, Device device) const {
  if (platform_->is_cuda) return calls_.primary_retain(context, device);
  *context = context_of(device);
  return kSuccess;
}

void Library::release_primary(Device device) const {
  if (platform_->is_cuda) calls_.primary_release(device);
}

int Library::current_context(Context* context) const {
  if (platform_->is_cuda) return calls_.context_current(context);
  Device device = 0;
  const int result = calls_.get_device(&device);
  if (result == kSuccess) *context = context_of(device);
  return result;
}

int Library::enter_context(Context context) const {
  return platform_->is_cuda ? calls_.context_push(context) : calls_.set_device(device_of(context));
}

void Library::leave_context(Context before) const {
  Context popped;
  if (platform_->is_cuda)
    calls_.context_pop(&popped);
  else
    calls_.set_device(device_of(before));
}

int Library::stream_context(Stream stream, Context* context) const {
  if (platform_->is_cuda) return calls_.stream_context(stream, context);
  Device device = -1;
  if (calls_.stream_device != nullptr) {
    if (const int result = calls_.stream_device(stream, &device); result != kSuccess) return result;
  } else if (calls_.stream_device_id != nullptr) {
    device = calls_.stream_device_id(stream);
    if (device < 0) return kInvalidHandle;
  } else {
    return kNotSupported;
  }
  *context = context_of(device);
  return kSuccess;
}

int Library::context_device(Context context, Device* device) const {
  if (!platform_->is_cuda) {
    *device = device_of(context);
    return kSuccess;
  }
  Context current = nullptr;
  if (const int result = calls_.context_current(&current); result != kSuccess) return result;
  if (current == context) return calls_.context_device(device);
  if (const int result = calls_.context_push(context); result != kSuccess) return result;
  const int result = calls_.context_device(device);
  calls_.context_pop(&current);
  return result;
}

int Library::launch(const LaunchConfiguration& c, Function function, void** parameters, void** extra) const {
  if (__builtin_expect(platform_->is_cuda, 1)) return calls_.launch(&c, function, parameters, extra);
  return calls_.launch_module(function, c.grid_x, c.grid_y, c.grid_z, c.block_x, c.block_y, c.block_z,
                              c.shared_bytes, c.stream, parameters, extra);
}

}  // namespace lathe::gpu
