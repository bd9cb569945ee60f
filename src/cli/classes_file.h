// Reads the file that `lathe warm` and `lathe tune` take: a manifest, or a CSV file of weights.
#pragma once

#include "cli/warm_manifest.h"

namespace lathe::cli {

// Reads the file named by the first word: a manifest, or a CSV file of weights (model,layer,n,k), whose dtypes, layout
// and largest M come from the flags.
absl::StatusOr<Manifest> read_classes(const Arguments& arguments, const Opened& opened);
// The flags for CSV files, followed by `more`.
std::vector<Flag> classes_flags(const std::vector<Flag>& more);

}  // namespace lathe::cli
