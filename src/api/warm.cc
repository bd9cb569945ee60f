#include "api/warm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

// What the threads of one warm-up share.
struct Progress {
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> compiled{0}, cached{0};
  std::atomic<size_t> workspace_bytes{0}, counters{0};  // the most that one of the classes needs
  std::atomic<bool> failed{false};
  std::mutex mutex;
  absl::Status error;            // under mutex; the first
  std::exception_ptr exception;  // under mutex; the first, for the thread that asked to throw on

  void fail(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (error.ok()) error = std::move(status);
    failed.store(true, std::memory_order_relaxed);
  }
  void fail(std::exception_ptr thrown) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    if (exception == nullptr) exception = std::move(thrown);
    failed.store(true, std::memory_order_relaxed);
  }
};

// Raises `most` to `value`.
void raise(std::atomic<size_t>* most, size_t value) {
  size_t seen = most->load(std::memory_order_relaxed);
  while (seen < value && !most->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// What the largest launch of a class needs. Argmax has no bucket of rows and no m_max of the caller's: what
// more than kArgmaxRows need is taken at their first launch.
void note_need(const DispatchEntry& entry, int64_t m_max, Progress* progress) {
  constexpr int64_t kArgmaxRows = 4096;
  const ProblemClass& c = entry.key.problem;
  const bool argmax = c.op == Op::kArgmax;
  const Dims dims = {std::min(c.m_hi, argmax ? kArgmaxRows : m_max), argmax ? c.row_hi : c.n, c.k, 1};
  const LaunchConfig launch = make_launch_config(entry.kernel->recipe(), c, dims, entry.wanted_splits);
  raise(&progress->workspace_bytes, launch.workspace_bytes);
  raise(&progress->counters, launch.counters);
}

absl::StatusOr<CacheOutcome> warm_class(lathe_device& device, const DispatchKey& key, int64_t m_max,
                                        Progress* progress) {
  if (device.driver != nullptr) {
    if (const DispatchEntry* entry = device.table.find(key)) {
      note_need(*entry, m_max, progress);
      return CacheOutcome::kMemoryHit;
    }
  }
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choose_plan(device, key));
  if (device.driver == nullptr) {
    LATHE_ASSIGN_OR_RETURN(const CacheResult result, get_artifact(device, key.problem, choice));
    return result.outcome;
  }
  LATHE_ASSIGN_OR_RETURN(const Prepared prepared, prepare_kernel(device, key, choice));
  note_need(*prepared.entry, m_max, progress);
  return prepared.outcome;
}

std::string describe_class(const ProblemClass& c, const lathe_device& device) {
  const Dims largest = {c.m_hi, c.op == Op::kArgmax ? c.row_hi : c.n, c.k, 1};
  return absl::StrCat("warm-up of ", describe(c, largest), " on ", device.name);
}

void warm_some(lathe_device& device, const DispatchKey& weight, const std::vector<ProblemClass>& classes,
               int64_t m_max, Progress& progress) noexcept {
  // Runs on threads of its own, out of which no exception may come: neither this library's nor a log
  // callback's.
  try {
    while (!progress.failed.load(std::memory_order_relaxed)) {
      const size_t i = progress.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= classes.size()) return;
      DispatchKey key = weight;
      key.problem = classes[i];
      const absl::StatusOr<CacheOutcome> outcome = warm_class(device, key, m_max, &progress);
      if (!outcome.ok()) {
        return progress.fail(
            absl::Status(outcome.status().code(),
                         absl::StrCat(describe_class(classes[i], device), ": ", outcome.status().message())));
      }
      (*outcome == CacheOutcome::kCompiled ? progress.compiled : progress.cached)
          .fetch_add(1, std::memory_order_relaxed);
    }
  } catch (...) {
    progress.fail(std::current_exception());
  }
}

// Compiling is work of the host: the device's own workers do not matter.
size_t thread_count(const lathe_context& context) {
  if (context.options.workers > 0) return static_cast<size_t>(context.options.workers);
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

absl::StatusOr<std::vector<ProblemClass>> classes_of(const lathe_device& device, const Request& weight,
                                                     int64_t m_max) {
  if (m_max < 1 || m_max > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("warm-up of ", describe(weight, device.name), ": m_max ",
                                                   m_max, " is not in [1, ", kMaxDim, "]"));
  }
  if (weight.dims.n == 0 || weight.empty_product) return std::vector<ProblemClass>();
  return classes_of_weight(weight.key.problem, m_max, device.facts.target.backend);
}

absl::Status warm_classes(lathe_device& device, const Request& weight,
                          const std::vector<ProblemClass>& classes, int64_t m_max,
                          lathe_warm_report* report) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress;
  const auto work = [&] { warm_some(device, weight.key, classes, m_max, progress); };
  std::vector<std::thread> threads;
  const size_t count = std::min(thread_count(device.context), classes.size());
  threads.reserve(count);
  for (size_t i = 1; i < count; ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::exception&) {
      break;  // no more threads, or no memory for one: fewer do the same, and those that run must be joined
    }
  }
  work();
  for (std::thread& t : threads) t.join();

  report->classes = classes.size();
  report->compiled = progress.compiled.load(std::memory_order_relaxed);
  report->cached = progress.cached.load(std::memory_order_relaxed);
  report->milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const std::lock_guard<std::mutex> lock(progress.mutex);
  if (progress.exception != nullptr) std::rethrow_exception(progress.exception);
  LATHE_RETURN_IF_ERROR(progress.error);
  if (device.driver == nullptr) return absl::OkStatus();
  return device.driver->reserve(progress.workspace_bytes, progress.counters);
}

}  // namespace lathe
