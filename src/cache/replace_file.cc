#include "cache/replace_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "cache/file_io.h"
#include "cache/store_files.h"

namespace lathe {
namespace {

bool is_of(absl::string_view text, absl::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == absl::string_view::npos;
}

// Whether `name` is a temporary file that publish_through made for this prefix.
bool is_temporary_of(absl::string_view prefix, absl::string_view name) {
  if (!absl::ConsumePrefix(&name, prefix)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  // Temporaries of older versions do not name the machine.
  const bool names_host =
      parts.size() == 4 && parts[0].size() == kHostSize && is_of(parts[0], "0123456789abcdef");
  if (parts.size() != 3 && !names_host) return false;
  const size_t first = names_host ? 1 : 0;
  return is_of(parts[first], "0123456789") && is_of(parts[first + 1], "0123456789") &&
         is_of(parts[first + 2], "0123456789abcdef");
}

// Best effort: in a directory that can be written but not read, old temporary files stay.
void reclaim_temporaries(int directory, absl::string_view prefix) {
  const absl::StatusOr<std::vector<std::string>> names = names_in(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names)
    if (is_temporary_of(prefix, name)) reclaim(directory, name);
}

}  // namespace

absl::Status replace_file(const std::string& path, absl::string_view bytes, mode_t mode,
                          Durability durability) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  FileDescriptor folder = open_file(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!folder.valid() && errno == EACCES) folder = open_file(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  if (!folder.valid()) return errno_status(errno, "open");
  const std::string prefix = absl::StrCat(name, ".tmp-");
  reclaim_temporaries(folder.get(), prefix);
  return publish_through(folder.get(), prefix, name, bytes, {mode, durability});
}

}  // namespace lathe
