// Opens a device with its context and stream, also once for each external library.
#pragma once

#include <string>
#include <vector>

#include "cli/device_memory.h"
#include "cli/session.h"

namespace lathe::cli {

struct OpenedDevice {
  std::string name;  // the device's name, or the library's if opened by open_for_externals
  Context context;
  Device device;
  Stream stream;
};

// Opens a device of this machine by its name.
absl::StatusOr<OpenedDevice> open_named(const Arguments& arguments, const std::string& name,
                                        const ExternalUse& external = {});
// Opens the same device once for each external library that is found. On such a device that library serves a matmul, or
// the request is unsupported.
absl::StatusOr<std::vector<OpenedDevice>> open_for_externals(const Arguments& arguments,
                                                             const OpenedDevice& device);

}  // namespace lathe::cli
