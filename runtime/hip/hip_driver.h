// AMD's HIP as a backend: devices "hip:0", "hip:1", ...
//
// Needs libamdhip64.so.7, .6 or .5 (5.2 or later) and its dependencies, but no other part of ROCm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe {

// HIP's row of GPU backend differences. Never destroyed.
const gpu::Platform& hip_platform();

absl::StatusOr<std::vector<std::string>> enumerate_hip();
absl::StatusOr<DeviceFacts> query_hip(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_hip(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
