#include "prepare.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace lathe_blas {
namespace {

thread_local std::string missed_entry;

bool warm_up(const Engine& engine, const std::string& entry, lathe_miss_policy policy) {
  const Api& api = *engine.api;
  const std::string text = "{\"lathe_manifest\":1,\"classes\":[" + entry + "]}";
  lathe_manifest* manifest = nullptr;
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = 1;
  options.miss_policy = policy;
  const bool ready = api.manifest_create(&manifest) == LATHE_OK &&
                     api.manifest_parse(manifest, text.data(), text.size()) == LATHE_OK &&
                     api.warmup(engine.device, manifest, &options, nullptr) == LATHE_OK;
  api.manifest_destroy(manifest);
  return ready;
}

// One per process, never destroyed: the thread runs until the process ends.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> entries;
  bool has_thread = false;
};
constexpr size_t kMostWaiting = 1000;
std::atomic<Queue*> current{nullptr};

void work(const Engine* engine, Queue* queue) {
  sched_param none = {};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
  for (;;) {
    std::unique_lock<std::mutex> lock(queue->mutex);
    queue->changed.wait(lock, [&] { return !queue->entries.empty(); });
    const std::string entry = std::move(queue->entries.front());
    queue->entries.pop_front();
    lock.unlock();
    // A failure concerns no caller: the next BLAS serves the class.
    (void)warm_up(*engine, entry, LATHE_MISS_BLOCK);
  }
}

// The host's signal handlers must not run on the thread.
void start_thread(const Engine* engine, Queue* queue) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(work, engine, queue).detach();
    queue->has_thread = true;
  } catch (const std::exception&) {
    // No thread can be started now; the next entry tries again.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

const std::string& last_missed_entry() { return missed_entry; }
void note_miss(void*, const lathe_miss* miss) { missed_entry = miss->entry; }

bool load_kernel(const Engine& engine, const std::string& entry) {
  return warm_up(engine, entry, LATHE_MISS_ERROR);
}

void compile_in_background(const Engine& engine, const std::string& entry) {
  Queue* queue = current.load();
  if (queue == nullptr) {
    Queue* const mine = new Queue;
    if (current.compare_exchange_strong(queue, mine))
      queue = mine;
    else
      delete mine;
  }
  {
    const std::lock_guard<std::mutex> lock(queue->mutex);
    if (queue->entries.size() >= kMostWaiting) return;
    queue->entries.push_back(entry);
    if (!queue->has_thread) start_thread(&engine, queue);
  }
  queue->changed.notify_one();
}

void forget_background_thread() { current.store(nullptr); }

}  // namespace lathe_blas
