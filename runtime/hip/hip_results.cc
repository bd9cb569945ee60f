#include "runtime/hip/hip_results.h"

#include "base/status.h"

namespace lathe {

// Every hipError_t of HIP 5.2 to 7.0 (hip_runtime_api.h), by number. A result without a row is INTERNAL.
std::vector<gpu::ResultRow> hip_results() {
  using absl::StatusCode;
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument, kUnavailable = StatusCode::kUnavailable,
                       kInternal = StatusCode::kInternal, kCapturing = kCapturingCode;
  const auto lost = [](int result) { return gpu::ResultRow{result, kInternal, true, false}; };
  const auto refused = [](int result) { return gpu::ResultRow{result, kInternal, false, true}; };
  return {
      {1, kInvalid},                        // InvalidValue
      {2, StatusCode::kResourceExhausted},  // OutOfMemory
      {3, kUnavailable},                    // NotInitialized
      {4, kUnavailable},                    // Deinitialized: the process is exiting
      {5, kInternal},                       // ProfilerDisabled
      {6, kInternal},                       // ProfilerNotInitialized
      {7, kInternal},                       // ProfilerAlreadyStarted
      {8, kInternal},                       // ProfilerAlreadyStopped
      {9, kInternal},                     // InvalidConfiguration: a launch size, which comes from the recipe
      {12, kInternal},                    // InvalidPitchValue
      {13, kInternal},                    // InvalidSymbol
      {17, kInvalid},                     // InvalidDevicePointer
      {21, kInternal},                    // InvalidMemcpyDirection
      {35, kUnavailable},                 // InsufficientDriver
      {52, kInternal},                    // MissingConfiguration
      lost(53),                           // PriorLaunchFailure
      refused(98),                        // InvalidDeviceFunction: the code is for another device
      {100, kUnavailable},                // NoDevice
      {101, kInvalid},                    // InvalidDevice
      refused(200),                       // InvalidImage
      {201, kInvalid},                    // InvalidContext
      {202, kInternal},                   // ContextAlreadyCurrent
      {205, kInternal},                   // MapFailed
      {206, kInternal},                   // UnmapFailed
      {207, kInternal},                   // ArrayIsMapped
      {208, kInternal},                   // AlreadyMapped
      refused(209),                       // NoBinaryForGpu
      {210, kInternal},                   // AlreadyAcquired
      {211, kInternal},                   // NotMapped
      {212, kInternal},                   // NotMappedAsArray
      {213, kInternal},                   // NotMappedAsPointer
      lost(214),                          // ECCNotCorrectable
      {215, kInternal},                   // UnsupportedLimit
      {216, kInternal},                   // ContextAlreadyInUse
      {217, kInternal},                   // PeerAccessUnsupported
      refused(218),                       // InvalidKernelFile
      {219, kInternal},                   // InvalidGraphicsContext
      refused(300),                       // InvalidSource
      {301, kInternal},                   // FileNotFound
      refused(302),                       // SharedObjectSymbolNotFound
      refused(303),                       // SharedObjectInitFailed: the loader rejects the code object
      {304, kInternal},                   // OperatingSystem
      {400, kInvalid},                    // InvalidHandle: usually a stream
      {401, kInvalid},                    // IllegalState
      {500, kInternal},                   // NotFound
      {600, kInternal},                   // NotReady
      lost(700),                          // IllegalAddress
      {701, kInternal},                   // LaunchOutOfResources
      lost(702),                          // LaunchTimeOut
      {704, kInternal},                   // PeerAccessAlreadyEnabled
      {705, kInternal},                   // PeerAccessNotEnabled
      {708, kInternal},                   // SetOnActiveProcess
      {709, kInvalid},                    // ContextIsDestroyed: also for an invalid stream handle
      lost(710),                          // Assert
      {712, kInternal},                   // HostMemoryAlreadyRegistered
      {713, kInternal},                   // HostMemoryNotRegistered
      lost(719),                          // LaunchFailure
      {720, kInternal},                   // CooperativeLaunchTooLarge
      {801, StatusCode::kUnimplemented},  // NotSupported
      // The caller's stream is being captured, and the requested work cannot be part of a graph.
      {900, kCapturing},  // StreamCaptureUnsupported
      {901, kInvalid},    // StreamCaptureInvalidated
      {902, kInvalid},    // StreamCaptureMerge
      {903, kInvalid},    // StreamCaptureUnmatched
      {904, kInvalid},    // StreamCaptureUnjoined
      {905, kInvalid},    // StreamCaptureIsolation
      {906, kCapturing},  // StreamCaptureImplicit: work on the legacy stream during a capture
      {907, kInvalid},    // CapturedEvent
      {908, kInvalid},    // StreamCaptureWrongThread
      {910, kInternal},   // GraphExecUpdateFailure
      {911, kInternal},   // InvalidChannelDescriptor
      {912, kInternal},   // InvalidTexture
      {999, kInternal},   // Unknown
      lost(1052),         // RuntimeMemory: an error of the HSA runtime below
      lost(1053),         // RuntimeOther
      {1054, kInternal},  // Tbd
  };
}

}  // namespace lathe
