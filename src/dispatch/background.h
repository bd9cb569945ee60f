// Kernels that are compiled behind the callers' backs: one queue and one thread a context and process,
// started by the first job.
#pragma once

#include <sched.h>

#include <unordered_map>
#include <unordered_set>

#include "base/log.h"
#include "base/own_thread.h"
#include "base/per_process.h"
#include "dispatch/dispatch_table.h"

struct lathe_device;

namespace lathe {

// What became of a job that was handed in.
enum class Submitted {
  kNew,     // it waits
  kBefore,  // it waits, is under way, done or failed already: what failed once on a device is not tried again
            // there
  kRefused,  // the queue is full: the next miss asks again
};

// kPrepare: the class' kernel into the device's dispatch table. kRefresh: the oracle's choice into the
// stores, where an outdated record's kernel serves the class (refresh_class).
enum class JobKind { kPrepare, kRefresh };

// Thread-safe. Of what waits the class that was asked for most often is made first, of equals the oldest. The
// thread is niced, compiles at SCHED_IDLE, takes no signal and runs on the processors of the thread that made
// this, not of the one that missed first; what it prepares goes into its device's dispatch table, whose
// readers take no lock. A child of a fork begins with an empty queue: what waits is its parent's.
class BackgroundCompiler {
 public:
  BackgroundCompiler(const Logger& logger, size_t most_waiting);
  // Its end drops what waits and lets the job under way end. No device may be left that could submit.

  Submitted submit(lathe_device& device, const DispatchKey& key, JobKind kind = JobKind::kPrepare);
  size_t waiting() const;
  // Drops the device's jobs and waits for the one under way: afterwards nothing refers to it.
  void forget(const lathe_device& device);

 private:
  struct Job {
    lathe_device* device;
    DispatchKey key;
    JobKind kind;
    bool operator==(const Job& o) const { return device == o.device && key == o.key && kind == o.kind; }
  };
  struct JobHash {
    size_t operator()(const Job& j) const {
      return hash_of(j.key) ^ reinterpret_cast<uintptr_t>(j.device) ^ static_cast<size_t>(j.kind);
    }
  };

  struct Wait {
    uint64_t asked = 1;  // times
    uint64_t order = 0;  // of arrival
  };

  // Of one process.
  struct Queue {
    std::unordered_map<Job, Wait, JobHash> waiting;  // under the thread's mutex, as all that follows
    uint64_t arrivals = 0;
    std::unordered_set<Job, JobHash> submitted;  // ever, of devices that are open
    const lathe_device* busy = nullptr;          // of the job under way
    OwnThread thread;                            // last: it ends before what it uses
  };

  static Job take_next(Queue& queue);  // under the thread's mutex; something waits
  void work(Queue& queue) noexcept;
  void run(const Job& job) noexcept;
  void prepare_or_refresh(const Job& job);

  const Logger& logger_;
  const size_t most_waiting_;
  cpu_set_t processors_;  // none: not known
  mutable PerProcess<Queue> queue_;
};

}  // namespace lathe
