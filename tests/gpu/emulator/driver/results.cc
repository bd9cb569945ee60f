#include "tests/gpu/emulator/driver/types.h"

namespace lathe::emulator {
namespace {

struct Row {
  int result;
  const char* name;
};
// The results that the emulator returns, with the names of CUresult.
constexpr Row kRows[] = {
    {kSuccess, "CUDA_SUCCESS"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND"},
    {kNotReady, "CUDA_ERROR_NOT_READY"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {kInvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE"},
    {kUnknown, "CUDA_ERROR_UNKNOWN"},
};

}  // namespace

const char* result_name(int result) {
  for (const Row& row : kRows) {
    if (row.result == result) return row.name;
  }
  return nullptr;
}

// The name serves as the text.
const char* result_text(int result) { return result_name(result); }

}  // namespace lathe::emulator
