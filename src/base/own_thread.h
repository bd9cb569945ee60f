// A thread of the library's own: it takes no signal, sleeps until there is work or the end, and is survived
// by a fork.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace lathe {

// In a child of the process that started the thread there is no thread, and what it had locked stays locked:
// whoever uses `mutex` asks is_of_parent() first.
class OwnThread {
 public:
  OwnThread() = default;
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  // Ends it. In a child of a fork nothing is waited for.
  ~OwnThread() { end(); }

  // Once; what comes after the first that succeeded does nothing. False: there is no thread to be had. Not
  // thread-safe.
  bool start(const std::function<void()>& work);
  bool is_of_parent() const;
  // Sets `stops`, wakes the thread and waits for its end.
  void end();

  mutable std::mutex mutex;
  std::condition_variable changed;  // `stops`, or what the owner guards with the mutex
  bool stops = false;               // under mutex

 private:
  std::atomic<pid_t> pid_{0};  // of the process that started it; 0: none has tried to
  std::thread thread_;
};

}  // namespace lathe
