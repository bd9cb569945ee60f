// Files that are installed beside this library.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

// The absolute path of `name` in the directory that this library (or the program it is linked into) was
// loaded from. A later change of the current directory has no effect. `name` alone if the directory is
// unknown.
std::string beside_library(absl::string_view name);

}  // namespace lathe
