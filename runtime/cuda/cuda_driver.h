// CUDA as a backend: devices "cuda:0", "cuda:1", ... See gpu_library.h for what is shared and what this
// version answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"

namespace lathe {

absl::StatusOr<std::vector<std::string>> enumerate_cuda();
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name);
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
