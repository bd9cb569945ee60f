// Device memory, copies, fills, and pointer attributes.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/hip/state.h"

using namespace lathe::emulator;
using namespace lathe::emulator::hip;

EMU_API hipMalloc(uint64_t* memory, size_t bytes) {
  EMU_ENTER_ALIVE();
  if (memory == nullptr) return kInvalidValue;
  if (const int refused = state.refuse_unsafe(); refused != 0) return refused;
  *memory = 0;
  if (bytes == 0) return kSuccess;
  const uint64_t address = state.arena->allocate(bytes);
  if (address == 0) return kOutOfMemory;
  if (!state.worker->ask(absl::StrCat("allow ", address, " ", bytes)).ok()) return kUnknown;
  state.allocations[address] = bytes;
  *memory = address;
  return kSuccess;
}
EMU_API hipFree(uint64_t memory) {
  EMU_ENTER();
  if (const int refused = state.refuse_unsafe(); refused != 0) return refused;
  if (memory == 0) return kSuccess;
  const auto it = state.allocations.find(memory);
  if (it == state.allocations.end()) return kInvalidValue;
  state.worker->ask(absl::StrCat("forbid ", memory, " ", it->second)).IgnoreError();
  state.allocations.erase(it);
  state.arena->release(memory);
  return kSuccess;
}

EMU_API hipMemcpyHtoDAsync(uint64_t to, const void* from, size_t bytes, void* stream) {
  EMU_ENTER_ALIVE();
  uint8_t* at = state.bytes_at(to, bytes);
  if (at == nullptr || !state.is_stream(stream)) return kInvalidValue;
  return state.enqueue(stream, [=] {
    std::memcpy(at, from, bytes);
    return static_cast<int>(kSuccess);
  });
}
EMU_API hipMemcpyDtoHAsync(void* to, uint64_t from, size_t bytes, void* stream) {
  EMU_ENTER_ALIVE();
  const uint8_t* at = state.bytes_at(from, bytes);
  if (at == nullptr || !state.is_stream(stream)) return kInvalidValue;
  return state.enqueue(stream, [=] {
    std::memcpy(to, at, bytes);
    return static_cast<int>(kSuccess);
  });
}
EMU_API hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  EMU_ENTER_ALIVE();
  uint8_t* at = state.bytes_at(to, bytes);
  const uint8_t* source = state.bytes_at(from, bytes);
  if (at == nullptr || source == nullptr || !state.is_stream(stream)) return kInvalidValue;
  return state.enqueue(stream, [=] {
    std::memmove(at, source, bytes);
    return static_cast<int>(kSuccess);
  });
}
EMU_API hipMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  EMU_ENTER_ALIVE();
  uint8_t* at = state.bytes_at(memory, bytes);
  if (at == nullptr || !state.is_stream(stream)) return kInvalidValue;
  return state.enqueue(stream, [=] {
    std::memset(at, value, bytes);
    return static_cast<int>(kSuccess);
  });
}

EMU_API hipDrvPointerGetAttributes(unsigned count, int* attributes, void** values, uint64_t pointer) {
  EMU_ENTER();
  const bool ours = state.allocation_of(pointer) != state.allocations.end();
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t device_pointer = ours ? pointer : 0, host_pointer = 0;
    const int ordinal = ours ? 0 : -2;
    switch (attributes[i]) {
      case 3: std::memcpy(values[i], &device_pointer, 8); break;
      case 4: std::memcpy(values[i], &host_pointer, 8); break;
      case 9: std::memcpy(values[i], &ordinal, 4); break;
      default: return kNotSupported;
    }
  }
  return kSuccess;
}
