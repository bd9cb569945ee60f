// Small text files that other processes read while this one writes them.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/replace_file.h"

namespace lathe {

// `pattern` with every "%p" as this process' id.
std::string path_of_process(absl::string_view pattern);

// kNotFound: there is none.
absl::StatusOr<std::string> read_text_file(const std::string& path);
// kUnavailable: nothing can be put in its place, since there is no such directory or it is not to be written.
absl::Status check_replaceable(const std::string& path);
// Whole or not at all for whoever reads (cache/replace_file.h).
absl::Status replace_text_file(const std::string& path, absl::string_view text, Durability durability);
// Puts what `change` makes of the file's text ("": there is none) in its place, synced, beside other
// processes that do the same: under `path`.lock, if it is to be had within that time. *locked: nobody can
// have written over it.
absl::Status update_text_file(const std::string& path, double patience_seconds, bool* locked,
                              absl::FunctionRef<absl::StatusOr<std::string>(absl::string_view)> change);

}  // namespace lathe
