// A lock file with a timeout, so that one process of a machine compiles a key and the others wait for the
// entry. It is only an optimisation: a process that does not get the lock goes on without it.
#pragma once

#include <string>

#include "cache/private_directory.h"

namespace lathe {

class KeyLock {
 public:
  // Waits up to `timeout_seconds` for the lock file `name` in `directory`. After the timeout, or if the file
  // system has no locks, the result holds no lock.
  static KeyLock acquire(int directory, const std::string& name, double timeout_seconds);
  KeyLock() = default;
  KeyLock(KeyLock&&) = default;
  KeyLock& operator=(KeyLock&&) = delete;
  // Releases and removes the lock file.
  ~KeyLock();

  bool held() const { return file_.valid(); }

 private:
  KeyLock(FileDescriptor directory, FileDescriptor file, std::string name)
      : directory_(std::move(directory)), file_(std::move(file)), name_(std::move(name)) {}

  FileDescriptor directory_, file_;
  std::string name_;
};

}  // namespace lathe
