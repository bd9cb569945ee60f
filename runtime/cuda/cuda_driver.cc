#include "runtime/cuda/cuda_driver.h"

#include "runtime/gpu_library.h"

namespace lathe {
namespace {

constexpr GpuApi kCuda = {"cuda", {"libcuda.so.1"}, "cuInit", "cuDeviceGetCount", "cuDeviceGetName"};

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_cuda() { return enumerate_gpu(kCuda); }
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name) { return refuse_gpu(kCuda, name); }
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions&) {
  return refuse_gpu(kCuda, name);
}

}  // namespace lathe
