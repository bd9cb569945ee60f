// The parts of a warm-up that several verbs share: the flags, the device, and the warm-up itself with its progress.
#pragma once

#include <memory>
#include <vector>

#include "cli/session.h"

namespace lathe::cli {

using Manifest = std::unique_ptr<lathe_manifest, HandleDelete<lathe_manifest, lathe_manifest_destroy>>;
absl::StatusOr<Manifest> make_manifest();

struct Opened {
  Context context;
  Device device;
};
absl::StatusOr<Opened> open(const Arguments& arguments);

// Warms up the manifest's classes and prints a summary. Returns the status of the first failure.
absl::Status warm_manifest(const Arguments& arguments, const Opened& opened, const lathe_manifest* manifest);

// The flags of every warm-up.
std::vector<Flag> warm_flags();

}  // namespace lathe::cli
