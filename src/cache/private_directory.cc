#include "cache/private_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {

std::string refusal_of(const struct stat& s) {
  if (S_ISLNK(s.st_mode)) return "it is a symbolic link";
  if (s.st_uid != geteuid()) return absl::StrCat("it belongs to user ", s.st_uid, ", not ", geteuid());
  if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "its group or everybody may write to it";
  return "";
}

absl::StatusOr<FileDescriptor> open_private_directory(const std::string& path) {
  FileDescriptor directory = open_file(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat s;
  if (!directory.valid()) {
    const int error = errno;
    // For a symbolic link, O_DIRECTORY | O_NOFOLLOW fails with ENOTDIR or ELOOP; lstat tells it from a file.
    if ((error == ENOTDIR || error == ELOOP) && lstat(path.c_str(), &s) == 0 && S_ISLNK(s.st_mode))
      return absl::PermissionDeniedError(absl::StrCat(path, ": ", refusal_of(s)));
    return errno_status(error, path);
  }
  if (fstat(directory.get(), &s) != 0) return errno_status(errno, path);
  const std::string refusal = refusal_of(s);
  if (!refusal.empty()) return absl::PermissionDeniedError(absl::StrCat(path, ": ", refusal));
  return directory;
}

absl::StatusOr<FileDescriptor> make_private_directory(const std::string& path) {
  absl::StatusOr<FileDescriptor> directory = open_private_directory(path);
  if (directory.ok() || !absl::IsNotFound(directory.status())) return directory;
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    // An existing parent usually gives EEXIST, but a read-only file system may give EROFS.
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat s;
      if (stat(part.c_str(), &s) != 0) return errno_status(error, absl::StrCat("cannot make ", part));
    }
    if (end == std::string::npos) return open_private_directory(path);
  }
}

}  // namespace lathe
