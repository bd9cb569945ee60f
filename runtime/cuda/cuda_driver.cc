#include "runtime/cuda/cuda_driver.h"

#include "runtime/cuda/cuda_facts.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/results.h"

namespace lathe {

const gpu::Platform& cuda_platform() {
  // Never destroyed, because drivers point to it.
  static const auto& platform =
      *new gpu::Platform{"cuda", {"libcuda.so.1"}, /*is_cuda=*/true, gpu::cuda_results(), query_cuda_facts};
  return platform;
}

absl::StatusOr<std::vector<std::string>> enumerate_cuda() { return gpu::enumerate(cuda_platform()); }
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name, const DriverOptions& /*options*/) {
  return gpu::query(cuda_platform(), name);
}
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions& options) {
  return gpu::open(cuda_platform(), name, options);
}

}  // namespace lathe
