// CUDA as a backend: devices "cuda:0", "cuda:1", ... This folder has the tables in which CUDA differs from
// HIP; runtime/gpu has the code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe {

// CUDA's row of GPU backend differences. Tests make modified copies of it.
const gpu::Platform& cuda_platform();

absl::StatusOr<std::vector<std::string>> enumerate_cuda();
absl::StatusOr<DeviceFacts> query_cuda(absl::string_view name, const DriverOptions& options);
absl::StatusOr<std::unique_ptr<Driver>> open_cuda(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
