#include "runtime/hip/hip_driver.h"

#include "runtime/gpu/driver.h"
#include "runtime/gpu/results.h"
#include "runtime/hip/hip_facts.h"

namespace lathe {

const gpu::Platform& hip_platform() {
  // Never destroyed, because drivers point to it.
  static const auto& platform =
      *new gpu::Platform{"hip",
                         {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                         /*is_cuda=*/false,
                         gpu::hip_results(),
                         query_hip_facts};
  return platform;
}

absl::StatusOr<std::vector<std::string>> enumerate_hip() { return gpu::enumerate(hip_platform()); }
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name, const DriverOptions& /*options*/) {
  return gpu::query(hip_platform(), name);
}
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions& options) {
  return gpu::open(hip_platform(), name, options);
}

}  // namespace lathe
