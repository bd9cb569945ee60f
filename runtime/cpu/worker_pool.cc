#include "runtime/cpu/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <exception>
#include <utility>

#include "base/execution_environment.h"
#include "base/signals_blocked.h"
#include "runtime/cpu/caller_avoidance.h"

namespace lathe {
namespace {

constexpr int kCountBits = 40;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr int64_t kSpinNanoseconds = 50000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace

WorkerPool::WorkerPool(int32_t workers, int32_t processors)
    : workers_(workers), spin_nanoseconds_(workers <= processors ? kSpinNanoseconds : 0) {}

WorkerPool::~WorkerPool() {
  if (process_ != 0 && process_ != getpid()) {
    // The threads exist only in the parent. Here they can neither be joined nor detached, so leak them.
    new std::vector<std::thread>(std::move(threads_));
    return;
  }
  stopping_.store(true);
  wake_.fetch_add(1);
  futex_wake(wake_, INT_MAX);
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::start_threads() {
  started_ = true;
  process_ = getpid();
  const SignalsBlocked blocked;
  try {
    threads_.reserve(workers_ - 1);
    for (int32_t worker = 1; worker < workers_; ++worker)
      threads_.emplace_back([this, worker] { worker_main(worker); });
  } catch (const std::exception&) {
    // The system grants no more threads. The caller and the threads that did start do the work.
  }
}

void WorkerPool::run(const TaskSet& tasks) {
  if (!started_) start_threads();
  step_.task.store(tasks.task, std::memory_order_relaxed);
  step_.args.store(tasks.args, std::memory_order_relaxed);
  step_.count.store(tasks.count, std::memory_order_relaxed);
  step_.scratch.store(tasks.scratch, std::memory_order_relaxed);
  step_.scratch_stride.store(tasks.scratch_stride, std::memory_order_relaxed);
  if (spin_nanoseconds_ > 0) step_.processor.store(sched_getcpu(), std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t number = (unclaimed_.load(std::memory_order_relaxed) >> kCountBits) + 1;
  // Sequentially consistent, like the steps of a worker that goes to sleep in wait_for_work: either it sees
  // these tasks or we see the sleeper.
  unclaimed_.store(number << kCountBits | static_cast<uint64_t>(tasks.count), std::memory_order_seq_cst);
  if (const int32_t sleepers = sleepers_.load(std::memory_order_seq_cst); sleepers > 0) {
    wake_.fetch_add(1, std::memory_order_relaxed);
    futex_wake(wake_, tasks.count - 1 < sleepers ? static_cast<int>(tasks.count - 1) : sleepers);
  }

  const int64_t mine = claim_and_run(0);
  if (mine > 0) finished_.fetch_add(mine, std::memory_order_acq_rel);
  // The others still run their last tasks. Yield after a while, in case threads outnumber processors.
  for (int spins = 0; finished_.load(std::memory_order_acquire) < tasks.count; ++spins) {
    if (spins < 1000) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

int64_t WorkerPool::claim_and_run(int32_t worker) {
  int64_t done = 0;
  ArgumentBlock args;
  uint64_t word = unclaimed_.load(std::memory_order_acquire);
  while ((word & kCountMask) != 0) {
    const CpuTask task = step_.task.load(std::memory_order_relaxed);
    const ArgumentBlock* source = step_.args.load(std::memory_order_relaxed);
    const int64_t count = step_.count.load(std::memory_order_relaxed);
    char* scratch = step_.scratch.load(std::memory_order_relaxed);
    const size_t stride = step_.scratch_stride.load(std::memory_order_relaxed);
    // If the swap succeeds, the step is the one read above, and its fields stay until the claimed task
    // returns.
    if (!unclaimed_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    if (done ==
        0) {  // the next step cannot start before `done` is reported, so later claims are of this step
      args = *source;
      args.scratch = scratch + worker * stride;
    }
    task(&args, count - static_cast<int64_t>(word & kCountMask));
    ++done;
    word = unclaimed_.load(std::memory_order_acquire);
  }
  return done;
}

bool WorkerPool::wait_for_work() {
  const auto has_work = [this](std::memory_order order) {
    return (unclaimed_.load(order) & kCountMask) != 0;
  };
  if (spin_nanoseconds_ > 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(spin_nanoseconds_);
    do {
      for (int i = 0; i < 64; ++i) {
        if (has_work(std::memory_order_relaxed)) return true;
        pause_briefly();
      }
    } while (std::chrono::steady_clock::now() < deadline && !stopping_.load(std::memory_order_relaxed));
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool work;
  while (true) {
    const uint32_t seen = wake_.load(std::memory_order_acquire);
    work = has_work(std::memory_order_seq_cst);
    if (work || stopping_.load()) break;
    futex_wait(wake_, seen);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return work;
}

void WorkerPool::worker_main(int32_t worker) {
  pthread_setname_np(pthread_self(), "lathe-worker");
  ExecutionEnvironment::enter_for_good();
  CallerAvoidance avoidance;
  while (wait_for_work()) {
    avoidance.leave(step_.processor.load(std::memory_order_relaxed));
    const int64_t done = claim_and_run(worker);
    if (done > 0) finished_.fetch_add(done, std::memory_order_acq_rel);
  }
}

}  // namespace lathe
