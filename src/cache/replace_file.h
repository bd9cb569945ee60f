// A file outside a store's directory (a bundle, a tuning file, metrics) that is replaced by renaming.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store_files.h"

namespace lathe {

// Whoever reads `path` sees all of the old file or all of the new one. It is written under
// `path`.tmp-PID-N-HEX, held (flock) as long as that takes; those whose writer has ended are removed first.
// The message of an error is its cause alone; kNotFound: the directory does not exist.
absl::Status replace_file(const std::string& path, absl::string_view bytes, mode_t mode,
                          Durability durability);

}  // namespace lathe
