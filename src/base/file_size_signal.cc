#include "base/file_size_signal.h"

#include <pthread.h>

#include <cerrno>
#include <ctime>

namespace lathe {

FileSizeSignalHeld::FileSizeSignalHeld() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signal_, &before_);
}

FileSizeSignalHeld::~FileSizeSignalHeld() {
  const int error = errno;
  const timespec no_wait = {0, 0};
  if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&signal_, nullptr, &no_wait);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace lathe
