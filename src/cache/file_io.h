// Files as the store uses them: calls that a signal interrupts are repeated (not for ever), counts that fall
// short are continued, and nothing here ends the process.
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
  // It is the caller's from now on.
  int release() { return std::exchange(fd_, -1); }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// openat with O_CLOEXEC and O_NONBLOCK (opening a FIFO must not wait). Not valid: errno says why. `directory`
// may be AT_FDCWD.
FileDescriptor open_file(int directory, const std::string& name, int flags, mode_t mode = 0);

// Fills `bytes` from the file's position, or from `at`. kDataLoss: the file ends before.
// kNotFound: it is no longer there (ESTALE).
absl::Status read_whole(int file, std::string* bytes);
absl::Status read_at(int file, uint64_t at, std::string* bytes);
// Everything, past a file size limit included: that is an error (EFBIG) and no signal.
absl::Status write_whole(int file, absl::string_view bytes);
absl::Status sync_file(int file);
// Reports the errors of a close: a network file system may buffer writes and fail only then.
absl::Status flush_file(int file);
// flock; false with errno.
bool lock_file(int file, int operation);

}  // namespace lathe
