// Replaces a file outside the cache directory (a bundle, a tuning file, metrics) by renaming a new one.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store_files.h"

namespace lathe {

// A reader of `path` sees either all of the old file or all of the new one. The new file is written under a
// temporary name (store_files.h) and locked meanwhile; temporary files whose writers have ended are removed
// first. An error's message is the cause only. kNotFound: the directory does not exist.
absl::Status replace_file(const std::string& path, absl::string_view bytes, mode_t mode,
                          Durability durability);

}  // namespace lathe
