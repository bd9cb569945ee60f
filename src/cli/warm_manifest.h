// A warm-up as verbs of the command do it: their flags, the device they name, a manifest prepared on it with
// a bar.
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

// Prepares the manifest and says what came of it; the first failure's status.
absl::Status warm_manifest(const Arguments& arguments, const Opened& opened, const lathe_manifest* manifest);

// The flags of a warm-up, whatever it is of.
std::vector<Flag> warm_flags();

}  // namespace lathe::cli
