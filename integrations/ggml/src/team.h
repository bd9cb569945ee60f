// Lends ggml's threads to Lathe. All threads of ggml's pool enter a node together. The first one calls Lathe, and the
// others help with the tasks of that call until it is done. So one set of threads does all work.
#pragma once

#include <lathe/lathe.h>

#include <atomic>
#include <cstdint>

namespace lathe_ggml {

class Team {
 public:
  // The parallel_for of Lathe's contexts. Runs on the team that the calling thread leads; without one, the caller runs
  // all tasks.
  static void parallel_for(void* user, int64_t count, lathe_task_fn body, void* context);

  // Before ggml's threads start on a graph.
  void begin_graph() { done_.store(0, std::memory_order_relaxed); }
  // The first thread: runs work(), which may call Lathe, as the node with this number; nodes count from 1.
  template <typename Work>
  void lead(int64_t node, int threads, const Work& work) {
    Team* const outer = led_;
    if (threads > 1) led_ = this;
    work();
    led_ = outer;
    done_.store(node, std::memory_order_release);
  }
  // Every other thread: runs tasks until the first thread has finished the node.
  void help(int64_t node, int32_t worker);

 private:
  void run(int64_t count, lathe_task_fn body, void* context);
  int64_t claim_and_run(int32_t worker);

  static thread_local Team* led_;

  // The step in progress. A late thread may read these fields while the next step is written; its claim then fails.
  std::atomic<lathe_task_fn> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int64_t> count_{0};
  // The number of the step (upper 24 bits) and the count of unclaimed tasks (lower 40 bits).
  alignas(64) std::atomic<uint64_t> unclaimed_{0};
  alignas(64) std::atomic<int64_t> finished_{0};
  alignas(64) std::atomic<int64_t> done_{0};  // the last node that the first thread finished
};

}  // namespace lathe_ggml
