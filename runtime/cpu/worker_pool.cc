#include "runtime/cpu/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <exception>
#include <optional>
#include <utility>

#include "base/execution_environment.h"
#include "base/signals_blocked.h"
#include "runtime/cpu/caller_avoidance.h"

namespace lathe {
namespace {

constexpr int kUnitBits = 20;
constexpr uint64_t kUnitMask = (uint64_t{1} << kUnitBits) - 1;
constexpr uint32_t kLastStep = (uint32_t{1} << (64 - 2 * kUnitBits)) - 1;
constexpr int64_t kSpinNanoseconds = 50000;
// A claim takes this part of what is left of a share, so that claims of short tasks cost little.
constexpr int64_t kClaimedPart = 8;

uint64_t share_word(uint32_t number, int64_t begin, int64_t end) {
  return uint64_t{number} << 2 * kUnitBits | static_cast<uint64_t>(begin) << kUnitBits |
         static_cast<uint64_t>(end);
}

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

struct WorkerPool::Division {
  int64_t count, workers;
  int64_t unit = (count - 1) / workers / static_cast<int64_t>(kUnitMask) + 1;
  int64_t units = (count + unit - 1) / unit;

  // The first unit of a worker's share. The first shares have one unit more than the others.
  int64_t begin(int32_t worker) const {
    return units / workers * worker + std::min<int64_t>(worker, units % workers);
  }
  int64_t size(int32_t worker) const { return begin(worker + 1) - begin(worker); }
  Claim tasks(int32_t worker, int64_t first, int64_t end) const {
    const int64_t from = begin(worker);
    return {(from + first) * unit, std::min(count, (from + end) * unit)};
  }
};

WorkerPool::WorkerPool(int32_t workers, int32_t processors)
    : workers_(workers),
      spin_nanoseconds_(workers <= processors ? kSpinNanoseconds : 0),
      shares_(static_cast<size_t>(workers)) {}

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
  const bool wraps = step_.number.load(std::memory_order_relaxed) == kLastStep;
  const uint32_t number = wraps ? 1 : step_.number.load(std::memory_order_relaxed) + 1;
  step_.number.store(0, std::memory_order_relaxed);
  // A worker that reads one of these stores sees that the number has changed.
  step_.task.store(tasks.task, std::memory_order_release);
  step_.args.store(tasks.args, std::memory_order_release);
  step_.count.store(tasks.count, std::memory_order_release);
  step_.scratch.store(tasks.scratch, std::memory_order_release);
  step_.scratch_stride.store(tasks.scratch_stride, std::memory_order_release);
  if (spin_nanoseconds_ > 0) step_.processor.store(sched_getcpu(), std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  // A share that no step has used for long could have a word of the last step with this number.
  if (wraps)
    for (Share& share : shares_) share.word.store(0, std::memory_order_relaxed);
  // Sequentially consistent, like the steps of a worker that goes to sleep in wait_for_work: either it sees
  // these tasks or we see the sleeper.
  step_.number.store(number, std::memory_order_seq_cst);
  if (const int32_t sleepers = sleepers_.load(std::memory_order_seq_cst); sleepers > 0) {
    wake_.fetch_add(1, std::memory_order_relaxed);
    futex_wake(wake_, tasks.count - 1 < sleepers ? static_cast<int>(tasks.count - 1) : sleepers);
  }

  claim_and_run(0, number);
  // The others still run their last tasks. Yield after a while, in case threads outnumber processors.
  for (int spins = 0; finished_.load(std::memory_order_acquire) < tasks.count; ++spins) {
    if (spins < 1000) {
      pause_briefly();
    } else {
      std::this_thread::yield();
    }
  }
}

// Claims tasks of the owner's share: the first ones that are left for the owner, the last ones for others. None if all
// are claimed or the step is over.
WorkerPool::Claim WorkerPool::claim(int32_t owner, bool is_own, uint32_t number, const Division& division) {
  std::atomic<uint64_t>& share = shares_[static_cast<size_t>(owner)].word;
  uint64_t word = share.load(std::memory_order_acquire);
  while (true) {
    // The word may be of a later step. If it is not, the share of this step keeps this word until the swap.
    if (step_.number.load(std::memory_order_acquire) != number) return {0, 0};
    const bool is_touched = word >> 2 * kUnitBits == number;
    const int64_t begin = is_touched ? static_cast<int64_t>(word >> kUnitBits & kUnitMask) : 0;
    const int64_t end = is_touched ? static_cast<int64_t>(word & kUnitMask) : division.size(owner);
    if (begin == end) return {0, 0};
    const int64_t units = std::max<int64_t>(1, (end - begin) / kClaimedPart);
    const uint64_t left =
        is_own ? share_word(number, begin + units, end) : share_word(number, begin, end - units);
    if (share.compare_exchange_weak(word, left, std::memory_order_acq_rel, std::memory_order_acquire))
      return is_own ? division.tasks(owner, begin, begin + units) : division.tasks(owner, end - units, end);
  }
}

void WorkerPool::claim_and_run(int32_t worker, uint32_t number) {
  const CpuTask task = step_.task.load(std::memory_order_acquire);
  const ArgumentBlock* source = step_.args.load(std::memory_order_acquire);
  const Division division{step_.count.load(std::memory_order_acquire), workers_};
  char* scratch = step_.scratch.load(std::memory_order_acquire);
  const size_t stride = step_.scratch_stride.load(std::memory_order_acquire);
  if (step_.number.load(std::memory_order_acquire) != number) return;  // the fields may be another step's
  std::optional<ArgumentBlock> args;
  for (int32_t i = 0; i < workers_; ++i) {
    const int32_t owner = worker + i < workers_ ? worker + i : worker + i - workers_;
    int64_t done = 0;
    while (true) {
      const Claim claimed = claim(owner, i == 0, number, division);
      if (claimed.first == claimed.end) break;
      if (!args) {  // `source` is valid until the claimed tasks are reported
        args = *source;
        args->scratch = scratch + worker * stride;
      }
      for (int64_t index = claimed.first; index < claimed.end; ++index) task(&*args, index);
      done += claimed.end - claimed.first;
    }
    // Reported before looking at other shares, because the caller may wait for these tasks alone.
    if (done > 0) finished_.fetch_add(done, std::memory_order_acq_rel);
  }
}

// Waits for a step with another number than `last`, and returns its number; 0 if the pool is stopping.
uint32_t WorkerPool::wait_for_work(uint32_t last) {
  const auto new_step = [this, last](std::memory_order order) {
    const uint32_t number = step_.number.load(order);
    return number != last ? number : 0;
  };
  if (spin_nanoseconds_ > 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(spin_nanoseconds_);
    do {
      for (int i = 0; i < 64; ++i) {
        if (const uint32_t number = new_step(std::memory_order_acquire); number != 0) return number;
        pause_briefly();
      }
    } while (std::chrono::steady_clock::now() < deadline && !stopping_.load(std::memory_order_relaxed));
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  uint32_t number;
  while (true) {
    const uint32_t seen = wake_.load(std::memory_order_acquire);
    number = new_step(std::memory_order_seq_cst);
    if (number != 0 || stopping_.load()) break;
    futex_wait(wake_, seen);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return number;
}

void WorkerPool::worker_main(int32_t worker) {
  pthread_setname_np(pthread_self(), "lathe-worker");
  ExecutionEnvironment::enter_for_good();
  CallerAvoidance avoidance;
  for (uint32_t number = 0; (number = wait_for_work(number)) != 0;) {
    avoidance.leave(step_.processor.load(std::memory_order_relaxed));
    claim_and_run(worker, number);
  }
}

}  // namespace lathe
