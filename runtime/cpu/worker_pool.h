// The driver's own threads, and how they share the tasks of a step.
//
// - The caller is worker 0 and works, too. The other threads start at the first parallel step.
//
// - Each worker has a share of the tasks: neighbours, and the same ones when a step is repeated, so that its caches
// still hold their operands. A worker claims several tasks of its share at a time, at the end single ones. Then it
// claims tasks of other shares, from their ends. So a slow worker costs at most its last claim, and a worker that is
// still asleep when the last task is claimed is not waited for.
//
// - After a step a worker spins for 50 microseconds, longer than the usual gap between two ops of an
// inference step, then sleeps. If there are more workers than processors, it sleeps at once.
//
// - One step at a time uses the pool. A caller that finds it in use runs its tasks on its own thread and does
// not wait: with many host threads, parallelism between them replaces parallelism within a step.
//
// - Threads are not pinned, but a worker on its caller's processor moves to another one (caller_avoidance.h),
// unless workers outnumber processors.
//
// - The threads block all signals. The child of a fork has no workers; its callers run all tasks themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/args.h"

namespace lathe {

// The tasks [0, count) of a step, and its scratch memory: worker w's starts at scratch + w * scratch_stride.
struct TaskSet {
  CpuTask task = nullptr;
  const ArgumentBlock* args = nullptr;  // each worker copies it and sets `scratch`
  int64_t count = 0;
  char* scratch = nullptr;
  size_t scratch_stride = 0;
};

class WorkerPool {
 public:
  static constexpr int64_t kMaxTasks = (int64_t{1} << 40) - 1;  // of one step

  // `workers` includes the caller; `processors` is how many this process may run on. Starts no threads yet.
  WorkerPool(int32_t workers, int32_t processors);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Claims the pool for a launch, until leave(). False if another thread has it.
  bool try_enter() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  // Runs every task once and returns when all have returned. Call between try_enter and leave, with at most
  // kMaxTasks tasks.
  void run(const TaskSet& tasks);

 private:
  // The step in progress. Its fields are atomic because a late worker may read them while the next step is
  // written; it then finds another number and drops what it read.
  struct alignas(64) Step {
    std::atomic<uint32_t> number{0};  // 1 to kLastStep, then 1 again; 0 while the fields are written
    std::atomic<int> processor{-1};   // the caller's; -1: workers need not avoid it
    std::atomic<CpuTask> task{nullptr};
    std::atomic<const ArgumentBlock*> args{nullptr};
    std::atomic<int64_t> count{0};
    std::atomic<char*> scratch{nullptr};
    std::atomic<size_t> scratch_stride{0};
  };
  // What is left of a worker's share: the number of the step (24 bits), the first unit and the end (20 bits each),
  // counted from the share's first unit. If the number is another one, all of the share is left. A claim is a
  // compare-and-swap of the word, so it fails if the step is over. (To confuse two steps, a worker would have to pause
  // for exactly kLastStep steps between its read and its swap.)
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };
  // How the tasks of a step are divided: into units of one task, or of several if there are very many.
  struct Division;
  struct Claim {
    int64_t first, end;  // tasks
  };

  void start_threads();
  void worker_main(int32_t worker);
  void claim_and_run(int32_t worker, uint32_t number);
  Claim claim(int32_t owner, bool is_own, uint32_t number, const Division& division);
  uint32_t wait_for_work(uint32_t last);

  const int32_t workers_;
  const int64_t spin_nanoseconds_;
  bool started_ = false;  // guarded by try_enter
  int32_t process_ = 0;   // the process that started the threads
  std::vector<std::thread> threads_;

  alignas(64) std::atomic<bool> taken_{false};
  Step step_;
  std::vector<Share> shares_;                     // of each worker
  alignas(64) std::atomic<int64_t> finished_{0};  // tasks of the step that have returned
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<uint32_t> wake_{0};  // the futex; changes when sleepers must look again
  std::atomic<bool> stopping_{false};
};

}  // namespace lathe
