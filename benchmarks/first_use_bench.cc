// From a call on an empty cache to its result, and from a cache on disk to a kernel that can run.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "contest.h"
#include "options.h"
#include "report.h"
#include "temporary_directory.h"

namespace lathe::bench {
namespace {

// Operands of modest size, so that compiling and not computing is what is timed.
struct Request {
  int64_t m, n, k;
  bool trans_b;
  lathe_activation activation;
};

std::vector<Request> requests(int count) {
  const int64_t rows[] = {1, 2, 4, 8, 16, 24, 48, 96, 200, 512};
  const int64_t sizes[][2] = {{1024, 1024}, {1536, 512}, {2112, 1792}, {256, 4096}, {4096, 576}};
  std::vector<Request> list;
  for (int i = 0; i < count; ++i) {
    const auto& size = sizes[i % 5];
    // Every class once: N differs by 16 from one turn of the lists to the next.
    list.push_back({rows[i % 10], size[0] + 16 * (i / 10), size[1], i % 3 != 2,
                    i % 4 == 3 ? LATHE_ACTIVATION_SILU : LATHE_ACTIVATION_NONE});
  }
  return list;
}

struct Operands {
  explicit Operands(uint64_t seed) : a(512 * 4096), b(5000 * 4096), d(512 * 5000) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal;
    for (float& x : a) x = normal(engine);
    for (float& x : b) x = normal(engine);
  }
  lathe_matmul_desc desc(const Request& r) {
    lathe_matmul_desc desc = linear({r.m, r.n, r.k, r.trans_b}, a.data(), b.data(), d.data());
    desc.epilogue.activation = r.activation;
    return desc;
  }
  std::vector<float> a, b, d;
};

}  // namespace

bool bench_first_use(const Options& options) {
  Operands operands(options.seed);
  // Maps the compiler and keeps it mapped; what that costs is reported apart.
  const TemporaryDirectory keeper_cache;
  BenchDevice keeper(options.threads, keeper_cache.path());
  if (!keeper.ok()) return false;
  const lathe_matmul_desc first = operands.desc({3, 100, 100, true, LATHE_ACTIVATION_NONE});
  if (!succeeded(lathe_matmul(keeper.get(), nullptr, &first), "first use")) return false;
  const double load = keeper.statistics().compiler_load_milliseconds;

  std::vector<double> total, compile, link, run;
  for (const Request& request : requests(options.first_use_classes)) {
    const TemporaryDirectory cache;
    BenchDevice device(options.threads, cache.path());
    if (!device.ok()) return false;
    const lathe_matmul_desc desc = operands.desc(request);
    const double start = now_seconds();
    if (!succeeded(lathe_matmul(device.get(), nullptr, &desc), "first use")) return false;
    const double milliseconds = (now_seconds() - start) * 1e3;
    const double again = now_seconds();
    if (!succeeded(lathe_matmul(device.get(), nullptr, &desc), "second use")) return false;
    const lathe_statistics statistics = device.statistics();
    if (statistics.compiles == 0) {
      std::fprintf(stderr, "first use: nothing was compiled\n");
      return false;
    }
    total.push_back(milliseconds - statistics.compiler_load_milliseconds);
    compile.push_back(statistics.compile_milliseconds);
    link.push_back(statistics.link_milliseconds);
    run.push_back((now_seconds() - again) * 1e3);
  }
  Table table("first use: call to result on an empty cache, " + std::to_string(total.size()) + " classes",
              {"part", "p50 ms", "p10 ms", "p90 ms", "max ms"});
  const auto add = [&table](const char* part, const std::vector<double>& values) {
    table.add({part, number(median(values), 2), number(quantile(values, 0.1), 2),
               number(quantile(values, 0.9), 2), number(quantile(values, 1), 2)});
  };
  add("call to result", total);
  add("of it compiling", compile);
  add("of it linking", link);
  add("the second call", run);
  table.add({"loading the compiler library, once a process", number(load, 2), "-", "-", "-"});
  table.print();
  table.write_csv(options.csv_directory, "first_use.csv");
  return true;
}

bool fill_cache(const Options& options, const std::string& cache_directory) {
  BenchDevice device(options.threads, cache_directory);
  if (!device.ok()) return false;
  Operands operands(options.seed);
  for (const Request& request : requests(options.warm_kernels)) {
    const lathe_matmul_desc desc = operands.desc(request);
    lathe_plan* plan = nullptr;
    if (!succeeded(lathe_plan_matmul(device.get(), &desc, &plan), "filling the cache")) return false;
    lathe_plan_destroy(plan);
  }
  return true;
}

bool bench_warm(const Options& options) {
  const TemporaryDirectory cache;
  const std::string command = "'" + options.program + "' --fill_cache='" + cache.path() +
                              "' --threads=" + std::to_string(options.threads) +
                              " --warm_kernels=" + std::to_string(options.warm_kernels);
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "warm: %s failed\n", command.c_str());
    return false;
  }
  Operands operands(options.seed);
  std::vector<double> each, all, disk, link;
  uint64_t loaded = 0, compiles = 0;
  for (int process = 0; process < 5; ++process) {
    BenchDevice device(options.threads, cache.path());
    if (!device.ok()) return false;
    const double begin = now_seconds();
    for (const Request& request : requests(options.warm_kernels)) {
      const lathe_matmul_desc desc = operands.desc(request);
      lathe_plan* plan = nullptr;
      const double start = now_seconds();
      if (!succeeded(lathe_plan_matmul(device.get(), &desc, &plan), "warm")) return false;
      each.push_back((now_seconds() - start) * 1e3);
      lathe_plan_destroy(plan);
    }
    all.push_back((now_seconds() - begin) * 1e3);
    const lathe_statistics statistics = device.statistics();
    loaded += statistics.compiler_loaded;
    compiles += statistics.compiles;
    disk.push_back(statistics.disk_load_milliseconds / options.warm_kernels);
    link.push_back(statistics.link_milliseconds / options.warm_kernels);
  }
  Table table("warm start: from disk to a kernel that can run", {"what", "p50 ms", "p90 ms", "max ms"});
  const auto add = [&table](const std::string& what, const std::vector<double>& values) {
    table.add(
        {what, number(median(values), 3), number(quantile(values, 0.9), 3), number(quantile(values, 1), 3)});
  };
  add("a kernel", each);
  add("of it reading and checking", disk);
  add("of it linking", link);
  add(std::to_string(options.warm_kernels) + " kernels", all);
  table.print();
  table.write_csv(options.csv_directory, "warm.csv");
  std::printf("compiles %llu, compiler library loaded %s\n", static_cast<unsigned long long>(compiles),
              loaded ? "yes" : "no");
  return compiles == 0;
}

}  // namespace lathe::bench
