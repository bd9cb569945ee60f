#include "cache/key_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "cache/store_files.h"

namespace lathe {

KeyLock KeyLock::acquire(int directory, const std::string& name, double timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  FileDescriptor own_directory(fcntl(directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!own_directory.valid()) return KeyLock();
  // A blocking flock has no timeout without signals, so poll: soon at first, later every 10 ms. A
  // compile takes longer than that.
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  auto pause = std::chrono::microseconds(500);
  FileDescriptor file;
  for (;;) {
    if (!file.valid()) file = open_file(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (!file.valid()) return KeyLock();
    if (lock_file(file.get(), LOCK_EX | LOCK_NB)) {
      // The last holder removes the file, and a lock on a removed file excludes nobody.
      if (is_of_name(directory, name, file.get()))
        return KeyLock(std::move(own_directory), std::move(file), name);
      file = FileDescriptor();
    } else if (errno != EWOULDBLOCK) {
      return KeyLock();
    }
    if (Clock::now() >= deadline) return KeyLock();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
}

KeyLock::~KeyLock() {
  if (!file_.valid()) return;
  // A waiter that locks the removed file notices that and creates a new one.
  if (is_of_name(directory_.get(), name_, file_.get())) unlinkat(directory_.get(), name_.c_str(), 0);
  // Unlock explicitly: a child forked meanwhile shares the open file, so closing it here would not unlock it.
  flock(file_.get(), LOCK_UN);
}

}  // namespace lathe
