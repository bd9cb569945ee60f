#include "api/background.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <iterator>
#include <new>

#include "absl/strings/str_cat.h"
#include "api/device.h"

namespace lathe {
namespace {

// Linux gives every thread a priority of its own. Compiling must not take the time of the callers that it
// serves.
void take_lowest_priority() {
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowest);
}

std::string describe_job(const lathe_device& device, const DispatchKey& key) {
  const ProblemClass& c = key.problem;
  return absl::StrCat(describe(c, {c.m_hi, c.op == Op::kArgmax ? c.row_hi : c.n, c.k, 1}), " on ",
                      device.name);
}

}  // namespace

bool BackgroundCompiler::is_of_parent() const {
  const pid_t pid = pid_.load(std::memory_order_relaxed);
  return pid != 0 && pid != getpid();
}

BackgroundCompiler::~BackgroundCompiler() {
  if (is_of_parent()) {
    // A thread that is not there can be neither joined nor destroyed, and the end of a condition variable
    // that it waited on would wait for it: another takes its place.
    new std::thread(std::move(thread_));
    new (&changed_) std::condition_variable;
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Submitted BackgroundCompiler::submit(lathe_device& device, const DispatchKey& key) {
  if (is_of_parent()) return Submitted::kRefused;
  const Job job = {&device, key};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (submitted_.count(job) != 0) {
      const auto waits = waiting_.find(job);
      if (waits != waiting_.end()) ++waits->second.asked;
      return Submitted::kBefore;
    }
    if (waiting_.size() >= most_waiting_ || !start()) return Submitted::kRefused;
    waiting_[job].order = arrivals_++;
    submitted_.insert(job);
  }
  changed_.notify_all();
  return Submitted::kNew;
}

size_t BackgroundCompiler::waiting() const {
  if (is_of_parent()) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_.size();
}

// A look at all that waits takes microseconds, the kernel that is made then tens of milliseconds.
BackgroundCompiler::Job BackgroundCompiler::take_next() {
  auto next = waiting_.begin();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const Wait &a = it->second, &b = next->second;
    if (a.asked > b.asked || (a.asked == b.asked && a.order < b.order)) next = it;
  }
  const Job job = next->first;
  waiting_.erase(next);
  return job;
}

void BackgroundCompiler::forget(const lathe_device& device) {
  if (is_of_parent()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  const auto of_device = [&](const Job& job) { return job.device == &device; };
  for (auto it = waiting_.begin(); it != waiting_.end();)
    it = of_device(it->first) ? waiting_.erase(it) : std::next(it);
  changed_.wait(lock, [&] { return busy_ != &device; });
  for (auto it = submitted_.begin(); it != submitted_.end();)
    it = of_device(*it) ? submitted_.erase(it) : std::next(it);
}

bool BackgroundCompiler::start() {
  if (thread_.joinable()) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { work(); });
    pid_.store(getpid(), std::memory_order_relaxed);
  } catch (const std::exception&) {
    // No thread to be had: the next miss tries again.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_.joinable();
}

void BackgroundCompiler::work() noexcept {
  take_lowest_priority();
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
    if (stops_) return;
    const Job job = take_next();
    busy_ = job.device;
    lock.unlock();
    prepare(job);
    lock.lock();
    busy_ = nullptr;
    changed_.notify_all();
  }
}

void BackgroundCompiler::prepare(const Job& job) noexcept {
  // Nobody waits for a result: what goes wrong is logged, and the class stays with its generic kernel.
  try {
    try {
      absl::StatusOr<Choice> choice = choose_plan(*job.device, job.key);
      absl::Status status = choice.status();
      if (status.ok()) status = prepare_kernel(*job.device, job.key, *choice).status();
      const std::string what = describe_job(*job.device, job.key);
      if (status.ok())
        job.device->context.counters.background_compiles.fetch_add(1, std::memory_order_relaxed);
      if (status.ok())
        logger_.log(LogLevel::kInfo,
                    absl::StrCat("background: ", what, ": ready, in place of the generic kernel"));
      else
        logger_.log(LogLevel::kWarning, absl::StrCat("background: ", what,
                                                     ": stays with the generic kernel: ", status.message()));
    } catch (const std::exception& e) {
      logger_.log(LogLevel::kWarning, absl::StrCat("background compilation: ", e.what()));
    }
  } catch (...) {
    // Nor can it be logged.
  }
}

}  // namespace lathe
