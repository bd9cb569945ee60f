#include "runtime/cuda/cuda_driver.h"

#include "runtime/gpu_library.h"

namespace lathe {
namespace {

const GpuApi& cuda_api() {
  static const GpuApi api = {"cuda", {"libcuda.so.1"}, "cuInit", "cuDeviceGetCount", "cuDeviceGetName"};
  return api;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_cuda() { return enumerate_gpu(cuda_api()); }
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name) { return refuse_gpu(cuda_api(), name); }
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions&) {
  return refuse_gpu(cuda_api(), name);
}

}  // namespace lathe
