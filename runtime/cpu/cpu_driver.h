// The CPU as a device. Its name is "cpu", its stream is always NULL, and a launch returns when its results
// are written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

// The functions of this backend's row. enumerate returns {"cpu"}; query and open accept only "cpu" (otherwise
// kInvalidArgument).
absl::StatusOr<std::vector<std::string>> enumerate_cpu();
absl::StatusOr<DeviceFacts> query_cpu(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_cpu(absl::string_view name, const DriverOptions& options);
// With a pool of its own, also if the options have a parallel_for.
absl::StatusOr<Calibrated> calibrate_cpu(absl::string_view name, const DriverOptions& options,
                                         const CalibrateOptions& calibrate);

}  // namespace lathe
