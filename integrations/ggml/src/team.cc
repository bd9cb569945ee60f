#include "team.h"

#include <thread>

namespace lathe_ggml {
namespace {

constexpr int kCountBits = 40;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
// After so many looks a waiting thread yields, in case threads outnumber processors.
constexpr int kSpins = 20000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

void wait_a_moment(int* spins) {
  if (++*spins < kSpins) {
    pause_briefly();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

thread_local Team* Team::led_ = nullptr;

void Team::parallel_for(void*, int64_t count, lathe_task_fn body, void* context) {
  if (Team* const team = led_; team != nullptr && count > 1) {
    led_ = nullptr;  // a task may call Lathe
    team->run(count, body, context);
    led_ = team;
  } else {
    for (int64_t i = 0; i < count; ++i) body(context, i, 0);
  }
}

void Team::run(int64_t count, lathe_task_fn body, void* context) {
  body_.store(body, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t number = (unclaimed_.load(std::memory_order_relaxed) >> kCountBits) + 1;
  unclaimed_.store(number << kCountBits | static_cast<uint64_t>(count), std::memory_order_release);
  const int64_t mine = claim_and_run(0);
  finished_.fetch_add(mine, std::memory_order_acq_rel);
  for (int spins = 0; finished_.load(std::memory_order_acquire) < count;) wait_a_moment(&spins);
}

int64_t Team::claim_and_run(int32_t worker) {
  int64_t tasks = 0;
  uint64_t word = unclaimed_.load(std::memory_order_acquire);
  while ((word & kCountMask) != 0) {
    const lathe_task_fn body = body_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    const int64_t count = count_.load(std::memory_order_relaxed);
    // If the swap succeeds, the step is the one read above, and its fields stay until the claimed task returns.
    if (!unclaimed_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    body(context, count - static_cast<int64_t>(word & kCountMask), worker);
    ++tasks;
    word = unclaimed_.load(std::memory_order_acquire);
  }
  return tasks;
}

void Team::help(int64_t node, int32_t worker) {
  int spins = 0;
  while (done_.load(std::memory_order_acquire) < node) {
    if (const int64_t tasks = claim_and_run(worker); tasks > 0) {
      finished_.fetch_add(tasks, std::memory_order_acq_rel);
      spins = 0;
    } else {
      wait_a_moment(&spins);
    }
  }
}

}  // namespace lathe_ggml
