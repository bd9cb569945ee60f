// Paths that stay right when the process changes its directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// `path` behind the current directory, unless it starts with '/'. "" stays "". It is a change of text alone:
// no symbolic link is followed, "." and ".." stay, and nothing has to exist. kUnavailable: the path is
// relative and there is no current directory (it was removed). Throws std::bad_alloc where memory is short.
absl::StatusOr<std::string> absolute_path(absl::string_view path);

}  // namespace lathe
