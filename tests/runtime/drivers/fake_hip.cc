// The functions of libamdhip64.so and of the HSA runtime in a fake driver that records its calls
// (fake_driver.h). The thread's current device is its context; a thread starts on device 0.
#include <cstdio>
#include <cstring>

#include "fake_driver.h"

// Older versions of HIP lack some functions, which get another name here.
#ifdef FAKE_HIP_5
#define SINCE_6(name) old_##name
#else
#define SINCE_6(name) name
#endif

using namespace fake_driver;

namespace {

void begin_thread() {
  if (stack().empty()) stack().push_back(primary(0));
}

}  // namespace

#define HIP_ENTER(name) \
  ENTER(name);          \
  begin_thread()

EXPORTED int hipInit(unsigned) {
  ENTER("hipInit");
  return 0;
}
EXPORTED int hipDriverGetVersion(int* version) {
  ENTER("hipDriverGetVersion");
  *version = state().version;
  return 0;
}
EXPORTED const char* hipGetErrorName(int result) {
  static std::map<int, std::string>& names = *new std::map<int, std::string>;
  const std::lock_guard<std::mutex> lock(state().mutex);
  return names.emplace(result, "hipError" + std::to_string(result)).first->second.c_str();
}
EXPORTED const char* hipGetErrorString(int) { return "as the fake driver says"; }
EXPORTED int hipGetDeviceCount(int* count) {
  ENTER("hipGetDeviceCount");
  *count = state().devices;
  return 0;
}
EXPORTED int hipDeviceGet(int* device, int ordinal) {
  ENTER("hipDeviceGet");
  if (ordinal < 0 || ordinal >= state().devices) return kInvalidDevice;
  *device = ordinal;
  return 0;
}
EXPORTED int hipDeviceGetName(char* text, int bytes, int device) {
  ENTER("hipDeviceGetName");
  std::snprintf(text, static_cast<size_t>(bytes), "Imaginary %d", device);
  return 0;
}
// Device i is on bus 0x10 + i.
EXPORTED int hipDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER("hipDeviceGetAttribute");
  if (attribute == 67) return *value = 0x10 + device, 0;
  const auto found = state().attributes.find(attribute);
  *value = found == state().attributes.end() ? 0 : found->second;
  return 0;
}
EXPORTED int hipGetDevice(int* device) {
  ENTER_UNLESS_QUIET("hipGetDevice", *device = current() == nullptr ? 0 : current()->device);
  begin_thread();
  *device = current()->device;
  return 0;
}
EXPORTED int hipSetDevice(int device) {
  ENTER("hipSetDevice");
  if (device < 0 || device >= state().devices) return kInvalidDevice;
  stack().assign(1, primary(device));
  return 0;
}

EXPORTED int hipStreamCreateWithFlags(Stream** stream, unsigned) {
  HIP_ENTER("hipStreamCreateWithFlags");
  return create_stream(stream);
}
EXPORTED int hipStreamDestroy(Stream* stream) {
  HIP_ENTER("hipStreamDestroy");
  return destroy_stream(stream);
}
EXPORTED int hipStreamSynchronize(void* stream) {
  HIP_ENTER("hipStreamSynchronize");
  UNSAFE;
  return check_stream(stream);
}
EXPORTED int SINCE_6(hipStreamGetDevice)(void* stream, int* device) {
  HIP_ENTER("hipStreamGetDevice");
  if (!known(stream)) return 709;
  *device = is_default(stream) ? current()->device : static_cast<Stream*>(stream)->context->device;
  return 0;
}
EXPORTED int hipGetStreamDeviceId(void* stream) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (enter("hipGetStreamDeviceId") != 0 || !known(stream)) return -1;
  begin_thread();
  return is_default(stream) ? current()->device : static_cast<Stream*>(stream)->context->device;
}
EXPORTED int hipStreamIsCapturing(void* stream, int* status) {
  HIP_ENTER("hipStreamIsCapturing");
  return stream_capturing(stream, status);
}
EXPORTED int hipThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("hipThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode());
  return 0;
}

EXPORTED int hipModuleLoadDataEx(Module** module, const void* image, unsigned options, int*, void**) {
  HIP_ENTER("hipModuleLoadDataEx");
  if (options != 0) return kInvalidValue;  // the real function reads none
  if (const int refused = load_module(module, static_cast<const char*>(image)); refused != 0) return refused;
  if ((*module)->isa.empty()) return unload_module(*module), kInvalidImage;
  const auto device = static_cast<size_t>(current()->device);
  if (device < state().agents.size() &&
      state().agents[device].isas[0] == "amdgcn-amd-amdhsa--" + (*module)->isa)
    return 0;
  return unload_module(*module), kNoBinary;
}
EXPORTED int hipModuleUnload(Module* module) {
  HIP_ENTER("hipModuleUnload");
  return unload_module(module);
}
EXPORTED int hipModuleGetFunction(Function** function, Module* module, const char* name) {
  HIP_ENTER("hipModuleGetFunction");
  return find_function(function, module, name);
}
EXPORTED int hipFuncGetAttribute(int* value, int attribute, Function* function) {
  HIP_ENTER("hipFuncGetAttribute");
  return function_attribute(value, attribute, function);
}
EXPORTED int hipModuleLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   void* stream, void** parameters, void** extra) {
  ENTER_UNLESS_QUIET("hipModuleLaunchKernel", (void)0);
  begin_thread();
  if (uint64_t{grid_x} * block_x > UINT32_MAX) return 9;
  Launch launch = {"",     nullptr, stream, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                   shared, {},      {}};
  return record_launch(std::move(launch), function, parameters, extra);
}

EXPORTED int hipMalloc(uint64_t* memory, size_t bytes) {
  HIP_ENTER("hipMalloc");
  return allocate(memory, bytes);
}
EXPORTED int hipFree(uint64_t memory) {
  HIP_ENTER("hipFree");
  return release(memory);
}
EXPORTED int hipMemcpyHtoDAsync(uint64_t to, const void* from, size_t bytes, void* stream) {
  HIP_ENTER("hipMemcpyHtoDAsync");
  return copy(reinterpret_cast<void*>(to), from, bytes, stream);
}
EXPORTED int hipMemcpyDtoHAsync(void* to, uint64_t from, size_t bytes, void* stream) {
  HIP_ENTER("hipMemcpyDtoHAsync");
  return copy(to, reinterpret_cast<void*>(from), bytes, stream);
}
EXPORTED int hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  HIP_ENTER("hipMemcpyDtoDAsync");
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, stream);
}
EXPORTED int hipMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  HIP_ENTER("hipMemsetD8Async");
  return fill(memory, value, bytes, stream);
}
// Succeeds for any pointer. Attributes that do not apply are 0; the device of host memory is -2.
EXPORTED int hipDrvPointerGetAttributes(unsigned count, int* attributes, void** values, uint64_t pointer) {
  HIP_ENTER("hipDrvPointerGetAttributes");
  const PointerKind kind = kind_of(pointer);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 9: *static_cast<int*>(values[i]) = kind.type == 0 ? -2 : kind.device; break;
      case 3: *static_cast<uint64_t*>(values[i]) = kind.reachable ? pointer : 0; break;
      case 4: *static_cast<uint64_t*>(values[i]) = kind.type == 1 ? pointer : 0; break;
      default: break;
    }
  }
  return 0;
}

// HSA. An agent's handle is 100 times its number, which starts at 1.
struct FakeHandle {
  uint64_t handle;
};
namespace {

const HsaAgent& agent_of(uint64_t handle) { return state().agents[handle / 100 - 1]; }

}  // namespace

EXPORTED int hsa_init() {
  ENTER("hsa_init");
  return 0;
}
EXPORTED int hsa_shut_down() {
  ENTER("hsa_shut_down");
  return 0;
}
EXPORTED int hsa_iterate_agents(int (*visit)(FakeHandle, void*), void* data) {
  { ENTER("hsa_iterate_agents"); }
  for (size_t i = 0; i < state().agents.size(); ++i)
    if (const int result = visit({100 * (i + 1)}, data); result != 0) return result;
  return 0;
}
EXPORTED int hsa_agent_get_info(FakeHandle handle, int what, void* value) {
  const HsaAgent& agent = agent_of(handle.handle);
  const std::map<int, unsigned> numbers = {{6, agent.wave},       {17, agent.type},
                                           {0xA002, agent.units}, {0xA006, agent.bdf},
                                           {0xA00A, agent.waves}, {0xA00F, agent.domain}};
  const auto found = numbers.find(what);
  if (found == numbers.end()) return 0x1001;  // HSA_STATUS_ERROR_INVALID_ARGUMENT
  std::memcpy(value, &found->second, sizeof found->second);
  return 0;
}
EXPORTED int hsa_agent_iterate_isas(FakeHandle handle, int (*visit)(FakeHandle, void*), void* data) {
  for (size_t i = 0; i < agent_of(handle.handle).isas.size(); ++i)
    if (const int result = visit({handle.handle + i}, data); result != 0) return result;
  return 0;
}
EXPORTED int hsa_isa_get_info_alt(FakeHandle handle, int what, void* value) {
  const std::string& name = agent_of(handle.handle).isas[handle.handle % 100];
  const auto length = static_cast<uint32_t>(name.size() + 1);
  if (what == 0) return std::memcpy(value, &length, sizeof length), 0;
  if (what == 1) return std::memcpy(value, name.c_str(), length), 0;
  return 0x1001;
}
