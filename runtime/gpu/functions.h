// The table of functions that are taken from a GPU driver's library.
//
// X(our name, parameters, CUDA's symbol, HIP's symbol, need). Every function returns an int, 0 for success. A
// CUDA symbol includes the version of its signature, as in cuMemAlloc_v2. The HIP symbol is the function with
// the same signature; if there is none, it is nullptr and the pointer stays null.
//   kProbe     needed to list devices
//   kRequired  needed to open a device; all are in CUDA 11.8 and later, ROCm 5.2 and later
//   kOptional  checked where it is used
#pragma once

#include "runtime/gpu/types.h"

// clang-format off
#define LATHE_GPU_FUNCTIONS(X)                                                                                       \
  X(init, (unsigned flags), "cuInit", "hipInit", kProbe)                                                             \
  X(device_count, (int* count), "cuDeviceGetCount", "hipGetDeviceCount", kProbe)                                     \
  X(device_name, (char* text, int bytes, Device device), "cuDeviceGetName", "hipDeviceGetName", kProbe)              \
  X(error_name, (int result, const char** text), "cuGetErrorName", nullptr, kRequired)                               \
  X(error_text, (int result, const char** text), "cuGetErrorString", nullptr, kRequired)                             \
  X(driver_version, (int* version), "cuDriverGetVersion", "hipDriverGetVersion", kRequired)                          \
  X(device_get, (Device* device, int ordinal), "cuDeviceGet", "hipDeviceGet", kRequired)                             \
  X(device_attribute, (int* value, int attribute, Device device), "cuDeviceGetAttribute", "hipDeviceGetAttribute",   \
    kRequired)                                                                                                       \
  X(primary_retain, (Context* context, Device device), "cuDevicePrimaryCtxRetain", nullptr, kRequired)               \
  X(primary_release, (Device device), "cuDevicePrimaryCtxRelease_v2", nullptr, kRequired)                            \
  X(context_current, (Context* context), "cuCtxGetCurrent", nullptr, kRequired)                                      \
  X(context_push, (Context context), "cuCtxPushCurrent_v2", nullptr, kRequired)                                      \
  X(context_pop, (Context* context), "cuCtxPopCurrent_v2", nullptr, kRequired)                                       \
  X(context_device, (Device* device), "cuCtxGetDevice", nullptr, kRequired)                                          \
  X(stream_context, (Stream stream, Context* context), "cuStreamGetCtx", nullptr, kRequired)                         \
  X(stream_capturing, (Stream stream, int* status), "cuStreamIsCapturing", "hipStreamIsCapturing", kRequired)        \
  X(exchange_capture_mode, (int* mode), "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode",   \
    kRequired)                                                                                                       \
  X(stream_create, (Stream* stream, unsigned flags), "cuStreamCreate", "hipStreamCreateWithFlags", kRequired)        \
  X(stream_destroy, (Stream stream), "cuStreamDestroy_v2", "hipStreamDestroy", kRequired)                            \
  X(stream_synchronize, (Stream stream), "cuStreamSynchronize", "hipStreamSynchronize", kRequired)                   \
  X(module_load, (Module* module, const void* image, unsigned count, int* options, void** values),                   \
    "cuModuleLoadDataEx", "hipModuleLoadDataEx", kRequired)                                                          \
  X(module_unload, (Module module), "cuModuleUnload", "hipModuleUnload", kRequired)                                  \
  X(module_function, (Function* function, Module module, const char* name), "cuModuleGetFunction",                   \
    "hipModuleGetFunction", kRequired)                                                                               \
  X(function_attribute, (int* value, int attribute, Function function), "cuFuncGetAttribute", "hipFuncGetAttribute", \
    kRequired)                                                                                                       \
  X(function_set_attribute, (Function function, int attribute, int value), "cuFuncSetAttribute", nullptr, kRequired) \
  X(function_parameter, (Function function, size_t index, size_t* offset, size_t* bytes),                            \
    "cuFuncGetParamInfo", nullptr, kOptional) /* 12.4 */                                                             \
  X(function_load, (Function function), "cuFuncLoad", nullptr, kOptional) /* 12.4 */                                 \
  X(link_create, (unsigned count, int* options, void** values, LinkState* state), "cuLinkCreate_v2", nullptr,        \
    kRequired)                                                                                                       \
  X(link_add, (LinkState state, int type, void* data, size_t bytes, const char* name, unsigned count, int* options,  \
    void** values), "cuLinkAddData_v2", nullptr, kRequired)                                                          \
  X(link_complete, (LinkState state, void** image, size_t* bytes), "cuLinkComplete", nullptr, kRequired)             \
  X(link_destroy, (LinkState state), "cuLinkDestroy", nullptr, kRequired)                                            \
  X(launch, (const LaunchConfiguration* config, Function function, void** parameters, void** extra),                 \
    "cuLaunchKernelEx", nullptr, kRequired)                                                                          \
  X(encode_tensor_map, (EncodedTensorMap* map, int type, uint32_t rank, void* address, const uint64_t* extents,      \
    const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle,      \
    int l2_promotion, int fill), "cuTensorMapEncodeTiled", nullptr, kOptional) /* 12.0 */                            \
  X(memory_allocate, (DevicePointer* memory, size_t bytes), "cuMemAlloc_v2", "hipMalloc", kRequired)                 \
  X(memory_free, (DevicePointer memory), "cuMemFree_v2", "hipFree", kRequired)                                       \
  X(copy_to_device, (DevicePointer to, const void* from, size_t bytes, Stream stream), "cuMemcpyHtoDAsync_v2",       \
    "hipMemcpyHtoDAsync", kRequired)                                                                                 \
  X(copy_to_host, (void* to, DevicePointer from, size_t bytes, Stream stream), "cuMemcpyDtoHAsync_v2",               \
    "hipMemcpyDtoHAsync", kRequired)                                                                                 \
  X(copy_on_device, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream), "cuMemcpyDtoDAsync_v2",     \
    "hipMemcpyDtoDAsync", kRequired)                                                                                 \
  X(fill_bytes, (DevicePointer memory, unsigned char value, size_t bytes, Stream stream), "cuMemsetD8Async",         \
    "hipMemsetD8Async", kRequired)                                                                                   \
  X(pointer_attributes, (unsigned count, int* attributes, void** values, DevicePointer pointer),                     \
    "cuPointerGetAttributes", "hipDrvPointerGetAttributes", kRequired)

// X(result, our name, parameters, HIP's symbol, need): functions that only HIP has. hipDrvLaunchKernelEx is
// not used, because it is missing in 5.x and hipModuleLaunchKernel is sufficient here. hipSetDevice is used
// instead of hipCtxPushCurrent, because hipCtxPopCurrent leaves the thread on the pushed device (ROCm 5 and
// 6).
#define LATHE_HIP_FUNCTIONS(X)                                                                                       \
  X(const char*, result_name, (int result), "hipGetErrorName", kProbe)                                               \
  X(const char*, result_text, (int result), "hipGetErrorString", kProbe)                                             \
  X(int, get_device, (Device* device), "hipGetDevice", kRequired)                                                    \
  X(int, set_device, (Device device), "hipSetDevice", kRequired)                                                     \
  X(int, stream_device, (Stream stream, Device* device), "hipStreamGetDevice", kOptional) /* 6.0 */                  \
  X(int, stream_device_id, (Stream stream), "hipGetStreamDeviceId", kOptional)                                       \
  X(int, launch_module, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
    unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra),      \
    "hipModuleLaunchKernel", kRequired)
// clang-format on
