#include "observe/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "cache/file_io.h"
#include "cache/key_lock.h"

namespace lathe {
namespace {

absl::Status failed(const std::string& path, const char* what) {
  const int error = errno;
  const std::string text = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string path_of_process(absl::string_view pattern) {
  return absl::StrReplaceAll(pattern, {{"%p", absl::StrCat(getpid())}});
}

absl::StatusOr<std::string> read_text_file(const std::string& path) {
  constexpr off_t kMost = 64 << 20;
  const FileDescriptor file = open_file(AT_FDCWD, path, O_RDONLY);
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0) return failed(path, "cannot be read");
  if (!S_ISREG(status.st_mode) || status.st_size > kMost)
    return absl::UnavailableError(absl::StrCat(path, ": not a regular file of at most ", kMost, " bytes"));
  std::string text(static_cast<size_t>(status.st_size), '\0');
  LATHE_RETURN_IF_ERROR(read_whole(file.get(), &text));
  return text;
}

absl::Status replace_text_file(const std::string& path, absl::string_view text, Durability durability) {
  const absl::Status status = replace_file(path, text, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, durability);
  if (status.ok()) return status;
  const std::string cause = absl::StrCat(path, ": cannot be written: ", status.message());
  return absl::IsNotFound(status) ? absl::NotFoundError(cause) : absl::UnavailableError(cause);
}

absl::Status check_replaceable(const std::string& path) {
  const std::string directory = directory_of(path);
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  const int error = errno;
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

absl::Status update_text_file(const std::string& path, double patience_seconds, bool* locked,
                              absl::FunctionRef<absl::StatusOr<std::string>(absl::string_view)> change) {
  const std::string directory = directory_of(path);
  const FileDescriptor folder = open_file(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) return absl::UnavailableError(absl::StrCat(directory, ": no such directory"));
  const KeyLock lock = KeyLock::acquire(folder.get(), absl::StrCat(path.substr(path.rfind('/') + 1), ".lock"),
                                        patience_seconds);
  *locked = lock.held();
  absl::StatusOr<std::string> there = read_text_file(path);
  if (absl::IsNotFound(there.status())) there = "";
  LATHE_RETURN_IF_ERROR(there.status());
  const absl::StatusOr<std::string> changed = change(*there);
  if (!changed.ok())
    return absl::InvalidArgumentError(absl::StrCat(path, ": not changed: ", changed.status().message()));
  return replace_text_file(path, *changed, Durability::kSynced);
}

}  // namespace lathe
