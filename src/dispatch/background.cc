#include "dispatch/background.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "dispatch/class_on_device.h"
#include "dispatch/device.h"
#include "dispatch/prepare.h"

namespace lathe {
namespace {

// On Linux the nice value belongs to the thread. This thread must not slow down the callers, but it must run
// often enough to keep the time limits of servers and locks. Compiling runs at an even lower priority, on a
// thread of its own (run_idly).
void take_low_priority() {
  constexpr int kLowestNice = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestNice);
}

}  // namespace

BackgroundCompiler::BackgroundCompiler(const Logger& logger, size_t most_waiting)
    : logger_(logger), most_waiting_(most_waiting) {
  if (sched_getaffinity(0, sizeof(processors_), &processors_) != 0) CPU_ZERO(&processors_);
}

Submitted BackgroundCompiler::submit(lathe_device& device, const DispatchKey& key, JobKind kind) {
  Queue& queue = queue_.get();
  const Job job = {&device, key, kind};
  {
    const std::lock_guard<std::mutex> lock(queue.thread.mutex);
    if (queue.submitted.count(job) != 0) {
      const auto waits = queue.waiting.find(job);
      if (waits != queue.waiting.end()) ++waits->second.asked;
      return Submitted::kBefore;
    }
    if (queue.waiting.size() >= most_waiting_ || !queue.thread.start([this, &queue] { work(queue); }))
      return Submitted::kRefused;
    queue.waiting[job].order = queue.arrivals++;
    queue.submitted.insert(job);
  }
  queue.thread.changed.notify_all();
  return Submitted::kNew;
}

size_t BackgroundCompiler::waiting() const {
  const Queue* queue = queue_.find();
  if (queue == nullptr) return 0;
  const std::lock_guard<std::mutex> lock(queue->thread.mutex);
  return queue->waiting.size();
}

// A linear search takes microseconds; the compile that follows takes tens of milliseconds.
BackgroundCompiler::Job BackgroundCompiler::take_next(Queue& queue) {
  auto next = queue.waiting.begin();
  for (auto it = queue.waiting.begin(); it != queue.waiting.end(); ++it) {
    const Wait &a = it->second, &b = next->second;
    if (a.asked > b.asked || (a.asked == b.asked && a.order < b.order)) next = it;
  }
  const Job job = next->first;
  queue.waiting.erase(next);
  return job;
}

void BackgroundCompiler::forget(const lathe_device& device) {
  Queue* queue = queue_.find();
  if (queue == nullptr) return;
  std::unique_lock<std::mutex> lock(queue->thread.mutex);
  const auto of_device = [&](const Job& job) { return job.device == &device; };
  for (auto it = queue->waiting.begin(); it != queue->waiting.end();)
    it = of_device(it->first) ? queue->waiting.erase(it) : std::next(it);
  queue->thread.changed.wait(lock, [&] { return queue->busy != &device; });
  for (auto it = queue->submitted.begin(); it != queue->submitted.end();)
    it = of_device(*it) ? queue->submitted.erase(it) : std::next(it);
}

void BackgroundCompiler::work(Queue& queue) noexcept {
  sched_setaffinity(0, sizeof(processors_), &processors_);
  take_low_priority();
  std::unique_lock<std::mutex> lock(queue.thread.mutex);
  for (;;) {
    queue.thread.changed.wait(lock, [&] { return queue.thread.stops || !queue.waiting.empty(); });
    if (queue.thread.stops) return;
    const Job job = take_next(queue);
    queue.busy = job.device;
    lock.unlock();
    run(job);
    lock.lock();
    queue.busy = nullptr;
    queue.thread.changed.notify_all();
  }
}

// Nobody waits for the result. A failure is logged, and the class keeps the kernel that it has.
void BackgroundCompiler::prepare_or_refresh(const Job& job) {
  const bool refreshes = job.kind == JobKind::kRefresh;
  const absl::Status status = refreshes ? refresh_class(*job.device, job.key)
                                        : prepare_class(*job.device, job.key, PrepareFor::kIdle).status();
  const std::string what = absl::StrCat("background: ", describe_class(*job.device, job.key.problem));
  if (!status.ok()) {
    logger_.log(LogLevel::kWarning,
                absl::StrCat(what, ": stays with the ", refreshes ? "recorded" : "generic",
                             " kernel: ", status.message()));
    return;
  }
  job.device->context.counters.background_compiles.fetch_add(1, std::memory_order_relaxed);
  logger_.log(
      LogLevel::kInfo,
      absl::StrCat(what, refreshes ? ": the oracle's choice is in the stores, the recorded kernel runs on"
                                   : ": ready, in place of the generic kernel"));
}

void BackgroundCompiler::run(const Job& job) noexcept {
  try {
    try {
      prepare_or_refresh(job);
    } catch (const std::exception& e) {
      logger_.log(LogLevel::kWarning, absl::StrCat("background compilation: ", e.what()));
    }
  } catch (...) {
    // The failure cannot be logged either.
  }
}

}  // namespace lathe
