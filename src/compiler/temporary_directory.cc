#include "compiler/temporary_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file_size_signal.h"
#include "base/standard_streams.h"
#include "base/status.h"

namespace lathe {

TemporaryDirectory::TemporaryDirectory(const std::vector<std::string>& parents) {
  std::string causes;
  for (const std::string& parent : parents) {
    path_ = absl::StrCat(parent, "/lathe-XXXXXX");
    if (mkdtemp(path_.data()) != nullptr) return;
    absl::StrAppend(&causes, causes.empty() ? "" : "; ", parent, ": ", errno_status(errno, "").message());
  }
  status_ = absl::NotFoundError(absl::StrCat("cannot create a temporary directory (", causes, ")"));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!status_.ok()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::file(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

absl::Status write_file(const std::string& path, absl::string_view bytes) {
  const int fd = beyond_standard_streams(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd < 0) return absl::InternalError(absl::StrCat(path, " cannot be created"));
  const FileSizeSignalHeld held;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (close(fd) == 0 && bytes.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, " cannot be written completely"));
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  const int fd = beyond_standard_streams(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd < 0) return absl::NotFoundError(absl::StrCat(path, " cannot be opened"));
  std::string bytes;
  char buffer[65536];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
  close(fd);
  if (n < 0) return absl::InternalError(absl::StrCat(path, " cannot be read"));
  return bytes;
}

}  // namespace lathe
