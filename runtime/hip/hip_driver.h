// ROCm's HIP as a backend: devices "hip:0", "hip:1", ... This version lists them and launches nothing there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

absl::StatusOr<std::vector<std::string>> enumerate_hip();
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name);
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
