#include "runtime/hip/hip_driver.h"

#include "runtime/gpu/driver.h"

namespace lathe {
namespace {

const gpu::Platform& platform() {
  // Never destroyed, as CUDA's. Without a query: this version launches nothing there.
  static const auto& hip =
      *new gpu::Platform{"hip",
                         {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                         /*is_cuda=*/false,
                         {},
                         nullptr};
  return hip;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_hip() { return gpu::enumerate(platform()); }
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name) { return gpu::query(platform(), name); }
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions& options) {
  return gpu::open(platform(), name, options);
}

}  // namespace lathe
