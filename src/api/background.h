// Kernels that are compiled behind the callers' backs: one queue and one thread a context, started by the
// first job.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "api/dispatch_table.h"
#include "base/log.h"

struct lathe_device;

namespace lathe {

// What became of a job that was handed in.
enum class Submitted {
  kNew,     // it waits
  kBefore,  // it waits, is under way, done or failed already: what failed once on a device is not tried again
            // there
  kRefused,  // the queue is full: the next miss asks again
};

// Thread-safe. Of what waits the class that was asked for most often is made first, of equals the oldest. The
// thread runs at the lowest priority and takes no signal; what it prepares goes into its device's dispatch
// table, whose readers take no lock.
class BackgroundCompiler {
 public:
  BackgroundCompiler(const Logger& logger, size_t most_waiting)
      : logger_(logger), most_waiting_(most_waiting) {}
  // Drops what waits and lets the job under way end. No device may be left that could submit.
  ~BackgroundCompiler();

  Submitted submit(lathe_device& device, const DispatchKey& key);
  size_t waiting() const;
  // Drops the device's jobs and waits for the one under way: afterwards nothing refers to it.
  void forget(const lathe_device& device);

 private:
  struct Job {
    lathe_device* device;
    DispatchKey key;
    bool operator==(const Job& o) const { return device == o.device && key == o.key; }
  };
  struct JobHash {
    size_t operator()(const Job& j) const { return hash_of(j.key) ^ reinterpret_cast<uintptr_t>(j.device); }
  };

  struct Wait {
    uint64_t asked = 1;  // times
    uint64_t order = 0;  // of arrival
  };

  // In a child of the process that started the thread there is no thread, and what it had locked stays
  // locked.
  bool is_of_parent() const;
  bool start();     // under mutex_
  Job take_next();  // under mutex_; something waits
  void work() noexcept;
  void prepare(const Job& job) noexcept;

  const Logger& logger_;
  const size_t most_waiting_;
  std::atomic<pid_t> pid_{0};  // of the process that started the thread; 0: none is started
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<Job, Wait, JobHash> waiting_;  // under mutex_, as all that follows
  uint64_t arrivals_ = 0;
  std::unordered_set<Job, JobHash> submitted_;  // ever, of devices that are open
  const lathe_device* busy_ = nullptr;          // of the job under way
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace lathe
