// Compiles kernels in the background. Each context has one queue and one thread per process; the first job
// starts the thread.
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

// The result of submit().
enum class Submitted {
  kNew,      // the job is queued
  kBefore,   // it was submitted before: it waits, runs, is done or failed; a failed job is not tried again
  kRefused,  // the queue is full; the next miss submits it again
};

// kPrepare: prepare the class's kernel for the device's dispatch table. kRefresh: compile the oracle's choice into
// the stores, while the kernel of an outdated plan record serves the class (refresh_class).
enum class JobKind { kPrepare, kRefresh };

// Thread-safe. The job that was submitted most often runs first; among equals, the oldest. The thread has the
// lowest nice priority, compiles at SCHED_IDLE, blocks all signals, and runs on the processors that the thread
// that made this object may use. A child of a fork starts with an empty queue.
class BackgroundCompiler {
 public:
  BackgroundCompiler(const Logger& logger, size_t most_waiting);
  // The destructor drops waiting jobs and lets the running one end. All devices must be closed before.

  Submitted submit(lathe_device& device, const DispatchKey& key, JobKind kind = JobKind::kPrepare);
  size_t waiting() const;
  // Drops the device's waiting jobs and waits for its running one. Afterwards nothing refers to the device.
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
    uint64_t asked = 1;  // how often the job was submitted
    uint64_t order = 0;  // in which jobs arrived
  };

  // One per process. The thread's mutex guards all fields.
  struct Queue {
    std::unordered_map<Job, Wait, JobHash> waiting;
    uint64_t arrivals = 0;
    std::unordered_set<Job, JobHash> submitted;  // all jobs of the open devices, finished ones included
    const lathe_device* busy = nullptr;          // the device of the running job
    OwnThread thread;                            // declared last, so that it ends before what it uses
  };

  static Job take_next(Queue& queue);  // under the thread's mutex; a job must be waiting
  void work(Queue& queue) noexcept;
  void run(const Job& job) noexcept;
  void prepare_or_refresh(const Job& job);

  const Logger& logger_;
  const size_t most_waiting_;
  cpu_set_t processors_;  // empty: unknown
  mutable PerProcess<Queue> queue_;
};

}  // namespace lathe
