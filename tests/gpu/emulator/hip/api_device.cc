// hipInit, devices, results, and the device's properties in the HSA runtime.
#include <cstdio>
#include <cstring>

#include "tests/gpu/emulator/hip/state.h"

using namespace lathe::emulator;
using namespace lathe::emulator::hip;

EMU_API hipInit(unsigned) {
  EMU_ENTER();
  return kSuccess;
}
EMU_API hipDriverGetVersion(int* version) {
  *version = 60240000;
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorName(int result) {
  const char* name = result_name(result);  // the CUDA result of the same number
  static thread_local char text[80];
  std::snprintf(text, sizeof text, "hip %d, %s", result, name == nullptr ? "unknown" : name);
  return text;
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorString(int result) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  if (result == kNoDevice && !state.cause.empty()) return state.cause.c_str();
  const char* text = result_text(result);
  return text == nullptr ? "unknown" : text;
}

EMU_API hipGetDeviceCount(int* count) {
  EMU_ENTER();
  *count = 1;
  return kSuccess;
}
EMU_API hipDeviceGet(int* device, int ordinal) {
  EMU_ENTER();
  if (ordinal != 0) return kInvalidDevice;
  *device = 0;
  return kSuccess;
}
EMU_API hipDeviceGetName(char* name, int bytes, int) {
  EMU_ENTER();
  std::snprintf(name, static_cast<size_t>(bytes), "AMD instruction emulator (%s)", state.board->arch);
  return kSuccess;
}
EMU_API hipDeviceGetAttribute(int* value, int attribute, int) {
  EMU_ENTER();
  const Board& b = *state.board;
  // Numbers of hipDeviceAttribute_t in hip_runtime_api.h.
  const std::map<int, int> values = {{5, b.clock_khz},   {19, b.l2_bytes}, {56, 1024}, {59, b.memory_bits},
                                     {60, b.memory_khz}, {67, 3},          {68, 0},    {69, 0},
                                     {74, b.lds_bytes}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}
EMU_API hipGetDevice(int* device) {
  EMU_ENTER();
  *device = current_device();
  return kSuccess;
}
EMU_API hipSetDevice(int device) {
  EMU_ENTER();
  if (device != 0) return kInvalidDevice;
  current_device() = device;
  return kSuccess;
}

// HSA knows one GPU, with handle 1.
struct Handle {
  uint64_t handle;
};
EMU_API hsa_init() { return 0; }
EMU_API hsa_shut_down() { return 0; }
EMU_API hsa_iterate_agents(int (*visit)(Handle, void*), void* data) { return visit({1}, data); }
EMU_API hsa_agent_get_info(Handle, int what, void* value) {
  const Board& b = *State::get().board;
  const std::map<int, int> values = {{6, b.wave},      {17, 1},           {0xA002, b.units},
                                     {0xA006, 3 << 8}, {0xA00A, b.waves}, {0xA00F, 0}};
  const auto found = values.find(what);
  if (found == values.end()) return 0x1001;  // HSA_STATUS_ERROR_INVALID_ARGUMENT
  std::memcpy(value, &found->second, 4);
  return 0;
}
EMU_API hsa_agent_iterate_isas(Handle, int (*visit)(Handle, void*), void* data) { return visit({1}, data); }
EMU_API hsa_isa_get_info_alt(Handle, int what, void* value) {
  const std::string name = std::string("amdgcn-amd-amdhsa--") + State::get().board->isa;
  const auto length = static_cast<uint32_t>(name.size() + 1);
  if (what == 0) std::memcpy(value, &length, sizeof length);
  if (what == 1) std::memcpy(value, name.c_str(), length);
  return what == 0 || what == 1 ? 0 : 0x1001;
}
