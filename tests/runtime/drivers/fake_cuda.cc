// The functions of libcuda.so.1 in a fake driver that records its calls (fake_driver.h).
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fake_driver.h"

// Older drivers lack some functions, which get another name here.
#ifdef FAKE_CUDA_BEFORE_12
#define SINCE_12(name) old_##name
#else
#define SINCE_12(name) name
#endif
#ifdef FAKE_CUDA_BEFORE_11_8
#define SINCE_11_8(name) old_##name
#else
#define SINCE_11_8(name) name
#endif

using namespace fake_driver;

namespace {

// Writes one of two logs: finds the options with its buffer and its size.
void write_log(const std::string& text, int buffer_option, int size_option, unsigned count,
               const int* options, void** values) {
  char* buffer = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == buffer_option) buffer = static_cast<char*>(values[i]);
    if (options[i] == size_option) bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
  }
  if (buffer == nullptr || bytes == 0) return;
  const size_t n = std::min(bytes - 1, text.size());
  std::memcpy(buffer, text.data(), n);
  buffer[n] = 0;
}
void write_logs(unsigned count, const int* options, void** values) {
  write_log(state().log, 5, 6, count, options, values);
  write_log(state().info_log, 3, 4, count, options, values);
}

}  // namespace

EXPORTED int cuInit(unsigned) {
  ENTER("cuInit");
  return 0;
}
EXPORTED int cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion");
  *version = state().version;
  return 0;
}
EXPORTED int cuGetErrorName(int result, const char** text) {
  // Each result has its own name, so that a test can see which one it got.
  static std::map<int, std::string>& names = *new std::map<int, std::string>;
  const std::lock_guard<std::mutex> lock(state().mutex);
  *text = names.emplace(result, "CUDA_ERROR_" + std::to_string(result)).first->second.c_str();
  return 0;
}
EXPORTED int cuGetErrorString(int, const char** text) {
  *text = "as the fake driver says";
  return 0;
}
EXPORTED int cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = state().devices;
  return 0;
}
EXPORTED int cuDeviceGet(int* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal < 0 || ordinal >= state().devices) return 101;
  *device = ordinal;
  return 0;
}
EXPORTED int cuDeviceGetName(char* text, int bytes, int device) {
  ENTER("cuDeviceGetName");
  std::snprintf(text, static_cast<size_t>(bytes), "Imaginary %d", device);
  return 0;
}
EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER("cuDeviceGetAttribute");
  if (attribute == 75) return *value = state().capability / 10, 0;
  if (attribute == 76) return *value = state().capability % 10, 0;
  const auto found = state().attributes.find(attribute);
  *value = found == state().attributes.end() ? 0 : found->second;
  return 0;
}
EXPORTED int cuDevicePrimaryCtxRetain(Context** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = primary(device);
  ++state().retained[device];
  return 0;
}
EXPORTED int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER("cuDevicePrimaryCtxRelease_v2");
  --state().retained[device];
  return 0;
}

EXPORTED int cuCtxGetCurrent(Context** context) {
  ENTER_UNLESS_QUIET("cuCtxGetCurrent", *context = current());
  *context = current();
  return 0;
}
EXPORTED int cuCtxPushCurrent_v2(Context* context) {
  ENTER("cuCtxPushCurrent_v2");
  if (context == nullptr) return kInvalidContext;
  stack().push_back(context);
  return 0;
}
EXPORTED int cuCtxPopCurrent_v2(Context** context) {
  ENTER("cuCtxPopCurrent_v2");
  NEEDS_CONTEXT;
  *context = stack().back();
  stack().pop_back();
  return 0;
}
EXPORTED int cuCtxGetDevice(int* device) {
  ENTER("cuCtxGetDevice");
  NEEDS_CONTEXT;
  *device = current()->device;
  return 0;
}

EXPORTED int cuStreamCreate(Stream** stream, unsigned) {
  ENTER("cuStreamCreate");
  return create_stream(stream);
}
EXPORTED int cuStreamDestroy_v2(Stream* stream) {
  ENTER("cuStreamDestroy_v2");
  return destroy_stream(stream);
}
EXPORTED int cuStreamSynchronize(void* stream) {
  ENTER("cuStreamSynchronize");
  NEEDS_CONTEXT;
  UNSAFE;
  return check_stream(stream);
}
EXPORTED int cuStreamGetCtx(void* stream, Context** context) {
  ENTER("cuStreamGetCtx");
  if (!known(stream)) return kInvalidHandle;
  *context = is_default(stream) ? current() : static_cast<Stream*>(stream)->context;
  return 0;
}
EXPORTED int cuStreamIsCapturing(void* stream, int* status) {
  ENTER("cuStreamIsCapturing");
  return stream_capturing(stream, status);
}
EXPORTED int cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode());
  return 0;
}

EXPORTED int cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options,
                                void** values) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (const int failure = enter("cuModuleLoadDataEx"); failure != 0) {
    write_logs(count, options, values);
    return failure;
  }
  constexpr int kLogVerbose = 12;
  if (std::count(options, options + count, kLogVerbose) != 0)
    write_log(state().info_log, 3, 4, count, options, values);
  return load_module(module, static_cast<const char*>(image));
}
EXPORTED int cuModuleUnload(Module* module) {
  ENTER("cuModuleUnload");
  return unload_module(module);
}
EXPORTED int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  ENTER("cuModuleGetFunction");
  return find_function(function, module, name);
}
EXPORTED int cuFuncGetAttribute(int* value, int attribute, Function* function) {
  ENTER("cuFuncGetAttribute");
  return function_attribute(value, attribute, function);
}
EXPORTED int cuFuncSetAttribute(Function* function, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  NEEDS_CONTEXT;
  function->set_attributes[attribute] = value;
  return 0;
}
EXPORTED int SINCE_12(cuFuncLoad)(Function* function) {
  ENTER("cuFuncLoad");
  NEEDS_CONTEXT;
  UNSAFE;
  function->loaded = true;
  return 0;
}
EXPORTED int SINCE_12(cuFuncGetParamInfo)(Function* function, size_t index, size_t* offset, size_t* bytes) {
  ENTER("cuFuncGetParamInfo");
  NEEDS_CONTEXT;
  return find_parameter(*function, index, offset, bytes) ? 0 : kInvalidValue;
}

struct FakeLink {
  std::string ptx;
};
EXPORTED int cuLinkCreate_v2(unsigned count, int* options, void** values, FakeLink** link) {
  ENTER("cuLinkCreate_v2");
  NEEDS_CONTEXT;
  UNSAFE;
  for (unsigned i = 0; i < count; ++i)
    state().link_options.emplace_back(options[i], reinterpret_cast<uint64_t>(values[i]));
  write_logs(count, options, values);
  *link = new FakeLink;
  return 0;
}
EXPORTED int cuLinkAddData_v2(FakeLink* link, int type, void* data, size_t bytes, const char*, unsigned, int*,
                              void**) {
  ENTER("cuLinkAddData_v2");
  const char* text = static_cast<const char*>(data);
  if (type != 1 || bytes == 0 || text[bytes - 1] != 0) return kInvalidValue;  // PTX, NUL-terminated
  link->ptx.assign(text, bytes - 1);
  state().linked.push_back(link->ptx);
  return 0;
}
EXPORTED int cuLinkComplete(FakeLink*, void** image, size_t* bytes) {
  ENTER("cuLinkComplete");
  *image = state().linked_image.data();
  *bytes = state().linked_image.size();
  return 0;
}
EXPORTED int cuLinkDestroy(FakeLink* link) {
  ENTER("cuLinkDestroy");
  delete link;
  return 0;
}

// Laid out as in the CUDA Driver API's reference, independent of the declarations under test.
struct FakeLaunchAttribute {
  int id;
  char pad[4];
  unsigned char value[64];
};
struct FakeLaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  void* stream;
  FakeLaunchAttribute* attributes;
  unsigned count;
};
EXPORTED int SINCE_11_8(cuLaunchKernelEx)(const FakeLaunchConfig* config, Function* function,
                                          void** parameters, void** extra) {
  ENTER_UNLESS_QUIET("cuLaunchKernelEx", (void)0);
  Launch launch = {"",
                   nullptr,
                   config->stream,
                   {config->grid_x, config->grid_y, config->grid_z},
                   {config->block_x, config->block_y, config->block_z},
                   config->shared,
                   {},
                   {}};
  for (unsigned i = 0; i < config->count; ++i) {
    const FakeLaunchAttribute& a = config->attributes[i];
    launch.attributes.push_back({a.id, std::vector<uint8_t>(a.value, a.value + 64)});
  }
  return record_launch(std::move(launch), function, parameters, extra);
}

EXPORTED int SINCE_12(cuTensorMapEncodeTiled)(void* map, int type, uint32_t rank, void* address,
                                              const uint64_t* extents, const uint64_t* strides,
                                              const uint32_t* box, const uint32_t* steps, int interleave,
                                              int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return kInvalidValue;
  EncodedMap encoded{type, interleave, swizzle, promotion, fill, rank, address, {}, {}, {}, {}};
  encoded.extents.assign(extents, extents + rank);
  encoded.strides.assign(strides, strides + rank - 1);
  encoded.box.assign(box, box + rank);
  encoded.steps.assign(steps, steps + rank);
  // The encoded map is its number, so that a test can recognise it in a launch's parameters.
  std::memset(map, 0, 128);
  const uint64_t number = state().maps.size();
  std::memcpy(map, &number, sizeof number);
  std::memset(static_cast<char*>(map) + 120, 0x5a, 8);
  state().maps.push_back(std::move(encoded));
  return 0;
}

EXPORTED int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  return allocate(memory, bytes);
}
EXPORTED int cuMemFree_v2(uint64_t memory) {
  ENTER("cuMemFree_v2");
  return release(memory);
}
EXPORTED int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  return copy(reinterpret_cast<void*>(to), from, bytes, stream);
}
EXPORTED int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  return copy(to, reinterpret_cast<void*>(from), bytes, stream);
}
EXPORTED int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoDAsync_v2");
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, stream);
}
EXPORTED int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  ENTER("cuMemsetD8Async");
  return fill(memory, value, bytes, stream);
}
EXPORTED int cuPointerGetAttributes(unsigned count, int* attributes, void** values, uint64_t pointer) {
  ENTER("cuPointerGetAttributes");
  NEEDS_CONTEXT;
  const PointerKind kind = kind_of(pointer);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 2: *static_cast<unsigned*>(values[i]) = kind.type; break;
      case 9: *static_cast<int*>(values[i]) = kind.device; break;
      case 3: *static_cast<uint64_t*>(values[i]) = kind.reachable ? pointer : 0; break;
      default: return kInvalidValue;
    }
  }
  return 0;
}
