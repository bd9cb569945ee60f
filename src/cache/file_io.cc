#include "cache/file_io.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_size_signal.h"
#include "base/standard_streams.h"
#include "base/status.h"

namespace lathe {
namespace {

// A profiler's signals may interrupt a call many times, but a file system that always returns EINTR must not
// hang the caller.
constexpr int kMostInterruptions = 1000;

template <typename Call>
auto repeated(Call&& call) {
  for (int attempt = 1;; ++attempt) {
    const auto result = call();
    if (result >= 0 || errno != EINTR || attempt == kMostInterruptions) return result;
  }
}

// Calls read(destination, bytes wanted, bytes done) until `bytes` is full.
template <typename Read>
absl::Status fill(std::string* bytes, Read&& read) {
  for (size_t done = 0; done < bytes->size();) {
    const ssize_t got = repeated([&] { return read(&(*bytes)[done], bytes->size() - done, done); });
    if (got < 0 && errno == ESTALE) return absl::NotFoundError("another machine removed it");
    if (got < 0) return errno_status(errno, "read");
    if (got == 0) return absl::DataLossError("it ends early");
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& o) noexcept {
  std::swap(fd_, o.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor open_file(int directory, const std::string& name, int flags, mode_t mode) {
  return FileDescriptor(beyond_standard_streams(
      repeated([&] { return openat(directory, name.c_str(), flags | O_NONBLOCK | O_CLOEXEC, mode); })));
}

absl::Status read_whole(int file, std::string* bytes) {
  return fill(bytes, [&](char* into, size_t size, size_t) { return read(file, into, size); });
}

absl::Status read_at(int file, uint64_t at, std::string* bytes) {
  return fill(bytes, [&](char* into, size_t size, size_t done) {
    return pread(file, into, size, static_cast<off_t>(at + done));
  });
}

absl::Status write_whole(int file, absl::string_view bytes) {
  const FileSizeSignalHeld held;
  while (!bytes.empty()) {
    const ssize_t put = repeated([&] { return write(file, bytes.data(), bytes.size()); });
    if (put < 0) return errno_status(errno, "write");
    if (put == 0)
      return errno_status(ENOSPC, "write");  // how some file systems report a full disk; retrying would loop
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status sync_file(int file) {
  if (repeated([&] { return fsync(file); }) == 0) return absl::OkStatus();
  return errno_status(errno, "fsync");
}

absl::Status flush_file(int file) {
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) return errno_status(errno, "dup");
  return close(copy) == 0 ? absl::OkStatus() : errno_status(errno, "close");
}

bool lock_file(int file, int operation) {
  return repeated([&] { return flock(file, operation); }) == 0;
}

}  // namespace lathe
