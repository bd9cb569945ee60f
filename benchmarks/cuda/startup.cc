// Time of a first use, from a call with an empty cache to its result; and the host's time for a cached call,
// compared with a direct launch of the same kernel.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "cuda/bare_kernel.h"
#include "cuda/bench.h"
#include "report.h"
#include "temporary_directory.h"

namespace lathe::bench {
namespace {

lathe_matmul_desc small(void* a, void* w, void* d, lathe_dtype dtype, int64_t m, int64_t n, int64_t k) {
  return matmul_desc({a, dtype, m, k}, Matrix{w, dtype, n, k}.transposed(), {d, dtype, m, n});
}

bool first_use(const std::string& device_name, const CudaBenchOptions& options) {
  std::vector<double> seconds, compile, link;
  for (int i = 0; i < options.first_use_classes && !is_over(options); ++i) {
    // A new context without a disk cache: only the driver and the compiler library are warm.
    lathe_context_options none = LATHE_CONTEXT_OPTIONS_INIT;
    const char* const no_bundle = nullptr;
    none.cache_dir = none.remote = "";
    none.bundles = &no_bundle;
    const Context context(none);
    const Device device = context.open(device_name.c_str());
    const int64_t m = 1 + i % 16 * (i % 3 == 0 ? 1 : 17), n = options.first_use_n + 128 * i;
    const int64_t k = options.first_use_k;
    const Buffer data = device.allocate(static_cast<size_t>(n * k) * 2),
                 d = device.allocate(static_cast<size_t>(m * n) * 2);
    const Stream stream = device.stream();
    const double start = now_seconds();
    device.run(small(data.data(), data.data(), d.data(), options.dtype, m, n, k), stream);
    stream.synchronize();
    if (i > 0) seconds.push_back(now_seconds() - start);  // the first call loads the compiler library
    compile.push_back(context.statistics().compile_milliseconds);
    link.push_back(context.statistics().link_milliseconds);
  }
  std::printf(
      "first use, call to result: p50 %.0f ms, p90 %.0f ms of %zu classes (compile p50 %.0f ms, load p50 "
      "%.1f ms)\n",
      1e3 * median(seconds), 1e3 * quantile(seconds, 0.9), seconds.size(), median(compile), median(link));
  const double p50 = seconds.empty() ? std::numeric_limits<double>::quiet_NaN() : 1e3 * median(seconds);
  return meets_bar("first use p50", p50, 200, " ms", options.judged);
}

// Host seconds per enqueued call. Each round enqueues `options.enqueued` calls of every entrant in turn; the
// stream is empty before and after.
std::vector<Standing> contest_of_enqueuing(const Gpu& gpu, const std::vector<Entrant>& entrants,
                                           const CudaBenchOptions& options) {
  std::vector<Standing> standings(entrants.size());
  const double begin = now_seconds();
  for (int round = 0; round < 8 || (round < 1000 && now_seconds() - begin < 4 * options.seconds); ++round) {
    for (size_t turn = 0; turn < entrants.size(); ++turn) {
      const size_t e = (turn + static_cast<size_t>(round)) % entrants.size();
      const double start = now_seconds();
      for (int i = 0; i < options.enqueued; ++i) entrants[e].call();
      if (round > 0) standings[e].rounds.push_back((now_seconds() - start) / options.enqueued);
      gpu.device.synchronize(gpu.stream);
    }
  }
  for (Standing& standing : standings) standing.seconds = median(standing.rounds);
  return standings;
}

bool dispatch(const Gpu& gpu, const std::string& device_name, const CudaBenchOptions& options) {
  constexpr int64_t kN = 64, kK = 64;
  // The only kernel in a new cache directory. It is f32, because f32 kernels need no tensor maps.
  const TemporaryDirectory cache;
  lathe_context_options own = LATHE_CONTEXT_OPTIONS_INIT;
  const char* const no_bundle = nullptr;
  own.cache_dir = cache.path().c_str();
  own.remote = "";
  own.bundles = &no_bundle;
  const Context context(own);
  const Device device = context.open(device_name.c_str());
  const Stream stream = device.stream();
  std::vector<float> ones(kN * kK, 1.0f), twos(kK, 2.0f), result(kN, -1.0f);
  const Buffer a = device.allocate(kK * 4), w = device.allocate(kN * kK * 4), d = device.allocate(kN * 4);
  a.upload(twos.data(), a.bytes(), stream.get());
  w.upload(ones.data(), w.bytes(), stream.get());
  const lathe_matmul_desc desc = small(a.data(), w.data(), d.data(), LATHE_F32, 1, kN, kK);
  device.run(desc, stream);
  stream.synchronize();

  BareKernel bare(gpu.driver, cache.path(), {1, kN, kK, 1});
  ArgumentBlock& arguments = *bare.arguments();
  arguments.a = a.data();
  arguments.b = w.data();
  arguments.d = d.data();
  arguments.lda = arguments.ldb = kK;
  arguments.ldc = arguments.ldd = arguments.ldr = kN;
  const auto launch = [&] {
    if (const int answer = bare.enqueue(stream.get()); answer != 0)
      throw std::runtime_error("cuLaunchKernelEx returned " + std::to_string(answer));
  };
  d.upload(result.data(), d.bytes(), stream.get());
  launch();
  d.download(result.data(), d.bytes(), stream.get());
  stream.synchronize();
  if (std::any_of(result.begin(), result.end(), [](float x) { return x != 2 * kK; })) {
    std::fprintf(stderr, "bare launch: the kernel computed %g, expected %ld\n", result[0],
                 static_cast<long>(2 * kK));
    return false;
  }
  const Gpu there{gpu.driver, device, stream.get()};
  const std::vector<Standing> standings = contest_of_enqueuing(
      there, {{"lathe_matmul", [&] { device.run(desc, stream); }}, {"cuLaunchKernelEx", launch}}, options);
  const Ratio ratio = paired_ratio(standings[1], standings[0]);
  std::printf(
      "cached call: %.2f us, cuLaunchKernelEx of the same kernel: %.2f us (quartiles %.3f..%.3f), %d in "
      "flight\n",
      1e6 * standings[0].seconds, 1e6 * standings[1].seconds, ratio.low, ratio.high, options.enqueued);
  return meets_bar("cached call over a bare launch", ratio.median, 1.05, "x", options.judged);
}

}  // namespace

bool bench_cuda_startup(const Gpu& gpu, const std::string& device_name, const CudaBenchOptions& options) {
  const bool met = dispatch(gpu, device_name, options);
  return first_use(device_name, options) && met;
}

}  // namespace lathe::bench
