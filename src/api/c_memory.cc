// C functions: the memory and the streams of a device.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/device.h"
#include "options/raw_enum.h"
#include "request/request.h"

using lathe::at_boundary;
using lathe::null_argument;

namespace {

// Runs `body` with the memory of a device that can run. Its errors get the names of the call and the device as a
// prefix.
template <typename F>
lathe_status with_memory(absl::string_view call, lathe_device* device, F&& body) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument(call, "device");
    LATHE_RETURN_IF_ERROR(lathe::check_runnable(*device));
    const absl::Status status = body(device->driver->memory());
    return status.ok() ? status : lathe::in_request(call, device->name, status);
  });
}

absl::Status check_copy(const void* to, const void* from, size_t bytes, const lathe_copy_kind& kind) {
  if (lathe::raw(kind) < LATHE_COPY_TO_DEVICE || lathe::raw(kind) > LATHE_COPY_ON_DEVICE)
    return absl::InvalidArgumentError(absl::StrCat("kind ", lathe::raw(kind), " is unknown"));
  if (bytes != 0 && to == nullptr) return absl::InvalidArgumentError("to is NULL");
  if (bytes != 0 && from == nullptr) return absl::InvalidArgumentError("from is NULL");
  return absl::OkStatus();
}

}  // namespace

extern "C" {

lathe_status lathe_device_alloc(lathe_device* device, size_t bytes, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with_memory("lathe_device_alloc", device, [&](lathe::DeviceMemory& m) -> absl::Status {
    if (memory == nullptr) return absl::InvalidArgumentError("memory is NULL");
    LATHE_ASSIGN_OR_RETURN(*memory, m.allocate(bytes));
    return absl::OkStatus();
  });
}

lathe_status lathe_device_free(lathe_device* device, void* memory) {
  return with_memory("lathe_device_free", device, [&](lathe::DeviceMemory& m) -> absl::Status {
    return memory == nullptr ? absl::OkStatus() : m.release(memory);
  });
}

lathe_status lathe_device_copy(lathe_device* device, lathe_stream stream, void* to, const void* from,
                               size_t bytes, lathe_copy_kind kind) {
  return with_memory("lathe_device_copy", device, [&](lathe::DeviceMemory& m) -> absl::Status {
    LATHE_RETURN_IF_ERROR(check_copy(to, from, bytes, kind));
    return m.copy(stream, to, from, bytes, static_cast<lathe::CopyKind>(kind));
  });
}

lathe_status lathe_stream_create(lathe_device* device, lathe_stream* stream) {
  if (stream != nullptr) *stream = nullptr;
  return with_memory("lathe_stream_create", device, [&](lathe::DeviceMemory& m) -> absl::Status {
    if (stream == nullptr) return absl::InvalidArgumentError("stream is NULL");
    LATHE_ASSIGN_OR_RETURN(*stream, m.create_stream());
    return absl::OkStatus();
  });
}

lathe_status lathe_stream_destroy(lathe_device* device, lathe_stream stream) {
  return with_memory("lathe_stream_destroy", device,
                     [&](lathe::DeviceMemory& m) { return m.destroy_stream(stream); });
}

lathe_status lathe_stream_synchronize(lathe_device* device, lathe_stream stream) {
  return with_memory("lathe_stream_synchronize", device,
                     [&](lathe::DeviceMemory& m) { return m.synchronize(stream); });
}

}  // extern "C"
