// A number as text. absl::StrFormat writes to its string in a destructor, which must not fail: where the
// string cannot be allocated it ends the process.
#pragma once

#include <string>

#include "absl/strings/str_format.h"

namespace lathe {

// Of a format for one double whose text has fewer than 64 characters, in the C locale's form whatever the
// host's.
inline std::string number_text(const absl::FormatSpec<double>& format, double value) {
  char text[64];
  absl::SNPrintF(text, sizeof(text), format, value);
  return text;
}

}  // namespace lathe
