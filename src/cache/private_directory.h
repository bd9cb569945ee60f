// The cache's directory and the rules by which it and the files in it are trusted: ours, and nobody else can
// write.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/statusor.h"
#include "cache/file_io.h"

namespace lathe {

// "" if a file or directory with this owner and mode may be trusted, else why not.
std::string refusal_of(const struct stat& s);

// Opens the directory for use with openat and its kin: what is checked is what is used, whatever happens to
// the path meanwhile. `path` is absolute and has no trailing slash. kNotFound when it does not exist;
// kPermissionDenied when it is a symbolic link, owned by another user or writable by others.
absl::StatusOr<FileDescriptor> open_private_directory(const std::string& path);
// As above, but makes the directory first, 0700, and its parents as needed.
absl::StatusOr<FileDescriptor> make_private_directory(const std::string& path);

}  // namespace lathe
