// Types of the CUDA driver's functions, declared here so that no toolkit is needed to build. Values and
// layouts are those of the CUDA Driver API's reference. HIP's are the same, except device attributes
// (hip/hip_facts.cc) and memory types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::gpu {

using Device = int;
using Context = struct ContextHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Stream = struct StreamHandle*;
using LinkState = struct LinkStateHandle*;
using DevicePointer = unsigned long long;

inline constexpr int kSuccess = 0;
// The results that this code checks for. The tables of all results are in cuda/ and hip/.
inline constexpr int kInvalidValue = 1, kNoDevice = 100, kInvalidHandle = 400, kNotFound = 500,
                     kNotSupported = 801;

// Stream handles with a special meaning. Null is the legacy default stream, too.
inline constexpr uintptr_t kLegacyStream = 1, kPerThreadStream = 2;

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kClockRate = 13,  // kHz
  kMultiprocessorCount = 16,
  kMemoryClockRate = 36,  // kHz
  kMemoryBusWidth = 37,   // bits
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxRegistersPerMultiprocessor = 82,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedBytes = 1,  // static
  kFunctionLocalBytes = 3,   // per thread: spilled registers and local arrays
  kFunctionMaxDynamicSharedBytes = 8,
  kFunctionNonPortableClusterAllowed = 14,
};

enum JitOption : int {
  kJitInfoLogBuffer = 3,
  kJitInfoLogBufferBytes = 4,
  kJitErrorLogBuffer = 5,
  kJitErrorLogBufferBytes = 6,
  kJitOptimizationLevel = 7,
  kJitTargetFromContext = 8,
  kJitLogVerbose = 12,
};
inline constexpr int kJitInputPtx = 1;

inline constexpr unsigned kStreamNonBlocking = 1;
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };

enum PointerAttribute : int {
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
};
// CUDA's values. HIP's changed with 6.0.
enum MemoryType : unsigned { kMemoryHost = 1, kMemoryDevice = 2, kMemoryArray = 3, kMemoryUnified = 4 };

// CUlaunchAttribute: the id, padding to 8 bytes, and a union of 64 bytes. Two members of the union are used
// here.
enum LaunchAttributeId : int {
  kAttributeClusterDimension = 4,
  kAttributeProgrammaticStreamSerialization = 6
};
struct LaunchAttribute {
  int32_t id = 0;
  int32_t padding = 0;
  union {
    uint32_t cluster[3];
    int32_t programmatic_stream_serialization;
    uint64_t whole[8] = {};
  };
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, whole) == 8);

// CUlaunchConfig.
struct LaunchConfiguration {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfiguration) == 56 && offsetof(LaunchConfiguration, stream) == 32);

// How `extra` of a launch describes a buffer with all parameters: {kBufferPointer, buffer, kBufferSize,
// &bytes, kBufferEnd}.
inline void* const kBufferPointer = reinterpret_cast<void*>(1);
inline void* const kBufferSize = reinterpret_cast<void*>(2);
inline void* const kBufferEnd = nullptr;

// CUtensorMap: opaque.
struct alignas(64) EncodedTensorMap {
  uint64_t words[16];
};
static_assert(sizeof(EncodedTensorMap) == 128 && alignof(EncodedTensorMap) == 64);

enum TensorMapDataType : int {
  kTensorUint8 = 0,
  kTensorInt32 = 3,
  kTensorInt64 = 5,
  kTensorFloat16 = 6,
  kTensorFloat32 = 7,
  kTensorBfloat16 = 9,
};
enum TensorMapSwizzle : int { kSwizzleNone = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };
inline constexpr int kInterleaveNone = 0, kL2Promotion256 = 3, kFillZero = 0;

}  // namespace lathe::gpu
