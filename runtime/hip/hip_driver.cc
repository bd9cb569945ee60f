#include "runtime/hip/hip_driver.h"

#include "runtime/gpu_library.h"

namespace lathe {
namespace {

const GpuApi& hip_api() {
  static const GpuApi api = {"hip",
                             {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                             "hipInit",
                             "hipGetDeviceCount",
                             "hipDeviceGetName"};
  return api;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_hip() { return enumerate_gpu(hip_api()); }
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name) { return refuse_gpu(hip_api(), name); }
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions&) {
  return refuse_gpu(hip_api(), name);
}

}  // namespace lathe
