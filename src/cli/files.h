// Reads and writes whole files, with errors for the user.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "cli/session.h"

namespace lathe::cli {

// kInvalidArgument: the file cannot be read.
absl::StatusOr<std::string> read_file(const std::string& path);
// kInvalidArgument: the file cannot be read, is not JSON, or is nested too deep.
absl::StatusOr<Json> read_json_file(const std::string& path);
// kUnavailable: the file cannot be written.
absl::Status write_file(const std::string& path, absl::string_view text);

}  // namespace lathe::cli
