// The constants and structs of the CUDA driver that the emulator needs. Values and layouts follow the reference of the
// CUDA Driver API.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::emulator {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kInvalidClusterSize = 912,
  kUnknown = 999,
};

// The name and the text of a result; null for an unknown number.
const char* result_name(int result);
const char* result_text(int result);

// The values of CUdevice_attribute that the code names.
inline constexpr int kMultiprocessors = 16, kThreadsOfMultiprocessor = 39, kSharedOfMultiprocessor = 81,
                     kMaxSharedOptin = 97, kReservedShared = 111;

using DevicePointer = unsigned long long;

enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureIsInvalid = 2 };

struct LaunchAttribute {
  int32_t id;
  int32_t padding;
  union {
    uint32_t cluster[3];
    int32_t value;
    uint8_t bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);
enum LaunchAttributeId : int {
  kAttributeIgnore = 0,
  kAttributeClusterDimension = 4,
  kAttributeProgrammaticStreamSerialization = 6,
  kAttributePriority = 8,
};

struct LaunchConfiguration {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfiguration) == 56 && offsetof(LaunchConfiguration, stream) == 32);

struct Uuid {
  char bytes[16];
};

}  // namespace lathe::emulator
