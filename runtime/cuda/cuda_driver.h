// CUDA as a backend: devices "cuda:0", "cuda:1", ... What is said of them here is in the tables of this
// folder; what they do is runtime/gpu's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe {

// Tests make others of it.
const gpu::Platform& cuda_platform();

absl::StatusOr<std::vector<std::string>> enumerate_cuda();
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
