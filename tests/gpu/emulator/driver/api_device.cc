// cuInit, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/gpu/emulator/driver/state.h"

using namespace lathe::emulator;

namespace {

constexpr int kVersion = 13000;

bool is_device(const State& state, int device) { return device >= 0 && device < state.options.devices; }

// The attributes of an H200. For another LATHE_EMULATOR_ARCH, the shared memory limits of that generation.
int attribute_of(const State& state, int attribute, int* value) {
  struct Row {
    int attribute, value;
  };
  const int capability = state.options.major * 10 + state.options.minor;
  const bool large = capability == 90 || capability == 100 || capability == 103;
  const int shared = large                                  ? 232448
                     : capability == 80 || capability == 87 ? 166912
                     : capability == 75                     ? 65536
                                                            : 101376;
  const Row rows[] = {{1, 1024},
                      {2, 1024},
                      {3, 1024},
                      {4, 64},
                      {5, 2147483647},
                      {6, 65535},
                      {7, 65535},
                      {8, 49152},
                      {9, 65536},
                      {10, 32},
                      {11, 2147483647},
                      {12, 65536},
                      {13, 1980000},
                      {14, 512},
                      {15, 1},
                      {16, 132},
                      {17, 0},
                      {18, 0},
                      {19, 1},
                      {20, 0},
                      {31, 1},
                      {32, 1},
                      {33, 1},
                      {34, 0},
                      {36, 3201000},
                      {37, 6144},
                      {38, 52428800},
                      {39, capability == 75                                            ? 1024
                           : capability == 86 || capability == 89 || capability == 120 ? 1536
                                                                                       : 2048},
                      {40, 3},
                      {41, 1},
                      {50, 0},
                      {75, state.options.major},
                      {76, state.options.minor},
                      {78, 1},
                      {79, 1},
                      {80, 1},
                      {81, large ? 233472 : shared + 1024},
                      {82, 65536},
                      {83, 1},
                      {84, 0},
                      {85, 0},
                      {86, 0},
                      {87, 2},
                      {88, 0},
                      {89, 1},
                      {90, 1},
                      {91, 1},
                      {95, 1},
                      {97, shared},
                      {106, 32},
                      {108, 0},
                      {111, capability >= 80 ? 1024 : 0},
                      {115, 1},
                      {120, capability >= 90},
                      {127, capability >= 90}};
  for (const Row& row : rows) {
    if (row.attribute != attribute) continue;
    *value = row.value;
    return kSuccess;
  }
  if (attribute < 1 || attribute > 150) return kInvalidValue;
  *value = 0;
  return kSuccess;
}

}  // namespace

EMU_API cuInit(unsigned flags) {
  EMU_CALL("cuInit", kNothing);
  if (flags != 0) return kInvalidValue;
  return call.state().initialise();
}

EMU_API cuDriverGetVersion(int* version) {
  EMU_CALL("cuDriverGetVersion", kNothing);
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

EMU_API cuDeviceGetCount(int* count) {
  EMU_CALL("cuDeviceGetCount", kInitialised);
  if (count == nullptr) return kInvalidValue;
  *count = call.state().options.devices;
  return kSuccess;
}

EMU_API cuDeviceGet(int* device, int ordinal) {
  EMU_CALL("cuDeviceGet", kInitialised);
  if (device == nullptr) return kInvalidValue;
  if (!is_device(call.state(), ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

EMU_API cuDeviceGetName(char* name, int bytes, int device) {
  EMU_CALL("cuDeviceGetName", kInitialised);
  if (name == nullptr || bytes <= 0) return kInvalidValue;
  if (!is_device(call.state(), device)) return kInvalidDevice;
  std::snprintf(name, static_cast<size_t>(bytes), "PTX emulator (%s)", call.state().options.arch.c_str());
  return kSuccess;
}

EMU_API cuDeviceGetAttribute(int* value, int attribute, int device) {
  EMU_CALL("cuDeviceGetAttribute", kInitialised);
  if (value == nullptr) return kInvalidValue;
  if (!is_device(call.state(), device)) return kInvalidDevice;
  return attribute_of(call.state(), attribute, value);
}

EMU_API cuDeviceTotalMem_v2(size_t* bytes, int device) {
  EMU_CALL("cuDeviceTotalMem_v2", kInitialised);
  if (bytes == nullptr) return kInvalidValue;
  if (!is_device(call.state(), device)) return kInvalidDevice;
  *bytes = call.state().arena->capacity();
  return kSuccess;
}

EMU_API cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  EMU_CALL("cuDeviceGetUuid_v2", kInitialised);
  if (uuid == nullptr) return kInvalidValue;
  if (!is_device(call.state(), device)) return kInvalidDevice;
  std::memcpy(uuid->bytes, "ptx emulator   ", 16);
  uuid->bytes[15] = static_cast<char>(device);
  return kSuccess;
}

EMU_API cuDevicePrimaryCtxRetain(Context** context, int device) {
  EMU_CALL("cuDevicePrimaryCtxRetain", kInitialised);
  State& state = call.state();
  if (context == nullptr) return kInvalidValue;
  if (!is_device(state, device)) return kInvalidDevice;
  Device& owner = state.devices[static_cast<size_t>(device)];
  if (owner.retained++ == 0) {
    if (owner.primary == nullptr) owner.primary = state.make_context(device, true);
    owner.primary->alive = true;
  }
  *context = owner.primary;
  return kSuccess;
}

EMU_API cuDevicePrimaryCtxRelease_v2(int device) {
  EMU_CALL("cuDevicePrimaryCtxRelease_v2", kInitialised);
  State& state = call.state();
  if (!is_device(state, device)) return kInvalidDevice;
  Device& owner = state.devices[static_cast<size_t>(device)];
  if (owner.retained == 0) return kInvalidContext;
  if (--owner.retained == 0) {
    state.destroy_context(owner.primary);
    owner.primary->error = kSuccess;  // a context that is retained again starts without an error
  }
  return kSuccess;
}

EMU_API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  EMU_CALL("cuDevicePrimaryCtxGetState", kInitialised);
  if (flags == nullptr || active == nullptr) return kInvalidValue;
  if (!is_device(call.state(), device)) return kInvalidDevice;
  *flags = 0;
  *active = call.state().devices[static_cast<size_t>(device)].retained > 0;
  return kSuccess;
}

EMU_API cuCtxGetCurrent(Context** context) {
  EMU_CALL("cuCtxGetCurrent", kInitialised);
  if (context == nullptr) return kInvalidValue;
  *context = call.state().current();
  return kSuccess;
}

EMU_API cuCtxSetCurrent(Context* context) {
  EMU_CALL("cuCtxSetCurrent", kInitialised);
  State& state = call.state();
  if (context != nullptr && !state.is_context(context)) return kInvalidContext;
  if (!state.stack().empty()) state.stack().pop_back();
  if (context != nullptr) state.stack().push_back(context);
  return kSuccess;
}

EMU_API cuCtxPushCurrent_v2(Context* context) {
  EMU_CALL("cuCtxPushCurrent_v2", kInitialised);
  State& state = call.state();
  if (context == nullptr || !state.is_context(context) || !context->alive) return kInvalidContext;
  state.stack().push_back(context);
  return kSuccess;
}

EMU_API cuCtxPopCurrent_v2(Context** context) {
  EMU_CALL("cuCtxPopCurrent_v2", kInitialised);
  State& state = call.state();
  if (state.stack().empty()) return kInvalidContext;
  if (context != nullptr) *context = state.stack().back();
  state.stack().pop_back();
  return kSuccess;
}

EMU_API cuCtxGetDevice(int* device) {
  EMU_CALL("cuCtxGetDevice", kInitialised);
  if (device == nullptr) return kInvalidValue;
  const Context* context = call.state().current();
  if (context == nullptr) return kInvalidContext;
  *device = context->device;
  return kSuccess;
}

EMU_API cuCtxCreate_v2(Context** context, unsigned, int device) {
  EMU_CALL("cuCtxCreate_v2", kInitialised);
  State& state = call.state();
  if (context == nullptr) return kInvalidValue;
  if (!is_device(state, device)) return kInvalidDevice;
  *context = state.make_context(device, false);
  state.stack().push_back(*context);
  return kSuccess;
}

EMU_API cuCtxDestroy_v2(Context* context) {
  EMU_CALL("cuCtxDestroy_v2", kInitialised);
  State& state = call.state();
  if (context == nullptr || !state.is_context(context) || !context->alive) return kInvalidContext;
  if (context->primary) return kInvalidContext;
  state.destroy_context(context);
  if (state.current() == context) state.stack().pop_back();
  return kSuccess;
}

EMU_API cuCtxSynchronize() {
  EMU_CALL("cuCtxSynchronize", kContext);
  for (const auto& capture : call.state().captures) {
    if (capture->origin->context != call.context()) continue;
    capture->invalidated = true;
    return kCaptureUnsupported;
  }
  return kSuccess;
}

EMU_API cuGetErrorName(int result, const char** text) {
  EMU_CALL("cuGetErrorName", kNothing);
  if (text == nullptr) return kInvalidValue;
  *text = result_name(result);
  return *text == nullptr ? kInvalidValue : kSuccess;
}

EMU_API cuGetErrorString(int result, const char** text) {
  EMU_CALL("cuGetErrorString", kNothing);
  if (text == nullptr) return kInvalidValue;
  *text = result_text(result);
  return *text == nullptr ? kInvalidValue : kSuccess;
}
