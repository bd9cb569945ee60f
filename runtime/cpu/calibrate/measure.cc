#include "runtime/cpu/calibrate/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/calibrate/memory_share.h"
#include "runtime/cpu/calibrate/rate_loops.h"
#include "runtime/cpu/calibrate/read_loops.h"
#include "runtime/cpu/worker_pool.h"

namespace lathe {
namespace {

// Seconds of a window. Those of all workers are twice as long, so that the cost of the step does not count.
constexpr double kWindow = 1.5e-3;
constexpr double kTouchShare = 0.35;  // of the time, for touching the memory
// The reserve at the end: a last round may start just before it, and threads and memory must be released.
constexpr double kEndShare = 0.1;
constexpr size_t kLeastWindows = 5, kMostWindows = 120;
// A smaller difference between rates with and without prefetch is noise. Some cost models ask which is larger.
constexpr double kNoise = 0.05;
constexpr double kUnsteady = 0.25;  // a spread that other work on the machine causes

// The quantile of a probe's windows that is its fact. Other work on the machine, and on the host of a virtual machine,
// only makes rates smaller and costs larger.
enum class Kind { kRate, kCost };
constexpr double quantile_of(Kind kind) { return kind == Kind::kRate ? 0.9 : 0.25; }

// Something to measure. `once` measures one window and returns its value.
struct Probe {
  std::string fact;
  std::string what;  // for the source: "one core, vfmadd231ps zmm"
  Kind kind;
  std::function<double()> once;
  std::vector<double> values;
};

double quantile(std::vector<double> values, double of) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(of * static_cast<double>(values.size() - 1) + 0.5)];
}

// The range of the middle half of the values, as a part of their median.
double spread_of(const std::vector<double>& values) {
  const double median = quantile(values, 0.5);
  return median > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / median : 0;
}

template <typename Work>
double seconds_of(const Work& work) {
  const double start = steady_seconds();
  work();
  return std::max(steady_seconds() - start, 1e-9);
}

// How often to repeat work(repeats) so that it takes about `seconds`. Found at the first use, so that probes without
// time left cost nothing.
class Repeats {
 public:
  explicit Repeats(double seconds) : seconds_(seconds) {}

  template <typename Work>
  int64_t of(const Work& work) {
    if (repeats_ > 0) return repeats_;
    const auto time = [&](int64_t repeats) { return seconds_of([&] { work(repeats); }); };
    int64_t repeats = 1;
    double took = time(repeats);
    while (took < seconds_ / 8 && repeats < int64_t{1} << 40) took = time(repeats *= 4);
    took = std::min(took, time(repeats));  // something may have interrupted the first one
    repeats_ = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(repeats) * seconds_ / took));
    return repeats_;
  }

 private:
  double seconds_;
  int64_t repeats_ = 0;
};

void spin(double seconds) {
  const double end = steady_seconds() + seconds;
  while (steady_seconds() < end) {
  }
}

// Runs tasks on the workers of a pool.
class Team {
 public:
  Team(int32_t workers, int32_t processors) : workers_(workers), pool_(workers, processors) {
    (void)pool_.try_enter();  // for good: nobody else has this pool
  }

  int32_t size() const { return workers_; }

  // Calls body(index) for [0, count) and returns the seconds that the step took.
  double run(int64_t count, const std::function<void(int64_t)>& body) {
    ArgumentBlock args;
    args.a = const_cast<std::function<void(int64_t)>*>(&body);
    const TaskSet tasks = {run_body, &args, count, nullptr, 0};
    return seconds_of([&] { pool_.run(tasks); });
  }
  // Lets every worker take a task, so that none sleeps at the next step.
  void wake() {
    constexpr double kLongEnough = 100e-6;
    run(workers_, [](int64_t) { spin(kLongEnough); });
  }

 private:
  static void run_body(const ArgumentBlock* args, int64_t index) {
    (*static_cast<const std::function<void(int64_t)>*>(args->a))(index);
  }

  const int32_t workers_;
  WorkerPool pool_;
};

// The probes of one measurement, and what they share.
class Measuring {
 public:
  Measuring(const DeviceFacts& facts, const MeasureOptions& options)
      : facts_(facts),
        start_(steady_seconds()),
        seconds_(std::min(options.seconds, kMostMeasureSeconds)),
        memory_(pool_bytes(facts, options), start_ + seconds_ * kTouchShare),
        team_(options.workers, options.processors),
        loops_(rate_loops(facts.target)),
        reads_(read_loops(facts.target)) {
    add_clock();
    add_rates();
    add_caches();
    add_memory();
    add_steps();
  }

  Measurement run() {
    const double end = start_ + seconds_ * (1 - kEndShare);
    for (size_t round = 0; round < kMostWindows; ++round) {
      for (Probe& probe : probes_) {
        // A machine that is too slow for the least number of windows still ends in time.
        if (steady_seconds() >= end && (round >= kLeastWindows || steady_seconds() >= start_ + seconds_))
          break;
        probe.values.push_back(probe.once());
      }
      if (steady_seconds() >= end && round + 1 >= kLeastWindows) break;
    }
    return result();
  }

 private:
  static size_t pool_bytes(const DeviceFacts& facts, const MeasureOptions& options) {
    const size_t bytes = options.pool_bytes > 0
                             ? options.pool_bytes
                             : pool_bytes_for(facts, options.workers, available_memory(this_system()));
    constexpr size_t kPage = 4096;
    return std::max(kPage, bytes / kPage * kPage);
  }

  void add(std::string fact, std::string what, Kind kind, std::function<double()> once) {
    probes_.push_back({std::move(fact), std::move(what), kind, std::move(once), {}});
  }
  std::string all() const { return absl::StrCat(team_.size(), team_.size() == 1 ? " worker" : " workers"); }

  // Under load: some processors lower the clock while they multiply wide vectors, and raise it again later.
  void add_clock() {
    const auto load = loops_.empty() ? run_dependent_adds : loops_[0].run;
    add("clock_hz", "one core, dependent additions after vector work", Kind::kRate,
        [load, warm = Repeats(0.3e-3), adds = Repeats(0.5e-3)]() mutable {
          load(warm.of(load));
          const int64_t repeats = adds.of(run_dependent_adds);
          return static_cast<double>(repeats * kAddsPerRepeat) /
                 seconds_of([&] { run_dependent_adds(repeats); });
        });
  }

  void add_rates() {
    for (const RateLoop& loop : loops_) {
      add(loop.fact, absl::StrCat("one core, ", loop.instruction), Kind::kRate,
          [&loop, window = Repeats(kWindow)]() mutable {
            const int64_t repeats = window.of(loop.run);
            return static_cast<double>(repeats) * loop.products / seconds_of([&] { loop.run(repeats); });
          });
      add(absl::StrCat("all_", loop.fact), absl::StrCat(all(), ", ", loop.instruction), Kind::kRate,
          [this, &loop, window = Repeats(2 * kWindow)]() mutable {
            const int64_t repeats = window.of(loop.run);
            team_.wake();
            const double seconds = team_.run(team_.size(), [&](int64_t) { loop.run(repeats); });
            return static_cast<double>(repeats) * loop.products * team_.size() / seconds;
          });
    }
  }

  // A probe that reads the same `bytes` again and again.
  void add_cached(const std::string& fact, const std::string& what, ReadFn read, size_t bytes) {
    const char* data = memory_.data();
    add(fact, what, Kind::kRate, [=, window = Repeats(kWindow)]() mutable {
      const auto work = [=](int64_t times) {
        for (int64_t i = 0; i < times; ++i) read(data, bytes);
      };
      const int64_t times = std::max<int64_t>(2, window.of(work));
      work(1);  // the probe before has replaced the lines
      return static_cast<double>(bytes) * static_cast<double>(times) / seconds_of([&] { work(times); });
    });
  }

  void add_caches() {
    const double l1 = facts_.fact_or("l1d_bytes", 0), l2 = facts_.fact_or("l2_bytes", 0);
    const double l3 = facts_.fact_or("l3_bytes", 0);
    const auto level = [&](const char* name, double bytes, double smaller_cache) {
      const std::string fact = absl::StrCat(name, "_bytes_per_second"),
                        stream = absl::StrCat(name, "_stream_bytes_per_second");
      const size_t whole = static_cast<size_t>(bytes) / kReadGrain * kReadGrain;
      if (whole == 0 || bytes < 2 * smaller_cache || whole > memory_.size()) {
        const char* why = whole > memory_.size() ? "too little memory is available"
                          : whole == 0           ? "there is no such cache"
                                                 : "it is hardly larger than the caches before it";
        absent_[fact] = absent_[stream] = why;
        return size_t{0};
      }
      const std::string size = absl::StrCat(whole >> 10, " KiB");
      add_cached(fact, absl::StrCat("one core, ", kStreams, " streams of ", size), reads_.streams, whole);
      add_cached(stream, absl::StrCat("one core, one stream of ", size), reads_.one_stream, whole);
      return whole;
    };
    level("l1", l1 / 2, 0);
    level("l2", l2 / 2, l1);
    const size_t whole = level("l3", std::min(l3 / 4, std::max(4 * l2, 4e6)), l2);
    add_shared_cache(std::min(static_cast<double>(whole), l3 / 2 / team_.size()), l2);
  }

  void add_shared_cache(double bytes, double l2) {
    const char fact[] = "all_l3_bytes_per_second";
    const size_t share = static_cast<size_t>(bytes) / kReadGrain * kReadGrain;
    if (bytes < 2 * l2 || share == 0 || share > memory_.size() / team_.size()) {
      absent_[fact] = "a worker's share of L3 is hardly larger than L2, or too little memory is available";
      return;
    }
    constexpr int64_t kTimes = 4;
    add(fact, absl::StrCat(all(), ", each ", kStreams, " streams of ", share >> 10, " KiB"), Kind::kRate,
        [=] {
          const auto read = [&](int64_t index, int64_t times) {
            for (int64_t i = 0; i < times; ++i) reads_.streams(memory_.data() + share * index, share);
          };
          team_.run(team_.size(), [&](int64_t index) { read(index, 1); });
          const double seconds = team_.run(team_.size(), [&](int64_t index) { read(index, kTimes); });
          return static_cast<double>(share) * kTimes * team_.size() / seconds;
        });
  }

  // The next `bytes` of the memory. It returns to the start when the memory ends, long after a cache has lost them.
  const char* next_part(size_t bytes) {
    if (next_ + bytes > memory_.size()) next_ = 0;
    const char* part = memory_.data() + next_;
    next_ += bytes;
    return part;
  }

  void add_memory() {
    const double last = std::max(facts_.fact_or("l3_bytes", 0), facts_.fact_or("l2_bytes", 0));
    constexpr size_t kPart = size_t{24} << 20;
    const size_t workers = static_cast<size_t>(team_.size());
    const size_t share = std::min(kPart, memory_.size() / (4 * workers)) / kReadGrain * kReadGrain;
    const auto least = std::max(static_cast<size_t>(2 * last), 2 * kPart);
    if (memory_.size() < least) {
      const std::string why =
          absl::StrCat("reading past the caches needs ", least >> 20, " MiB; it got ", memory_.size() >> 20);
      for (const char* fact : {"core_bytes_per_second", "stream_bytes_per_second", "ahead_bytes_per_second",
                               "memory_bytes_per_second"})
        absent_[fact] = why;
      return;
    }
    const std::string pool = absl::StrCat(" of ", memory_.size() >> 20, " MiB");
    const auto one_core = [&](const char* fact, const std::string& what, ReadFn read) {
      add(fact, absl::StrCat("one core, ", what, pool), Kind::kRate, [=] {
        const char* part = next_part(kPart);
        return kPart / seconds_of([&] { read(part, kPart); });
      });
    };
    one_core("core_bytes_per_second", absl::StrCat(kStreams, " streams"), reads_.streams);
    one_core("stream_bytes_per_second", "one stream", reads_.one_stream);
    one_core("ahead_bytes_per_second", absl::StrCat(kStreams, " streams with prefetch"),
             reads_.streams_prefetch);
    add("memory_bytes_per_second", absl::StrCat(all(), ", each ", kStreams, " streams", pool), Kind::kRate,
        [=] {
          team_.wake();
          const char* part = next_part(workers * share);
          const double seconds =
              team_.run(team_.size(), [&](int64_t index) { reads_.streams(part + index * share, share); });
          return static_cast<double>(workers * share) / seconds;
        });
  }

  void add_steps() {
    if (team_.size() == 1) {
      for (const char* fact : {"task_seconds", "step_seconds", "wake_seconds"})
        absent_[fact] = "one worker has no steps to share";
      return;
    }
    constexpr int64_t kTasks = 500;  // of each worker
    add("task_seconds", absl::StrCat(all(), ", empty tasks"), Kind::kCost, [=] {
      team_.wake();
      return team_.run(kTasks * team_.size(), [](int64_t) {}) / kTasks;
    });
    // What a step takes beyond its longest task. The tasks are so long that a worker takes its own one in time.
    constexpr double kShortTask = 20e-6, kLongTask = 200e-6;
    add("step_seconds", absl::StrCat(all(), ", awake"), Kind::kCost, [=] {
      team_.wake();
      return team_.run(team_.size(), [](int64_t) { spin(kShortTask); }) - kShortTask;
    });
    add("wake_seconds", absl::StrCat(all(), ", asleep"), Kind::kCost, [=] {
      usleep(500);
      return team_.run(team_.size(), [](int64_t) { spin(kLongTask); }) - kLongTask;
    });
  }

  Measurement result() {
    Measurement out;
    out.absent = absent_;
    for (const Probe& probe : probes_) {
      if (probe.values.empty()) {
        out.absent[probe.fact] = "there was no time left";
        continue;
      }
      const double value = std::max(quantile(probe.values, quantile_of(probe.kind)), 1e-9);
      const double spread = spread_of(probe.values);
      if (spread > kUnsteady && probe.kind != Kind::kCost) ++out.unsteady;
      out.facts[probe.fact] = {value,
                               absl::StrCat("measured: ", probe.what, ", ", probe.values.size(),
                                            probe.values.size() == 1 ? " window" : " windows", ", spread ",
                                            static_cast<int>(std::lround(100 * spread)), " %")};
    }
    add_units(&out);
    ignore_noise(&out);
    return out;
  }

  void add_units(Measurement* out) const {
    const auto clock = out->facts.find("clock_hz"), rate = out->facts.find("f32_products_per_second");
    if (clock == out->facts.end() || rate == out->facts.end()) {
      out->absent["fma_units"] = "it needs the clock and the rate of f32 products";
      return;
    }
    const double units = rate->second.value / vector_lanes(facts_.target) / clock->second.value;
    out->facts["fma_units"] = {std::max(1.0, std::round(units)),
                               "measured: f32 products per second / (lanes * clock), rounded"};
  }

  void ignore_noise(Measurement* out) const {
    const auto core = out->facts.find("core_bytes_per_second"),
               ahead = out->facts.find("ahead_bytes_per_second");
    if (core == out->facts.end() || ahead == out->facts.end()) return;
    if (std::abs(ahead->second.value / core->second.value - 1) > kNoise) return;
    ahead->second.value = core->second.value;
    absl::StrAppend(&ahead->second.source, ", no difference to core_bytes_per_second beyond the noise");
  }

  const DeviceFacts& facts_;
  const double start_, seconds_;
  const MemoryBlock memory_;
  Team team_;
  const std::vector<RateLoop> loops_;
  const ReadLoops reads_;
  size_t next_ = 0;  // where next_part goes on
  std::vector<Probe> probes_;
  std::map<std::string, std::string> absent_;
};

}  // namespace

Measurement measure_cpu(const DeviceFacts& facts, const MeasureOptions& options) {
  return Measuring(facts, options).run();
}

size_t pool_bytes_for(const DeviceFacts& facts, int32_t workers, size_t available_bytes) {
  constexpr double kMost = 1.5e9, kLeast = 64e6;
  const double last = std::max(facts.fact_or("l3_bytes", 0), facts.fact_or("l2_bytes", 0));
  return static_cast<size_t>(
      std::min({std::max(4 * last * workers, kLeast), kMost, static_cast<double>(available_bytes) / 4}));
}

}  // namespace lathe
