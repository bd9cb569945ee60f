// One of Lathe's own background threads. It takes no signals, and the process may fork while it runs.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace lathe {

// In a child of fork() the thread does not exist, and `mutex` may stay locked for ever. Call is_of_parent()
// before you lock `mutex`.
class OwnThread {
 public:
  OwnThread() = default;
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  // Ends the thread. In a child of fork() it waits for nothing.
  ~OwnThread() { end(); }

  // Starts the thread; does nothing if it has already started. False: no thread can be started now. Not
  // thread-safe.
  bool start(const std::function<void()>& work);
  bool is_of_parent() const;
  // Sets `stops`, wakes the thread and waits for its end.
  void end();

  mutable std::mutex mutex;
  std::condition_variable changed;  // signals a change of `stops` or of the owner's data
  bool stops = false;               // under mutex

 private:
  std::atomic<pid_t> pid_{0};  // of the process that called start(); 0: not called yet
  std::thread thread_;
};

}  // namespace lathe
