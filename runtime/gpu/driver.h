// CUDA's and HIP's driver as one: a platform (library.h) says in what they differ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// Parts of a backend's row. kUnavailable says why there is no device; query and open answer it, with the
// reason, and kInvalidArgument for a name that is not "<prefix>:<ordinal>". Listing and querying make no
// context.
absl::StatusOr<std::vector<std::string>> enumerate(const Platform& platform);
absl::StatusOr<DeviceFacts> query(const Platform& platform, absl::string_view name);
absl::StatusOr<std::unique_ptr<lathe::Driver>> open(const Platform& platform, absl::string_view name,
                                                    const DriverOptions& options);

}  // namespace lathe::gpu
