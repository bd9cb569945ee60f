// SPIR-V as a backend: compile-only. Kernels for a described device (facts/max-1550.json and others) are
// planned, compiled, cached and bundled like all others, but nothing here loads or launches them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

// Each returns kUnavailable with that reason.
absl::StatusOr<std::vector<std::string>> enumerate_spirv();
absl::StatusOr<DeviceFacts> query_spirv(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_spirv(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
