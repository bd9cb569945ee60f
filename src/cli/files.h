// Whole files, and what the command says of those it cannot read or write.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "cli/session.h"

namespace lathe::cli {

// kInvalidArgument: it cannot be read.
absl::StatusOr<std::string> read_file(const std::string& path);
// kInvalidArgument: nor is it JSON.
absl::StatusOr<Json> read_json_file(const std::string& path);
// kUnavailable: it cannot be written.
absl::Status write_file(const std::string& path, absl::string_view text);

}  // namespace lathe::cli
