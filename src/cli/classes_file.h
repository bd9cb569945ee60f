// Files of classes, as verbs take them: a manifest, or a CSV file of weights.
#pragma once

#include "cli/warm_manifest.h"

namespace lathe::cli {

// The classes of the file that the command line names first: a manifest's, or those that a CSV file's weights
// (model,layer,n,k) can ask for as the flags say.
absl::StatusOr<Manifest> read_classes(const Arguments& arguments, const Opened& opened);
// Those flags, and `more`.
std::vector<Flag> classes_flags(const std::vector<Flag>& more);

}  // namespace lathe::cli
