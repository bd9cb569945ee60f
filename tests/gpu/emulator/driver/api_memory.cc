// Device memory, pinned host memory, copies, fills, and pointer attributes.
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/driver/state.h"

using namespace lathe::emulator;

namespace {

int allocate(Call& call, DevicePointer* memory, size_t bytes) {
  State& state = call.state();
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  const uint64_t address = state.arena->allocate(bytes);
  if (address == 0) return kOutOfMemory;
  state.allocations[address] = {bytes, call.context()->device, false};
  call.device().memory.add(address, bytes, absl::StrCat("the allocation of ", bytes, " bytes"),
                           state.arena->bias());
  *memory = address;
  return kSuccess;
}

int release(Call& call, DevicePointer memory) {
  State& state = call.state();
  if (memory == 0) return kSuccess;
  const auto it = state.allocations.find(memory);
  if (it == state.allocations.end() || it->second.host) return kInvalidValue;
  state.devices[static_cast<size_t>(it->second.device)].memory.remove(memory);
  state.arena->release(memory);
  state.allocations.erase(it);
  return kSuccess;
}

// The host address of a range of device memory, pinned memory or a module variable, or null. Copies may access the
// memory of every device.
uint8_t* device_bytes(State& state, DevicePointer address, size_t bytes) {
  for (const Device& device : state.devices) {
    if (uint8_t* place = device.memory.find(address, bytes)) return place;
  }
  return nullptr;
}

// Copies between host and device, or within the device. A null host pointer selects the device address.
int copy(State& state, void* to, DevicePointer to_device, const void* from, DevicePointer from_device,
         size_t bytes) {
  if (bytes == 0) return kSuccess;
  if (to == nullptr) to = device_bytes(state, to_device, bytes);
  if (from == nullptr) from = device_bytes(state, from_device, bytes);
  if (to == nullptr || from == nullptr) return kInvalidValue;
  std::memmove(to, from, bytes);
  return kSuccess;
}

int fill(State& state, DevicePointer memory, uint32_t value, size_t width, size_t count) {
  if (count == 0) return kSuccess;
  if (memory % width != 0) return kInvalidValue;
  uint8_t* to = device_bytes(state, memory, width * count);
  if (to == nullptr) return kInvalidValue;
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * width, &value, width);
  return kSuccess;
}

// Runs or captures work in a stream. Without a capture it runs at once and returns its result.
template <class F>
int in_stream(Call& call, void* handle, F work) {
  Stream* stream = call.state().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  return call.state().enqueue(stream, std::move(work));
}

}  // namespace

EMU_API cuMemAlloc_v2(DevicePointer* memory, size_t bytes) {
  EMU_CALL("cuMemAlloc_v2", kContext | Call::kUnsafe);
  return allocate(call, memory, bytes);
}
EMU_API cuMemFree_v2(DevicePointer memory) {
  EMU_CALL("cuMemFree_v2", kContext | Call::kUnsafe);
  return release(call, memory);
}

// Stream-ordered allocation. Captures of it are not supported: they would need allocation nodes.
EMU_API cuMemAllocAsync(DevicePointer* memory, size_t bytes, void* handle) {
  EMU_CALL("cuMemAllocAsync", kContext);
  Stream* stream = call.state().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  return stream->capture != nullptr ? kNotSupported : allocate(call, memory, bytes);
}
EMU_API cuMemFreeAsync(DevicePointer memory, void* handle) {
  EMU_CALL("cuMemFreeAsync", kContext);
  Stream* stream = call.state().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  return stream->capture != nullptr ? kNotSupported : release(call, memory);
}

EMU_API cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  EMU_CALL("cuMemHostAlloc", kContext | Call::kUnsafe);
  State& state = call.state();
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  if (posix_memalign(memory, 4096, bytes) != 0) return kOutOfMemory;
  const auto address = reinterpret_cast<uint64_t>(*memory);
  state.allocations[address] = {bytes, call.context()->device, true};
  for (Device& device : state.devices)
    device.memory.add(address, bytes, absl::StrCat("the pinned host memory of ", bytes, " bytes"));
  return kSuccess;
}
EMU_API cuMemFreeHost(void* memory) {
  EMU_CALL("cuMemFreeHost", kContext | Call::kUnsafe);
  State& state = call.state();
  const auto it = state.allocations.find(reinterpret_cast<uint64_t>(memory));
  if (it == state.allocations.end() || !it->second.host) return kInvalidValue;
  for (Device& device : state.devices) device.memory.remove(it->first);
  state.allocations.erase(it);
  std::free(memory);
  return kSuccess;
}

EMU_API cuMemGetInfo_v2(size_t* free, size_t* total) {
  EMU_CALL("cuMemGetInfo_v2", kContext);
  if (free == nullptr || total == nullptr) return kInvalidValue;
  *total = call.state().arena->capacity();
  *free = *total - call.state().arena->used();
  return kSuccess;
}

// Copies without a stream run in the legacy default stream and are complete when they return.
EMU_API cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  EMU_CALL("cuMemcpyHtoD_v2", kContext | Call::kUnsafe);
  return from == nullptr && bytes != 0 ? kInvalidValue : copy(call.state(), nullptr, to, from, 0, bytes);
}
EMU_API cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  EMU_CALL("cuMemcpyDtoH_v2", kContext | Call::kUnsafe);
  return to == nullptr && bytes != 0 ? kInvalidValue : copy(call.state(), to, 0, nullptr, from, bytes);
}
EMU_API cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
  EMU_CALL("cuMemcpyDtoD_v2", kContext | Call::kUnsafe);
  return copy(call.state(), nullptr, to, nullptr, from, bytes);
}
EMU_API cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, void* stream) {
  EMU_CALL("cuMemcpyHtoDAsync_v2", kContext);
  if (from == nullptr && bytes != 0) return kInvalidValue;
  State& state = call.state();
  return in_stream(call, stream,
                   [&state, to, from, bytes] { return copy(state, nullptr, to, from, 0, bytes); });
}
EMU_API cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, void* stream) {
  EMU_CALL("cuMemcpyDtoHAsync_v2", kContext);
  if (to == nullptr && bytes != 0) return kInvalidValue;
  State& state = call.state();
  return in_stream(call, stream,
                   [&state, to, from, bytes] { return copy(state, to, 0, nullptr, from, bytes); });
}
EMU_API cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, void* stream) {
  EMU_CALL("cuMemcpyDtoDAsync_v2", kContext);
  State& state = call.state();
  return in_stream(call, stream,
                   [&state, to, from, bytes] { return copy(state, nullptr, to, nullptr, from, bytes); });
}

EMU_API cuMemsetD8_v2(DevicePointer memory, unsigned char value, size_t count) {
  EMU_CALL("cuMemsetD8_v2", kContext | Call::kUnsafe);
  return fill(call.state(), memory, value, 1, count);
}
EMU_API cuMemsetD32_v2(DevicePointer memory, unsigned value, size_t count) {
  EMU_CALL("cuMemsetD32_v2", kContext | Call::kUnsafe);
  return fill(call.state(), memory, value, 4, count);
}
EMU_API cuMemsetD8Async(DevicePointer memory, unsigned char value, size_t count, void* stream) {
  EMU_CALL("cuMemsetD8Async", kContext);
  State& state = call.state();
  return in_stream(call, stream,
                   [&state, memory, value, count] { return fill(state, memory, value, 1, count); });
}
EMU_API cuMemsetD32Async(DevicePointer memory, unsigned value, size_t count, void* stream) {
  EMU_CALL("cuMemsetD32Async", kContext);
  State& state = call.state();
  return in_stream(call, stream,
                   [&state, memory, value, count] { return fill(state, memory, value, 4, count); });
}

namespace {

enum PointerAttribute : int {
  kContextOf = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
};
constexpr unsigned kHostMemory = 1, kDeviceMemory = 2;

// False for an attribute that is not supported. `known` is false if the driver does not know the pointer.
bool write_attribute(const State& state, int attribute, DevicePointer pointer, void* value, bool* known) {
  const uint64_t start = state.allocation_of(pointer);
  const State::Allocation* allocation = start == 0 ? nullptr : &state.allocations.at(start);
  *known = allocation != nullptr;
  const auto write = [value](auto what) { std::memcpy(value, &what, sizeof what); };
  switch (attribute) {
    case kContextOf:
      write(allocation == nullptr ? nullptr : state.devices[static_cast<size_t>(allocation->device)].primary);
      return true;
    case kMemoryType:
      write(allocation == nullptr ? 0u : allocation->host ? kHostMemory : kDeviceMemory);
      return true;
    case kDevicePointer: write(allocation == nullptr ? DevicePointer{0} : pointer); return true;
    case kHostPointer:
      write(allocation != nullptr && allocation->host ? pointer : DevicePointer{0});
      return true;
    case kIsManaged: write(0); return true;
    case kDeviceOrdinal: write(allocation == nullptr ? -2 : allocation->device); return true;
    case kRangeStart: write(start); return true;
    case kRangeBytes: write(allocation == nullptr ? uint64_t{0} : allocation->bytes); return true;
    case kMapped: write(allocation != nullptr ? 1 : 0); return true;
    default: return false;
  }
}

}  // namespace

EMU_API cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  EMU_CALL("cuPointerGetAttribute", kContext);
  bool known = false;
  if (value == nullptr || !write_attribute(call.state(), attribute, pointer, value, &known))
    return kInvalidValue;
  return known ? kSuccess : kInvalidValue;
}

// Unlike cuPointerGetAttribute, this answers empty values for an unknown pointer.
EMU_API cuPointerGetAttributes(unsigned count, int* attributes, void** values, DevicePointer pointer) {
  EMU_CALL("cuPointerGetAttributes", kContext);
  if (attributes == nullptr || values == nullptr) return kInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    bool known = false;
    if (!write_attribute(call.state(), attributes[i], pointer, values[i], &known)) return kInvalidValue;
  }
  return kSuccess;
}
