#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lathe {

int beyond_standard_streams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

StandardStreamsFilled::StandardStreamsFilled() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);  // open returns the lowest free number
    if (fd >= 0) opened_[count_++] = fd;
  }
}

StandardStreamsFilled::~StandardStreamsFilled() {
  const int error = errno;
  while (count_ > 0) close(opened_[--count_]);
  errno = error;
}

}  // namespace lathe
