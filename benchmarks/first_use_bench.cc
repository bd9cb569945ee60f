// Two start-up times: from a call with an empty cache to its result (first_use), and from a cache on disk to
// kernels that can run (warm).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "contest.h"
#include "options.h"
#include "report.h"
#include "temporary_directory.h"

namespace lathe::bench {
namespace {

// Operands are small, so that compilation dominates the time.
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
    // Every class is different: N grows by 16 whenever the lists repeat.
    list.push_back({rows[i % 10], size[0] + 16 * (i / 10), size[1], i % 3 != 2,
                    i % 4 == 3 ? LATHE_ACTIVATION_SILU : LATHE_ACTIVATION_NONE});
  }
  return list;
}

struct Operands {
  static constexpr int kMostN = 5000;
  static_assert(4096 + 16 * ((kMostClasses - 1) / 10) <= kMostN);
  explicit Operands(uint64_t seed) : a(512 * 4096), b(kMostN * 4096), d(512 * kMostN) {
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
  // Loads the compiler library and keeps it loaded. Its load time is reported separately.
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
      std::fprintf(stderr, "first use: the call compiled no kernel, expected one\n");
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
  meets_bar("call to result on an empty cache, p50", median(total), 30, " ms", !options.smoke);
  return table.is_written();
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

namespace {

// Warm starts from one kind of store, with the kernels that fill_cache() compiled.
struct WarmStarts {
  std::vector<double> each, all, read, link, together;  // milliseconds
  uint64_t compiles = 0;
};

// The bar: loading this many kernels from a bundle takes at most this long. Other counts are not judged.
constexpr int kKernelsOfBar = 64;
constexpr double kMostMilliseconds = 50;

bool meets_bars(const Options& options, const WarmStarts& bundled) {
  const bool judged = !options.smoke && options.warm_kernels == kKernelsOfBar;
  const std::string what = std::to_string(options.warm_kernels) + " kernels from a bundle, ";
  const bool each =
      meets_bar(what + "one after the other", median(bundled.all), kMostMilliseconds, " ms", judged);
  const bool all =
      meets_bar(what + "context to ready", median(bundled.together), kMostMilliseconds, " ms", judged);
  return each && all;
}

bool compiler_is_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("liblathe-compiler") != std::string::npos) return true;
  return false;
}

// Loads the kernels one after the other, as calls would.
bool load_one_by_one(const Options& options, const lathe_context_options& store, Operands* operands,
                     WarmStarts* out) {
  BenchDevice device(store);
  if (!device.ok()) return false;
  const double begin = now_seconds();
  for (const Request& request : requests(options.warm_kernels)) {
    const lathe_matmul_desc desc = operands->desc(request);
    lathe_plan* plan = nullptr;
    const double start = now_seconds();
    if (!succeeded(lathe_plan_matmul(device.get(), &desc, &plan), "warm")) return false;
    out->each.push_back((now_seconds() - start) * 1e3);
    lathe_plan_destroy(plan);
  }
  out->all.push_back((now_seconds() - begin) * 1e3);
  const lathe_statistics statistics = device.statistics();
  out->compiles += statistics.compiles;
  out->read.push_back(statistics.disk_load_milliseconds / options.warm_kernels);
  out->link.push_back(statistics.link_milliseconds / options.warm_kernels);
  return true;
}

// Creates a context and a device and warms up all recorded kernels at once, on all cores.
bool load_together(const Options& options, const lathe_context_options& store, const lathe_manifest* manifest,
                   WarmStarts* out) {
  const double begin = now_seconds();
  BenchDevice device(store);
  if (!device.ok()) return false;
  lathe_warmup_options all_cores = LATHE_WARMUP_OPTIONS_INIT;
  all_cores.parallelism = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  if (!succeeded(lathe_warmup(device.get(), manifest, &all_cores, &report), "warm-up")) return false;
  out->together.push_back((now_seconds() - begin) * 1e3);
  out->compiles += report.compiled;
  if (report.loaded == static_cast<uint64_t>(options.warm_kernels)) return true;
  std::fprintf(stderr, "warm: lathe_warmup loaded %llu kernels, expected %d\n",
               static_cast<unsigned long long>(report.loaded), options.warm_kernels);
  return false;
}

bool read_manifest(const std::string& path, lathe_manifest* manifest) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return succeeded(lathe_manifest_parse(manifest, text.data(), text.size()), "the recording");
}

bool measure_warm(const Options& options, lathe_context_options store, const std::string& recording,
                  Operands* operands, WarmStarts* out) {
  // The first run records the requests. Recording takes time, so this run does not count.
  WarmStarts recorded;
  store.record = recording.c_str();
  if (!load_one_by_one(options, store, operands, &recorded)) return false;
  store.record = "";
  lathe_manifest* manifest = nullptr;
  if (!succeeded(lathe_manifest_create(&manifest), "manifest")) return false;
  bool right = read_manifest(recording, manifest);
  for (int start = 0; start < 5 && right; ++start)
    right = load_one_by_one(options, store, operands, out) && load_together(options, store, manifest, out);
  lathe_manifest_destroy(manifest);
  return right;
}

void add_rows(const Options& options, const std::string& store, const WarmStarts& starts, Table* table) {
  const auto add = [&](const std::string& what, const std::vector<double>& values) {
    table->add({store, what, number(median(values), 3), number(quantile(values, 0.9), 3),
                number(quantile(values, 1), 3)});
  };
  const std::string count = std::to_string(options.warm_kernels);
  add("a kernel", starts.each);
  add("of it reading and checking", starts.read);
  add("of it linking", starts.link);
  add(count + " kernels, one after the other", starts.all);
  add(count + " kernels, context to ready by lathe_warmup on all cores", starts.together);
}

}  // namespace

bool bench_warm(const Options& options) {
  const TemporaryDirectory cache;
  const std::string command = "'" + options.program + "' --fill_cache='" + cache.path() +
                              "' --mode=warm --threads=" + std::to_string(options.threads) +
                              " --warm_kernels=" + std::to_string(options.warm_kernels);
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "warm: %s failed\n", command.c_str());
    return false;
  }
  const TemporaryDirectory files;
  const std::string bundle = files.path() + "/kernels.bundle", cache_path = cache.path();
  const char* sources[] = {cache_path.c_str()};
  const char* bundles[] = {bundle.c_str()};
  if (!succeeded(lathe_bundle_write(bundle.c_str(), sources, 1, nullptr, nullptr), "the bundle"))
    return false;

  Operands operands(options.seed);
  lathe_context_options from_disk = LATHE_CONTEXT_OPTIONS_INIT, from_bundle = LATHE_CONTEXT_OPTIONS_INIT;
  from_disk.workers = from_bundle.workers = options.threads;
  from_disk.cache_dir = cache_path.c_str();
  from_bundle.cache_dir = "";
  from_bundle.bundles = bundles;
  from_bundle.bundle_count = 1;
  WarmStarts disk, bundled;
  if (!measure_warm(options, from_disk, files.path() + "/disk.json", &operands, &disk)) return false;
  if (!measure_warm(options, from_bundle, files.path() + "/bundle.json", &operands, &bundled)) return false;

  Table table("warm start: from a store to kernels that can run",
              {"store", "what", "p50 ms", "p90 ms", "max ms"});
  add_rows(options, "directory", disk, &table);
  add_rows(options, "bundle", bundled, &table);
  table.print();
  table.write_csv(options.csv_directory, "warm.csv");
  const uint64_t compiles = disk.compiles + bundled.compiles;
  std::printf("compiles %llu, compiler library mapped: %s\n", static_cast<unsigned long long>(compiles),
              compiler_is_mapped() ? "yes" : "no");
  const bool met = meets_bars(options, bundled);
  return met && compiles == 0 && !compiler_is_mapped() && table.is_written();
}

}  // namespace lathe::bench
