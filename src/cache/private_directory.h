// The cache's directory. It and its files are trusted only if they belong to the user and nobody else can
// write to them.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/statusor.h"
#include "cache/file_io.h"

namespace lathe {

// Returns "" if a file or directory with this owner and mode can be trusted, otherwise the reason why not.
std::string refusal_of(const struct stat& s);

// Opens the directory for openat and similar calls, so that the checked directory is the one used, whatever
// happens to the path later. `path` must be absolute and have no trailing slash. kNotFound: it does not
// exist. kPermissionDenied: it is a symbolic link, owned by another user or writable by others.
absl::StatusOr<FileDescriptor> open_private_directory(const std::string& path);
// As above, but first creates the directory (mode 0700) and its parents if they do not exist.
absl::StatusOr<FileDescriptor> make_private_directory(const std::string& path);

}  // namespace lathe
