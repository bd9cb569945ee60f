// File operations of the store. Interrupted calls are repeated (a limited number of times), short reads and
// writes are continued, and no signal ends the process.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lathe {

// Owns an open file.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& o) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  // Gives up ownership.
  int release() { return std::exchange(fd_, -1); }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// openat with O_CLOEXEC and O_NONBLOCK (opening a FIFO must not block). If the result is not valid, errno has
// the reason. `directory` may be AT_FDCWD.
FileDescriptor open_file(int directory, const std::string& name, int flags, mode_t mode = 0);

// Fill `bytes` from the file's position, or from offset `at`. kDataLoss: the file ends early. kNotFound: the
// file no longer exists (ESTALE).
absl::Status read_whole(int file, std::string* bytes);
absl::Status read_at(int file, uint64_t at, std::string* bytes);
// Writes all bytes. A write past the file size limit is an error (EFBIG), not a signal.
absl::Status write_whole(int file, absl::string_view bytes);
absl::Status sync_file(int file);
// Reports errors that a network file system, which buffers writes, returns only when a file is closed.
absl::Status flush_file(int file);
// flock. Returns false if it fails; errno has the reason.
bool lock_file(int file, int operation);

}  // namespace lathe
