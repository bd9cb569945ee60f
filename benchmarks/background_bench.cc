// Whether compiling kernels in the background slows down calls whose kernels are in the cache.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

// A decode step's layer: 16 MiB of weights read by every call.
constexpr int64_t kM = 1, kN = 2048, kK = 2048;
constexpr size_t kMostCalls = 4'000'000;
// Highest allowed ratio: p99 of hits while kernels are compiled over p99 on an idle machine.
constexpr double kMostP99 = 1.2;
// Time limit for the kernels that are still queued when a phase ends.
constexpr double kMostSeconds = 120;

struct Product {
  Product(int64_t m, int64_t n, int64_t k)
      : a(static_cast<size_t>(m * k), 1), b(static_cast<size_t>(n * k), 2), d(static_cast<size_t>(m * n)) {
    desc = linear({m, n, k}, a.data(), b.data(), d.data());
  }
  std::vector<float> a, b, d;
  lathe_matmul_desc desc;
};

// Latencies of `call` in microseconds, measured while `goes_on(now)` returns true.
template <typename Call, typename GoesOn>
std::vector<double> latencies(const Call& call, const GoesOn& goes_on) {
  std::vector<double> all;
  for (;;) {
    const double before = now_seconds();
    if (!goes_on(before) || all.size() == kMostCalls) return all;
    const double start = now_seconds();  // the time of goes_on() does not count
    call();
    all.push_back((now_seconds() - start) * 1e6);
  }
}

// One device with one compiler mode, and the measured latencies of its hits.
class Contest {
 public:
  Contest(const Options& options, lathe_compiler_mode compiler, int workers)
      : options_(options), device_(context_options(compiler, workers)), hit_(kM, kN, kK) {}

  bool run() {
    if (!device_.ok() || !succeeded(lathe_matmul(device_.get(), nullptr, &hit_.desc), "the first call"))
      return false;
    // Idle and compiling phases alternate, so that drift of the machine affects both.
    for (int round = 0; round < options_.background_rounds; ++round)
      if (!idle_phase() || !busy_phase()) return false;
    return true;
  }

  // Returns whether the bar is met.
  bool report(const std::string& compiler, int workers, Table* table) const {
    double p99 = 0;
    for (const double q : {0.5, 0.99}) {
      std::vector<double> quiet, loud, ratios;
      for (size_t i = 0; i < idle_.size(); ++i) {
        quiet.push_back(quantile(idle_[i], q));
        loud.push_back(quantile(busy_[i], q));
        ratios.push_back(loud.back() / quiet.back());
      }
      table->add({compiler, std::to_string(workers), q == 0.5 ? "p50" : "p99",
                  number(quantile(quiet, 0.5), 1), number(quantile(loud, 0.5), 1),
                  number(quantile(ratios, 0.5), 2),
                  number(quantile(ratios, 0), 2) + " to " + number(quantile(ratios, 1), 2)});
      p99 = quantile(ratios, 0.5);
    }
    size_t quiet = 0, loud = 0;
    int beside = 0;
    for (const int compiled : compiled_) beside += compiled;
    for (const auto& phase : idle_) quiet += phase.size();
    for (const auto& phase : busy_) loud += phase.size();
    std::printf(
        "compiler %s, %d worker(s): %zu phases of each kind, %zu calls while idle, %zu while %d kernels were "
        "queued; %d of these were compiled during the calls\n",
        compiler.c_str(), workers, idle_.size(), quiet, loud, queued_, beside);
    // With workers on every core a compilation of about 30 ms can take seconds. With one worker the compiler
    // has a core of its own, so some kernels must be ready.
    if (workers == 1 && beside == 0 && !options_.smoke) {
      std::fprintf(stderr, "background: no kernel was compiled during the calls\n");
      return false;
    }
    return meets_bar("p99 of hits while compiling over idle, compiler " + compiler + ", " +
                         std::to_string(workers) + " worker(s)",
                     p99, kMostP99, "", !options_.smoke);
  }

 private:
  static lathe_context_options context_options(lathe_compiler_mode compiler, int workers) {
    lathe_context_options o = LATHE_CONTEXT_OPTIONS_INIT;
    o.cache_dir = "";
    o.workers = workers;
    o.compiler = compiler;
    return o;
  }
  void hit() { lathe_matmul(device_.get(), nullptr, &hit_.desc); }

  bool idle_phase() {
    for (int i = 0; i < 20; ++i) hit();
    const double end = now_seconds() + options_.seconds;
    idle_.push_back(latencies([this] { hit(); }, [end](double now) { return now < end; }));
    return true;
  }

  // Lasts while kernels are queued, at most as long as an idle phase.
  bool busy_phase() {
    const int before = queued_;
    if (!queue_misses()) return false;
    for (int i = 0; i < 20; ++i) hit();
    const double end = now_seconds() + options_.seconds;
    int calls = 0;
    busy_.push_back(latencies([this] { hit(); },
                              [&](double now) {
                                return now < end &&
                                       (++calls % 16 != 0 || device_.statistics().background_waiting > 0);
                              }));
    compiled_.push_back(static_cast<int>(device_.statistics().background_compiles) - before);
    // Let the remaining kernels finish without calls, so that the next phase is idle again.
    const double patience = now_seconds() + kMostSeconds;
    while (device_.statistics().background_compiles < static_cast<uint64_t>(queued_)) {
      if (device_.statistics().compile_failures > 0 || now_seconds() > patience) {
        std::fprintf(stderr, "background: a queued kernel failed to compile or took longer than 120 s\n");
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  // Calls with classes that are not cached: each runs on a generic kernel and queues its own kernel.
  bool queue_misses() {
    for (int i = 0; i < options_.background_classes; ++i) {
      Product fresh(8, 256 + 16 * queued_, 256);
      fresh.desc.miss_policy = LATHE_MISS_FALLBACK;
      if (!succeeded(lathe_matmul(device_.get(), nullptr, &fresh.desc), "a miss")) return false;
      ++queued_;
    }
    if (device_.statistics().fallback_runs >= static_cast<uint64_t>(queued_)) return true;
    std::fprintf(stderr, "background: a miss had no generic kernel: is lathe-fallback.bundle missing?\n");
    return false;
  }

  const Options& options_;
  BenchDevice device_;
  Product hit_;
  int queued_ = 0;
  std::vector<std::vector<double>> idle_, busy_;  // by round
  std::vector<int> compiled_;                     // kernels compiled during calls, by round
};

}  // namespace

bool bench_background(const Options& options) {
  Table table("hits while the background thread compiles, matmul f32 1x2048x2048, us a call: medians over " +
                  std::to_string(options.background_rounds) + " rounds",
              {"compiler", "workers", "what", "idle", "compiling", "ratio", "ratios of rounds"});
  bool right = true;
  for (const auto& [name, compiler] :
       {std::pair{"inprocess", LATHE_COMPILER_INPROCESS}, std::pair{"process", LATHE_COMPILER_PROCESS}})
    for (const int workers : {1, 2}) {
      Contest contest(options, compiler, workers);
      right &= contest.run() && contest.report(name, workers, &table);
    }
  table.print();
  table.write_csv(options.csv_directory, "background.csv");
  return right && table.is_written();
}

}  // namespace lathe::bench
