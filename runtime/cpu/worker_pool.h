// The driver's own threads, and how a step's tasks reach them.
//
// Policy:
//  - The caller is worker 0 and works too. The other workers' threads start at the first parallel step, not
//  before.
//  - Workers claim tasks one by one from a shared counter, so a slow or late worker costs no more than its
//  last task. A
//    worker that is asleep when the last task is claimed is not waited for.
//  - After a step a worker spins for 50 microseconds (the gap between two ops of an inference step is
//  shorter), then
//    sleeps until the next one. With more workers than processors it sleeps at once.
//  - One step at a time has the pool. A caller that finds it taken runs its own tasks itself, on its own
//  thread, and
//    does not wait: with many host threads, parallelism between them replaces parallelism within a step.
//  - Threads are not pinned, but a worker that finds itself on its caller's processor moves to another
//  (caller_avoidance.h), unless workers outnumber processors.
//  - They block all signals. A child made by fork has no workers; its callers run everything themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/args.h"

namespace lathe {

// The tasks [0, count) of a step, and the private memory of its workers: worker w's is scratch + w *
// scratch_stride.
struct TaskSet {
  CpuTask task = nullptr;
  const ArgumentBlock* args = nullptr;  // every worker fills `scratch` in a copy of its own
  int64_t count = 0;
  char* scratch = nullptr;
  size_t scratch_stride = 0;
};

class WorkerPool {
 public:
  static constexpr int64_t kMaxTasks = (int64_t{1} << 40) - 1;  // of one step

  // `workers` counts the caller; `processors` are those this process may run on. Nothing is started yet.
  WorkerPool(int32_t workers, int32_t processors);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Claims the pool for a launch, until leave. False if another thread has it.
  bool try_enter() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  // Between try_enter and leave: runs every task once and returns when all have returned. At most kMaxTasks.
  void run(const TaskSet& tasks);

 private:
  // The step in progress. Its fields are atomic because a late worker may read them while the next step is
  // written; it then fails to claim and drops what it read.
  struct Step {
    std::atomic<CpuTask> task{nullptr};
    std::atomic<const ArgumentBlock*> args{nullptr};
    std::atomic<int64_t> count{0};
    std::atomic<char*> scratch{nullptr};
    std::atomic<size_t> scratch_stride{0};
    std::atomic<int> processor{-1};  // where its caller runs; -1: not to be avoided
  };

  void start_threads();
  void worker_main(int32_t worker);
  int64_t claim_and_run(int32_t worker);
  bool wait_for_work();

  const int32_t workers_;
  const int64_t spin_nanoseconds_;
  bool started_ = false;  // guarded by try_enter
  int32_t process_ = 0;   // that started the threads
  std::vector<std::thread> threads_;

  alignas(64) std::atomic<bool> taken_{false};
  Step step_;
  // Number of the step (upper 24 bits) and tasks not claimed yet (lower 40). A claim is a compare-and-swap of
  // the whole word, so a worker can only claim from the step whose fields it has read. (Mistaking one step
  // for another takes a worker that stops between its read and its swap for exactly 2^24 steps.)
  alignas(64) std::atomic<uint64_t> unclaimed_{0};
  alignas(64) std::atomic<int64_t> finished_{0};  // tasks of the step that have returned
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<uint32_t> wake_{0};  // the futex: changes when sleepers must look again
  std::atomic<bool> stopping_{false};
};

}  // namespace lathe
