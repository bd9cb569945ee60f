// One driver for CUDA and HIP. A platform (library.h) describes the differences.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/driver.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// Parts of a backend's row. kUnavailable: there is no device; the message has the reason. query and open also
// return kInvalidArgument for a name that is not "<prefix>:<ordinal>". Listing and querying create no
// context.
absl::StatusOr<std::vector<std::string>> enumerate(const Platform& platform);
absl::StatusOr<DeviceFacts> query(const Platform& platform, absl::string_view name);
absl::StatusOr<std::unique_ptr<lathe::Driver>> open(const Platform& platform, absl::string_view name,
                                                    const DriverOptions& options);

}  // namespace lathe::gpu
