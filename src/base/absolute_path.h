// Makes relative paths absolute, so that they stay valid when the process changes its directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// Puts the current directory in front of `path`, unless it starts with '/'. "" stays "". Only the text
// changes: symbolic links, "." and ".." stay, and nothing needs to exist. kUnavailable: the path is relative
// and there is no current directory (it was removed). Throws std::bad_alloc if memory is short.
absl::StatusOr<std::string> absolute_path(absl::string_view path);

}  // namespace lathe
