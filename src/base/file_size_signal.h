// Lets a write past the file size limit fail instead of ending the process.
#pragma once

#include <signal.h>

namespace lathe {

// A write beyond RLIMIT_FSIZE raises SIGXFSZ, which by default ends the host's process. While this object
// lives, the signal is blocked for this thread, so the write fails with EFBIG instead. The destructor
// discards a pending SIGXFSZ, restores the signal mask and keeps errno.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld();
  ~FileSizeSignalHeld();
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;

 private:
  sigset_t signal_, before_;
};

}  // namespace lathe
