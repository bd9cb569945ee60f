// What a first use costs, call to result, on an empty cache; and what a cached call costs the host beside a
// bare launch of a kernel with as many parameter bytes.
#include <cstdio>

#include "cuda/bench.h"
#include "report.h"

namespace lathe::bench {
namespace {

// As many parameter bytes as the argument block has, and nothing to do.
constexpr char kEmptyPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry empty(.param .align 8 .b8 block[200]) {
  ret;
}
)";
constexpr size_t kBlockBytes = 200;

lathe_matmul_desc small(const void* data, void* d, lathe_dtype dtype, int64_t m, int64_t n, int64_t k) {
  return matmul_desc({const_cast<void*>(data), dtype, m, k},
                     Matrix{const_cast<void*>(data), dtype, n, k}.transposed(), {d, dtype, m, n});
}

void first_use(const std::string& device_name, const CudaBenchOptions& options) {
  std::vector<double> seconds, compile, link;
  for (int i = 0; i < options.first_use_classes && !is_over(options); ++i) {
    // A context of its own without a disk: nothing is warm but the driver and the compiler library.
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
    device.run(small(data.data(), d.data(), options.dtype, m, n, k), stream);
    stream.synchronize();
    if (i > 0) seconds.push_back(now_seconds() - start);  // the first maps the compiler library
    compile.push_back(context.statistics().compile_milliseconds);
    link.push_back(context.statistics().link_milliseconds);
  }
  std::printf(
      "first use, call to result: p50 %.0f ms, p90 %.0f ms of %zu classes (compile p50 %.0f ms, load p50 "
      "%.1f ms)\n",
      1e3 * median(seconds), 1e3 * quantile(seconds, 0.9), seconds.size(), median(compile), median(link));
}

void dispatch(const Gpu& gpu, const CudaBenchOptions& options) {
  const Buffer data = gpu.device.allocate(1 << 20), d = gpu.device.allocate(1 << 20);
  const lathe_matmul_desc desc = small(data.data(), d.data(), options.dtype, 1, 64, 64);
  void* empty = gpu.driver.load_kernel(kEmptyPtx, "empty");
  const char block[kBlockBytes] = {};
  // Few enough in flight never to wait for the device's queue.
  constexpr int kCalls = 200;
  const auto timed = [&](const std::function<void()>& call) {
    return Entrant{"", [&, call] {
                     for (int i = 0; i < kCalls; ++i) call();
                     gpu.device.synchronize(gpu.stream);
                   }};
  };
  ContestOptions contest;
  contest.seconds = options.seconds * 4;
  const std::vector<Standing> standings =
      run_contest({timed([&] { gpu.device.run(desc, gpu.stream); }),
                   timed([&] { gpu.driver.launch(empty, 1, 128, gpu.stream, block, sizeof block); })},
                  contest);
  const Ratio ratio = paired_ratio(standings[0], standings[1]);
  std::printf(
      "cached call: %.2f us, bare cuLaunchKernel: %.2f us (bare over cached %.2f, quartiles %.2f..%.2f), "
      "streams of %d calls\n",
      1e6 * standings[0].seconds / kCalls, 1e6 * standings[1].seconds / kCalls, ratio.median, ratio.low,
      ratio.high, kCalls);
}

}  // namespace

bool bench_cuda_startup(const Gpu& gpu, const std::string& device_name, const CudaBenchOptions& options) {
  first_use(device_name, options);
  dispatch(gpu, options);
  return true;
}

}  // namespace lathe::bench
