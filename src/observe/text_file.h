// Small text files that other processes read while this one writes them.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/replace_file.h"

namespace lathe {

// `pattern` with every "%p" replaced by the process id.
std::string path_of_process(absl::string_view pattern);

// kNotFound: the file does not exist.
absl::StatusOr<std::string> read_text_file(const std::string& path);
// kUnavailable if the file cannot be replaced, because its directory does not exist or is not writable.
absl::Status check_replaceable(const std::string& path);
// Replaces the file in one step: readers see the old or the new text (cache/replace_file.h).
absl::Status replace_text_file(const std::string& path, absl::string_view text, Durability durability);
// Replaces the file with change(its text), synced. The text is "" if there is no file. Other processes may do the
// same: this holds `path`.lock, but goes on without it after patience_seconds. *locked: the lock was held, so no
// other process can have overwritten the change.
absl::Status update_text_file(const std::string& path, double patience_seconds, bool* locked,
                              absl::FunctionRef<absl::StatusOr<std::string>(absl::string_view)> change);

}  // namespace lathe
