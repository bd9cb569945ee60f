// Whether kernels that are compiled in the background slow down calls whose kernels are there.
#include <chrono>
#include <cstdio>
#include <thread>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

// A decode step's layer: 16 MiB of weights read by every call.
constexpr int64_t kM = 1, kN = 2048, kK = 2048;
constexpr size_t kMostCalls = 4'000'000;

struct Product {
  Product(int64_t m, int64_t n, int64_t k)
      : a(static_cast<size_t>(m * k), 1), b(static_cast<size_t>(n * k), 2), d(static_cast<size_t>(m * n)) {
    desc = linear({m, n, k}, a.data(), b.data(), d.data());
  }
  std::vector<float> a, b, d;
  lathe_matmul_desc desc;
};

// Latencies of `call` in microseconds, while `goes_on(now)`.
template <typename Call, typename GoesOn>
std::vector<double> latencies(const Call& call, const GoesOn& goes_on) {
  std::vector<double> all;
  for (double now = now_seconds(); goes_on(now) && all.size() < kMostCalls;) {
    call();
    const double after = now_seconds();
    all.push_back((after - now) * 1e6);
    now = after;
  }
  return all;
}

// Misses of classes that nobody met, each of which runs on a generic kernel and is queued.
bool queue_misses(lathe_device* device, int count) {
  for (int i = 0; i < count; ++i) {
    Product fresh(8, 256 + 16 * i, 256);
    fresh.desc.miss_policy = LATHE_MISS_FALLBACK;
    if (!succeeded(lathe_matmul(device, nullptr, &fresh.desc), "a miss")) return false;
  }
  return true;
}

bool measure(const Options& options, int threads, Table* table) {
  BenchDevice device(threads, "");
  if (!device.ok()) return false;
  Product hit(kM, kN, kK);
  const auto call = [&] { lathe_matmul(device.get(), nullptr, &hit.desc); };
  if (!succeeded(lathe_matmul(device.get(), nullptr, &hit.desc), "the first call")) return false;
  const auto until = [](double end) { return [end](double now) { return now < end; }; };
  // Half before and half after, so that what drifts is in both.
  std::vector<double> idle = latencies(call, until(now_seconds() + options.seconds / 2));
  if (!queue_misses(device.get(), options.background_classes)) return false;
  const uint64_t compiles = device.statistics().background_compiles;
  // For the time asked for, at least until a kernel is made, and no longer than there are some to make.
  const double end = now_seconds() + options.seconds;
  uint64_t made = 0;
  int calls = 0;
  const std::vector<double> busy = latencies(call, [&](double now) {
    if (++calls % 64 != 0) return true;
    const lathe_statistics s = device.statistics();
    made = s.background_compiles - compiles;
    const bool fails = s.compile_failures > 0 || now > end + 30;
    return !fails && (made == 0 || (s.background_waiting > 0 && now < end));
  });
  if (made == 0) {
    std::fprintf(stderr, "background: nothing was compiled meanwhile\n");
    return false;
  }
  // The rest with the cores to itself, or it would wait behind these calls.
  while (device.statistics().background_waiting > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<double> after = latencies(call, until(now_seconds() + options.seconds / 2));
  idle.insert(idle.end(), after.begin(), after.end());
  const auto add = [&](const std::string& what, double q) {
    const double quiet = quantile(idle, q), loud = quantile(busy, q);
    table->add({std::to_string(threads), what, number(quiet, 1), number(loud, 1), number(loud / quiet, 2)});
  };
  add("p50", 0.5);
  add("p99", 0.99);
  add("p99.9", 0.999);
  std::printf("%d worker(s): %zu calls idle, %zu while %llu kernels were compiled\n", threads, idle.size(),
              busy.size(), static_cast<unsigned long long>(made));
  return true;
}

}  // namespace

bool bench_background(const Options& options) {
  Table table("hits while the background thread compiles, matmul f32 1x2048x2048, us a call",
              {"workers", "what", "idle", "compiling", "ratio"});
  const bool right = measure(options, 1, &table) && measure(options, 2, &table);
  table.print();
  table.write_csv(options.csv_directory, "background.csv");
  return right;
}

}  // namespace lathe::bench
