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

bool beyond_standard_streams(int (&ends)[2]) {
  for (int& end : ends) end = beyond_standard_streams(end);
  if (ends[0] >= 0 && ends[1] >= 0) return true;
  const int error = errno;
  for (int& end : ends) {
    if (end >= 0) close(end);
    end = -1;
  }
  errno = error;
  return false;
}

}  // namespace lathe
