// Files that are installed beside this library.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

// The path of `name` in the directory that this library (or the program it is linked into) was loaded from.
std::string beside_library(absl::string_view name);

}  // namespace lathe
