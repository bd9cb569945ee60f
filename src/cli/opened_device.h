// A device with what its use needs, and one for each external library beside it.
#pragma once

#include <string>
#include <vector>

#include "cli/device_memory.h"
#include "cli/session.h"

namespace lathe::cli {

struct OpenedDevice {
  std::string name;  // the device's; of an external library's that library's
  Context context;
  Device device;
  Stream stream;
};

// A real device by its name.
absl::StatusOr<OpenedDevice> open_named(const Arguments& arguments, const std::string& name,
                                        const ExternalUse& external = {});
// The same, once for each external library that the device has: its products are done by that library, or
// not.
absl::StatusOr<std::vector<OpenedDevice>> open_for_externals(const Arguments& arguments,
                                                             const OpenedDevice& device);

}  // namespace lathe::cli
