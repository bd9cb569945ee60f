#include "cache/key_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace lathe {

KeyLock KeyLock::acquire(int directory, const std::string& name, double timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  FileDescriptor file(openat(directory, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                             S_IRUSR | S_IWUSR));
  FileDescriptor own_directory(fcntl(directory, F_DUPFD_CLOEXEC, 0));
  if (!file.valid() || !own_directory.valid()) return KeyLock();
  // A blocking flock has no timeout without signals, so poll: soon at first, then at most every 10 ms, little
  // beside a compile.
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  auto pause = std::chrono::microseconds(500);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() >= deadline) return KeyLock();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
  return KeyLock(std::move(own_directory), std::move(file), name);
}

KeyLock::~KeyLock() {
  if (!file_.valid()) return;
  // A waiter that then locks the removed file finds the entry, or at worst compiles beside a newcomer.
  unlinkat(directory_.get(), name_.c_str(), 0);
  // Explicitly: a child forked meanwhile shares the open file, and closing ours alone would leave it locked.
  flock(file_.get(), LOCK_UN);
}

}  // namespace lathe
