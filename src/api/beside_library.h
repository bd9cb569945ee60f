// Files that are installed beside this library.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

// The absolute path of `name` in the directory that this library (or the program it is linked into) was
// loaded from, whatever the current directory has become since. `name` alone where that directory is not
// known.
std::string beside_library(absl::string_view name);

}  // namespace lathe
