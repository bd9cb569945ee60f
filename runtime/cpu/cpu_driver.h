// The CPU as a device: name "cpu", stream always NULL, a launch returns when its results are written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

// This backend's row. enumerate answers {"cpu"}; query and open take "cpu" alone (kInvalidArgument
// otherwise).
absl::StatusOr<std::vector<std::string>> enumerate_cpu();
absl::StatusOr<DeviceFacts> query_cpu(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_cpu(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
