#include "runtime/cuda/cuda_results.h"

#include "base/status.h"

namespace lathe {

// Numbers and meanings are from the CUDA Driver API's reference (CUresult), up to CUDA 13. A result without a
// row is INTERNAL.
std::vector<gpu::ResultRow> cuda_results() {
  using absl::StatusCode;
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument, kUnavailable = StatusCode::kUnavailable,
                       kInternal = StatusCode::kInternal, kCapturing = kCapturingCode;
  const auto lost = [](int result) { return gpu::ResultRow{result, kInternal, true, false}; };
  const auto refused = [](int result, StatusCode code) { return gpu::ResultRow{result, code, false, true}; };
  return {
      {1, kInvalid},                        // INVALID_VALUE
      {2, StatusCode::kResourceExhausted},  // OUT_OF_MEMORY
      {3, kUnavailable},                    // NOT_INITIALIZED
      {4, kUnavailable},                    // DEINITIALIZED: the process is exiting
      {34, kUnavailable},                   // STUB_LIBRARY
      {36, kUnavailable},                   // CALL_REQUIRES_NEWER_DRIVER
      {46, kUnavailable},                   // DEVICE_UNAVAILABLE: held exclusively by another process
      {100, kUnavailable},                  // NO_DEVICE
      {101, kInvalid},                      // INVALID_DEVICE
      {102, kUnavailable},                  // DEVICE_NOT_LICENSED
      refused(200, kInternal),              // INVALID_IMAGE
      {201, kInvalid},                      // INVALID_CONTEXT
      refused(209, kInternal),              // NO_BINARY_FOR_GPU
      lost(214),                            // ECC_UNCORRECTABLE
      refused(218, kInternal),              // INVALID_PTX
      lost(220),                            // NVLINK_UNCORRECTABLE
      refused(221, kUnavailable),           // JIT_COMPILER_NOT_FOUND
      refused(222, kUnavailable),           // UNSUPPORTED_PTX_VERSION: the driver is older than the code
      refused(223, kUnavailable),           // JIT_COMPILATION_DISABLED
      refused(225, kInternal),              // UNSUPPORTED_DEVSIDE_SYNC
      lost(226),                            // CONTAINED: an error of another process of the same MPS server
      refused(300, kInternal),              // INVALID_SOURCE
      {400, kInvalid},                      // INVALID_HANDLE: usually a stream
      {401, kInvalid},                      // ILLEGAL_STATE
      lost(700),                            // ILLEGAL_ADDRESS
      {701, kInternal},                     // LAUNCH_OUT_OF_RESOURCES
      lost(702),                            // LAUNCH_TIMEOUT
      {709, kInvalid},                      // CONTEXT_IS_DESTROYED
      lost(710),                            // ASSERT
      lost(714),                            // HARDWARE_STACK_ERROR
      lost(715),                            // ILLEGAL_INSTRUCTION
      lost(716),                            // MISALIGNED_ADDRESS
      lost(717),                            // INVALID_ADDRESS_SPACE
      lost(718),                            // INVALID_PC
      lost(719),                            // LAUNCH_FAILED
      lost(721),                            // TENSOR_MEMORY_LEAK
      {800, kUnavailable},                  // NOT_PERMITTED
      {801, StatusCode::kUnimplemented},    // NOT_SUPPORTED
      {802, kUnavailable},                  // SYSTEM_NOT_READY
      {803, kUnavailable},                  // SYSTEM_DRIVER_MISMATCH
      {804, kUnavailable},                  // COMPAT_NOT_SUPPORTED_ON_DEVICE
      {805, kUnavailable},                  // MPS_CONNECTION_FAILED
      {806, kUnavailable},                  // MPS_RPC_FAILURE
      {807, kUnavailable},                  // MPS_SERVER_NOT_READY
      {808, kUnavailable},                  // MPS_MAX_CLIENTS_REACHED
      {809, kUnavailable},                  // MPS_MAX_CONNECTIONS_REACHED
      lost(810),                            // MPS_CLIENT_TERMINATED
      // The caller's stream is being captured, and the requested work cannot be part of a graph.
      {900, kCapturing},  // STREAM_CAPTURE_UNSUPPORTED
      {901, kInvalid},    // STREAM_CAPTURE_INVALIDATED
      {902, kInvalid},    // STREAM_CAPTURE_MERGE
      {903, kInvalid},    // STREAM_CAPTURE_UNMATCHED
      {904, kInvalid},    // STREAM_CAPTURE_UNJOINED
      {905, kInvalid},    // STREAM_CAPTURE_ISOLATION
      {906, kCapturing},  // STREAM_CAPTURE_IMPLICIT: work on the legacy stream during a capture
      {907, kInvalid},    // CAPTURED_EVENT
      {908, kInvalid},    // STREAM_CAPTURE_WRONG_THREAD
      {909, StatusCode::kDeadlineExceeded},  // TIMEOUT
      {911, kInternal},                      // EXTERNAL_DEVICE
      {912, kInternal},                      // INVALID_CLUSTER_SIZE
      {917, kInvalid},                       // STREAM_DETACHED
  };
}

}  // namespace lathe
