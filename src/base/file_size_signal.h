// Writes that go on past a file size limit without ending the process.
#pragma once

#include <signal.h>

namespace lathe {

// A write beyond RLIMIT_FSIZE raises SIGXFSZ, which would end the host's process. Held back for this thread,
// the write fails with EFBIG instead and the signal is taken off the thread again. errno stays the write's.
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
