#include "runtime/gpu/results.h"

#include "base/status.h"

namespace lathe::gpu {
namespace {

using absl::StatusCode;
constexpr StatusCode kInvalid = StatusCode::kInvalidArgument, kUnavailable = StatusCode::kUnavailable,
                     kInternal = StatusCode::kInternal, kCapturing = kCapturingCode;

constexpr ResultRow lost(int result) { return {result, kInternal, true, false}; }
constexpr ResultRow refused(int result, StatusCode code = kInternal) { return {result, code, false, true}; }

// HIP took these from CUDA. The names are those of the CUDA Driver API's reference (CUresult, up to CUDA 13) without
// CUDA_ERROR_; HIP's are alike (hip_runtime_api.h of HIP 5.2 to 7.0).
constexpr ResultRow kShared[] = {
    {1, kInvalid},                        // INVALID_VALUE
    {2, StatusCode::kResourceExhausted},  // OUT_OF_MEMORY
    {3, kUnavailable},                    // NOT_INITIALIZED
    {4, kUnavailable},                    // DEINITIALIZED: the process is exiting
    {100, kUnavailable},                  // NO_DEVICE
    {101, kInvalid},                      // INVALID_DEVICE
    refused(200),                         // INVALID_IMAGE
    {201, kInvalid},                      // INVALID_CONTEXT
    refused(209),                         // NO_BINARY_FOR_GPU
    lost(214),                            // ECC_UNCORRECTABLE
    refused(218),                         // INVALID_PTX, in HIP InvalidKernelFile
    refused(300),                         // INVALID_SOURCE
    {400, kInvalid},                      // INVALID_HANDLE: usually a stream
    {401, kInvalid},                      // ILLEGAL_STATE
    lost(700),                            // ILLEGAL_ADDRESS
    lost(702),                            // LAUNCH_TIMEOUT
    {709, kInvalid},                      // CONTEXT_IS_DESTROYED: in HIP also for an invalid stream handle
    lost(710),                            // ASSERT
    lost(719),                            // LAUNCH_FAILED
    {801, StatusCode::kUnimplemented},    // NOT_SUPPORTED
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
};

std::vector<ResultRow> with_shared(std::vector<ResultRow> rows) {
  rows.insert(rows.end(), std::begin(kShared), std::end(kShared));
  return rows;
}

}  // namespace

std::vector<ResultRow> cuda_results() {
  return with_shared({
      {34, kUnavailable},                    // STUB_LIBRARY
      {36, kUnavailable},                    // CALL_REQUIRES_NEWER_DRIVER
      {46, kUnavailable},                    // DEVICE_UNAVAILABLE: held exclusively by another process
      {102, kUnavailable},                   // DEVICE_NOT_LICENSED
      lost(220),                             // NVLINK_UNCORRECTABLE
      refused(221, kUnavailable),            // JIT_COMPILER_NOT_FOUND
      refused(222, kUnavailable),            // UNSUPPORTED_PTX_VERSION: the driver is older than the code
      refused(223, kUnavailable),            // JIT_COMPILATION_DISABLED
      refused(225),                          // UNSUPPORTED_DEVSIDE_SYNC
      lost(226),                             // CONTAINED: an error of another process of the same MPS server
      lost(714),                             // HARDWARE_STACK_ERROR
      lost(715),                             // ILLEGAL_INSTRUCTION
      lost(716),                             // MISALIGNED_ADDRESS
      lost(717),                             // INVALID_ADDRESS_SPACE
      lost(718),                             // INVALID_PC
      lost(721),                             // TENSOR_MEMORY_LEAK
      {800, kUnavailable},                   // NOT_PERMITTED
      {802, kUnavailable},                   // SYSTEM_NOT_READY
      {803, kUnavailable},                   // SYSTEM_DRIVER_MISMATCH
      {804, kUnavailable},                   // COMPAT_NOT_SUPPORTED_ON_DEVICE
      {805, kUnavailable},                   // MPS_CONNECTION_FAILED
      {806, kUnavailable},                   // MPS_RPC_FAILURE
      {807, kUnavailable},                   // MPS_SERVER_NOT_READY
      {808, kUnavailable},                   // MPS_MAX_CLIENTS_REACHED
      {809, kUnavailable},                   // MPS_MAX_CONNECTIONS_REACHED
      lost(810),                             // MPS_CLIENT_TERMINATED
      {909, StatusCode::kDeadlineExceeded},  // TIMEOUT
      {917, kInvalid},                       // STREAM_DETACHED
  });
}

std::vector<ResultRow> hip_results() {
  return with_shared({
      {17, kInvalid},      // InvalidDevicePointer
      {35, kUnavailable},  // InsufficientDriver
      lost(53),            // PriorLaunchFailure
      refused(98),         // InvalidDeviceFunction: the code is for another device
      refused(302),        // SharedObjectSymbolNotFound
      refused(303),        // SharedObjectInitFailed: the loader rejects the code object
      lost(1052),          // RuntimeMemory: an error of the HSA runtime below
      lost(1053),          // RuntimeOther
  });
}

}  // namespace lathe::gpu
