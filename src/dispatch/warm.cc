#include "dispatch/warm.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/signals_blocked.h"
#include "core/json_object.h"
#include "dispatch/class_on_device.h"
#include "dispatch/grouped_gpu.h"
#include "dispatch/prepare.h"
#include "observe/number_text.h"
#include "options/raw_enum.h"
#include "request/c_status.h"
#include "runtime/cpu/cpu_facts.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

// Launch memory is reserved for this M if a class is open above and has no m_max, as argmax has none. Launches
// with more rows allocate at their first launch.
constexpr int64_t kOpenRows = 8192, kArgmaxRows = 4096;
constexpr int64_t kMostRows = INT32_MAX;

// The state that the threads of one warm-up share.
struct Progress {
  Progress(const std::vector<WarmClass>& all, const WarmOptions& wanted) : classes(all), options(wanted) {}

  const std::vector<WarmClass>& classes;
  const WarmOptions& options;
  const Clock::time_point start = Clock::now();
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> compiled{0}, loaded{0}, present{0}, failed{0};
  std::atomic<size_t> workspace_bytes{0}, counters{0};  // the maximum over the classes
  std::atomic<bool> stops{false}, cancelled{false}, late{false};
  std::mutex mutex;
  absl::Status error;            // under mutex; the first
  std::exception_ptr exception;  // under mutex; the first; the calling thread throws it again
  std::mutex telling;            // held during a call of options.progress
  size_t told = 0;               // under telling

  void fail(const absl::Status& status) {
    failed.fetch_add(1, std::memory_order_relaxed);
    if (options.stops_on_failure) stops.store(true, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(mutex);
    if (error.ok()) error = status;
  }
  void fail(std::exception_ptr thrown) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    if (exception == nullptr) exception = std::move(thrown);
    stops.store(true, std::memory_order_relaxed);
  }
  // False once no more classes may begin.
  bool goes_on() {
    if (options.cancel != nullptr && __atomic_load_n(options.cancel, __ATOMIC_RELAXED) != 0)
      cancelled.store(true, std::memory_order_relaxed);
    if (options.deadline.count() > 0 && Clock::now() - start >= options.deadline)
      late.store(true, std::memory_order_relaxed);
    return !stops.load(std::memory_order_relaxed) && !cancelled.load(std::memory_order_relaxed) &&
           !late.load(std::memory_order_relaxed);
  }
  void tell(const WarmClass& warm, std::string problem, const absl::Status& status) {
    if (!options.progress) return;
    const std::lock_guard<std::mutex> lock(telling);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const WarmedClass event = {++told, classes.size(), elapsed.count(), warm, std::move(problem), status};
    if (options.progress(event)) cancelled.store(true, std::memory_order_relaxed);
  }
};

// Raises `most` to `value` if it is lower.
void raise(std::atomic<size_t>* most, size_t value) {
  size_t seen = most->load(std::memory_order_relaxed);
  while (seen < value && !most->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// The largest launch of a class.
Dims largest_launch(const ProblemClass& c, const WarmClass& warm, bool is_cpu) {
  Dims dims = largest_request(c);
  const GroupedSizes& grouped = warm.grouped;
  if (is_cpu || !is_grouped(c.rows) || grouped.groups == 0) {
    dims.m = std::min(dims.m, multiplies(c.op) ? warm.m_max : kArgmaxRows);
    return dims;
  }
  // M is the slots, and the class has the bucket of their mean per group.
  const int64_t most = grouped.slots * std::min(warm.m_max, kMostRows / grouped.slots);
  dims.m = std::min(most, grouped.groups * std::min(dims.m, kMostRows / grouped.groups));
  dims.batch = grouped.groups;
  return dims;
}

// Notes what the largest launch of a class needs.
void note_need(const lathe_device& device, const DispatchEntry& entry, const WarmClass& warm,
               Progress* progress) {
  const ProblemClass& c = entry.key.problem;
  const Dims dims = largest_launch(c, warm, device.is_cpu);
  const LaunchConfig launch = make_launch_config(entry.kernel->recipe(), c, dims, entry.wanted_splits);
  raise(&progress->workspace_bytes, launch.workspace_bytes + kept_bytes(dims.m, warm.grouped.kept));
  raise(&progress->counters, launch.counters);
}

absl::Status warm_class(lathe_device& device, const WarmClass& warm, Progress* progress) {
  if (device.driver != nullptr) {
    if (const DispatchEntry* entry = device.table.find(warm.key)) {
      note_need(device, *entry, warm, progress);
      progress->present.fetch_add(1, std::memory_order_relaxed);
      return absl::OkStatus();
    }
  }
  LATHE_ASSIGN_OR_RETURN(
      const PreparedClass prepared,
      prepare_class(device, warm.key, progress->options.compiles ? PrepareFor::kLater : PrepareFor::kNoMiss));
  if (prepared.entry != nullptr) note_need(device, *prepared.entry, warm, progress);
  (prepared.outcome == CacheOutcome::kCompiled ? progress->compiled : progress->loaded)
      .fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status work_on(lathe_device& device, const WarmClass& warm, Progress* progress) {
  if (!progress->options.work) return warm_class(device, warm, progress);
  const absl::Status status = progress->options.work(warm, [progress] { return progress->goes_on(); });
  progress->loaded.fetch_add(status.ok(), std::memory_order_relaxed);
  return status;
}

void warm_some(lathe_device& device, Progress& progress) noexcept {
  // No exception may leave a thread, neither the library's own nor that of a callback.
  try {
    while (progress.goes_on()) {
      const size_t i = progress.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= progress.classes.size()) return;
      const WarmClass& warm = progress.classes[i];
      const std::string problem = describe_class(device, warm.key.problem);
      const absl::Status status = work_on(device, warm, &progress);
      if (absl::IsCancelled(status) && !progress.goes_on()) return;
      if (!status.ok()) {
        progress.fail(
            absl::Status(status.code(), absl::StrCat(progress.options.what, " of ",
                                                     warm.name.empty() ? "" : absl::StrCat(warm.name, ": "),
                                                     problem, ": ", status.message())));
      }
      progress.tell(warm, problem, status);
    }
  } catch (...) {
    progress.fail(std::current_exception());
  }
}

// Compiling runs on the host, so the number of workers of the device does not matter.
size_t thread_count(const lathe_context& context) {
  if (context.options.workers > 0) return static_cast<size_t>(context.options.workers);
  return static_cast<size_t>(allowed_processors());
}

void run_threads(lathe_device& device, Progress& progress) {
  const auto work = [&] { warm_some(device, progress); };
  std::vector<std::thread> threads;
  const size_t count = std::min(progress.options.threads, progress.classes.size());
  threads.reserve(count);
  for (size_t i = 1; i < count; ++i) {
    const SignalsBlocked blocked;
    try {
      threads.emplace_back(work);
    } catch (const std::exception&) {
      break;  // no more threads or no memory: fewer threads do the work, and those that run must be joined
    }
  }
  work();
  for (std::thread& t : threads) t.join();
}

void fill_report(const Progress& progress, lathe_warmup_report* report) {
  report->classes = progress.classes.size();
  report->compiled = progress.compiled.load(std::memory_order_relaxed);
  report->loaded = progress.loaded.load(std::memory_order_relaxed);
  report->present = progress.present.load(std::memory_order_relaxed);
  report->failed = progress.failed.load(std::memory_order_relaxed);
  report->skipped = report->classes - report->compiled - report->loaded - report->present - report->failed;
  report->milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - progress.start).count();
}

std::string count_of_classes(uint64_t n) { return absl::StrCat(n, n == 1 ? " class" : " classes"); }

// The error for classes that were not begun, if there are any.
absl::Status why_skipped(const Progress& progress, const lathe_warmup_report& report,
                         const lathe_device& device) {
  if (report.skipped == 0) return absl::OkStatus();
  const std::string text =
      absl::StrCat(progress.options.what, " on ", device.name, ": ", report.skipped, " of ",
                   count_of_classes(report.classes), report.skipped == 1 ? " is" : " are", " not begun");
  if (progress.cancelled.load(std::memory_order_relaxed)) return absl::CancelledError(text);
  return absl::DeadlineExceededError(text);
}

// "warm-up: 748 classes on cpu: 20 compiled, 700 loaded, 28 present, 0 failed, 0 not begun, 812.4 ms"
void tell_end(const lathe_device& device, const Progress& progress, const lathe_warmup_report& r) {
  const lathe_context& context = device.context;
  context.logger.log(
      LogLevel::kInfo,
      absl::StrCat("warm-up: ", count_of_classes(r.classes), " on ", device.name, ": ", r.compiled,
                   " compiled, ", r.loaded, " loaded, ", r.present, " present, ", r.failed, " failed, ",
                   r.skipped, " not begun, ", number_text("%.1f", r.milliseconds), " ms"));
  if (!context.trace.enabled()) return;
  context.trace.span(
      "warm-up", count_of_classes(r.classes), progress.start,
      json_object("device", device.name, "compiled", r.compiled, "loaded", r.loaded, "failed", r.failed));
}

// Reserves launch memory. It belongs to no class, so a failure is the warm-up's.
absl::Status reserve(lathe_device& device, const Progress& progress) {
  if (device.driver == nullptr) return absl::OkStatus();
  return device.driver->reserve(progress.workspace_bytes, progress.counters);
}

// A class from a manifest, with the fields as this device's requests have them.
ProblemClass as_requested(const lathe_device& device, ProblemClass c) {
  if (!device.dependent_launch) c.dependent_launch = DependentLaunch::kOff;
  if (device.is_cpu) {
    c.rows = Rows::kPlain;                         // the host reads M and the routing, and lists rows
    if (has_scales_apart(c.a)) c.a = DType::kF32;  // and decodes A
  }
  if (multiplies(c.op) && c.k == 0) become_zero_product(&c);
  return c;
}

// CPU: the classes of groups whose rows the host lists, beside those with rows at one distance.
void append_listed(std::vector<ProblemClass>* classes) {
  const size_t count = classes->size();
  for (size_t i = 0; i < count; ++i) {
    ProblemClass c = (*classes)[i];
    if (c.m_lo < kFewestListedRows) continue;
    c.rows = Rows::kIndexed;
    classes->push_back(c);
  }
}

std::vector<ProblemClass> classes_for(const lathe_device& device, const ManifestEntry& entry) {
  const bool product = multiplies(entry.problem.op);
  if (product && entry.problem.k == 0 && device.is_cpu) return {};  // needs no kernel
  const ProblemClass c = as_requested(device, entry.problem);
  const Backend backend = device.facts.target.backend;
  if (entry.m_max > 0) return classes_of_weight(c, entry.m_max, backend);
  // A GPU has one class for all M of unaligned operands. On the CPU these have buckets of M.
  if (device.is_cpu && product && c.alignment == Alignment::kByte)
    return classes_of_weight(c, kOpenRows, backend);
  return {with_alignment(c, c.alignment, device.is_cpu)};
}

std::vector<ProblemClass> expand(const lathe_device& device, const ManifestEntry& entry) {
  std::vector<ProblemClass> classes = classes_for(device, entry);
  if (device.is_cpu && lists_rows(entry.problem.rows)) append_listed(&classes);
  return classes;
}

GroupedSizes larger(const GroupedSizes& one, const GroupedSizes& other) {
  return {std::max(one.groups, other.groups), std::max(one.slots, other.slots),
          std::max(one.kept, other.kept)};
}

struct KeyHash {
  size_t operator()(const DispatchKey& key) const { return hash_of(key); }
};

}  // namespace

ManifestEntry entry_of(const Request& weight, int64_t m_max, std::string name) {
  ManifestEntry entry = {std::move(name),
                         weight.key.problem,
                         m_max,
                         weight.key.split_k,
                         weight.key.candidate,
                         weight.program == nullptr ? nullptr : weight.program->program};
  if (has_row_lengths(entry.problem.op)) {
    entry.problem.row_lo = row_bucket(1).lo;  // the entry covers every row length
    entry.problem.row_hi = row_bucket(1).hi;
  }
  return entry;
}

std::vector<WarmClass> classes_on(const lathe_device& device, const Manifest& manifest) {
  std::vector<WarmClass> classes;
  std::unordered_map<DispatchKey, size_t, KeyHash> places;
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.program != nullptr) device.context.programs.keep(entry.program);
    for (const ProblemClass& problem : expand(device, entry)) {
      const DispatchKey key = {problem, entry.split_k, entry.candidate};
      const int64_t rows = entry.m_max > 0 ? entry.m_max : std::max(problem.m_lo, kOpenRows);
      const auto [place, is_new] = places.emplace(key, classes.size());
      if (is_new) {
        classes.push_back({key, rows, entry.name, entry.grouped});
        continue;
      }
      // A class of several weights reserves memory for the largest.
      WarmClass& known = classes[place->second];
      known.m_max = std::max(known.m_max, rows);
      known.grouped = larger(known.grouped, entry.grouped);
    }
  }
  return classes;
}

absl::StatusOr<WarmOptions> read_warm_options(const lathe_context& context,
                                              const lathe_warmup_options* options) {
  WarmOptions out;
  out.threads = thread_count(context);
  if (options == nullptr) return out;
  const auto invalid = [](const auto&... cause) {
    return absl::InvalidArgumentError(absl::StrCat("lathe_warmup_options: ", cause...));
  };
  if (options->struct_size != sizeof *options)
    return invalid("struct_size ", options->struct_size, " is not ", sizeof *options);
  if (options->next != nullptr)
    return absl::UnimplementedError(
        "lathe_warmup_options: next must be NULL, since no chain element is supported");
  if (options->reserved != 0) return absl::UnimplementedError("lathe_warmup_options: reserved is not 0");
  if (options->stop_on_failure > 1)
    return invalid("stop_on_failure ", options->stop_on_failure, " is neither 0 nor 1");
  if (options->parallelism != 0) {
    LATHE_RETURN_IF_ERROR(check_workers("lathe_warmup_options: parallelism", options->parallelism));
    out.threads = static_cast<size_t>(options->parallelism);
  }
  LATHE_ASSIGN_OR_RETURN(const MissPolicy policy, read_miss_policy(options->miss_policy, MissPolicy::kBlock));
  if (policy == MissPolicy::kFallback) return invalid("miss_policy FALLBACK: a warm-up takes BLOCK or ERROR");
  out.compiles = policy == MissPolicy::kBlock;
  out.stops_on_failure = options->stop_on_failure == 1;
  constexpr uint64_t kLongest = INT64_MAX / 2;  // a larger value could overflow when it is added to a time
  out.deadline = std::chrono::nanoseconds(std::min(options->deadline_nanoseconds, kLongest));
  out.cancel = options->cancel;
  if (options->progress == nullptr) return out;
  out.progress = [call = options->progress, user = options->progress_user](const WarmedClass& warmed) {
    const std::string error(warmed.status.message());
    const lathe_warmup_progress progress = {sizeof progress,
                                            nullptr,
                                            warmed.done,
                                            warmed.total,
                                            warmed.seconds,
                                            warmed.warm.name.c_str(),
                                            warmed.problem.c_str(),
                                            to_c_status(warmed.status.code()),
                                            0,
                                            error.c_str()};
    return call(user, &progress) != 0;
  };
  return out;
}

absl::Status warm_up(lathe_device& device, const std::vector<WarmClass>& classes, const WarmOptions& options,
                     lathe_warmup_report* report) {
  Progress progress(classes, options);
  run_threads(device, progress);
  fill_report(progress, report);
  if (!options.work) tell_end(device, progress, *report);
  const absl::Status reserved = options.work ? absl::OkStatus() : reserve(device, progress);
  const std::lock_guard<std::mutex> lock(progress.mutex);
  if (progress.exception != nullptr) std::rethrow_exception(progress.exception);
  LATHE_RETURN_IF_ERROR(progress.error);
  LATHE_RETURN_IF_ERROR(why_skipped(progress, *report, device));
  return reserved;
}

}  // namespace lathe
