// Formats a number. absl::StrFormat allocates in a destructor, so a failed allocation would end the process.
#pragma once

#include <string>

#include "absl/strings/str_format.h"

namespace lathe {

// `format` takes one double and gives fewer than 64 characters. The host's locale has no effect.
inline std::string number_text(const absl::FormatSpec<double>& format, double value) {
  char text[64];
  absl::SNPrintF(text, sizeof(text), format, value);
  return text;
}

}  // namespace lathe
