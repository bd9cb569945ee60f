#include "runtime/hip/hip_driver.h"

#include "runtime/gpu_library.h"

namespace lathe {
namespace {

constexpr GpuApi kHip = {"hip",
                         {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                         "hipInit",
                         "hipGetDeviceCount",
                         "hipDeviceGetName"};

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_hip() { return enumerate_gpu(kHip); }
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name) { return refuse_gpu(kHip, name); }
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions&) {
  return refuse_gpu(kHip, name);
}

}  // namespace lathe
