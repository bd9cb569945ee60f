// Small text files that other processes read while this one writes them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// `pattern` with every "%p" as this process' id.
std::string path_of_process(absl::string_view pattern);

// kNotFound: there is none.
absl::StatusOr<std::string> read_text_file(const std::string& path);
// Whole or not at all for whoever reads; not synced: these files say what is, not what must last.
absl::Status replace_text_file(const std::string& path, absl::string_view text);

}  // namespace lathe
