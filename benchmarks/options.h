// The options of lathe_bench, and what its benchmarks share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "machine.h"
#include "peers.h"
#include "roofline.h"
#include "shapes.h"

namespace lathe::bench {

// Limit for first_use and warm: their shared operands are not large enough for more classes.
constexpr int kMostClasses = 570;

struct Options {
  Strings modes;
  std::vector<Shape> shapes;
  // The head of Qwen2.5-0.5B, and one of 32000 tokens that fits a small pool.
  std::vector<Shape> heads = {{"", 151936, 896}, {"", 32000, 1024}};
  std::vector<int64_t> decode_m, prefill_m;
  std::vector<int64_t> argmax_rows, argmax_n;
  std::vector<int64_t> single_cubed = {8, 16, 24, 32, 48, 64}, batched_cubed = {32, 48, 64, 96, 128};
  std::vector<std::string> argmax_dtypes, matmul_dtypes;
  int threads = 1;
  bool trans_b = true;
  bool ragged = true;  // the 123x456x51234 case
  std::vector<Shape> odd = {{"odd", 4097, 4095}, {"odd", 17, 8191}};
  bool packed = true;      // also measure Lathe with packed weights
  double max_flop = 1e18;  // larger shapes are left out
  double seconds = 1.0;    // for each figure
  size_t pool_bytes = 0;
  int first_use_classes = 24;
  int warm_kernels = 64;
  int oracle_candidates = 24;
  int oracle_tuned = 8;  // how many of the candidates tuning may measure
  int background_classes = 30, background_rounds = 9;
  bool smoke = false;  // tiny shapes; no figure is judged
  uint64_t seed = 0;
  std::string csv_directory, roofline_file;
  PeerLibraries peer_libraries;
  std::string program;  // this executable, to start another process
};

// The benchmarks. Each prints its table, and returns false if a result is wrong, a call fails or the table
// cannot be written; the reason is printed.
struct Bench {
  const Options& options;
  Pool* pool;
  const Reader* reader = nullptr;
  double read_bandwidth = 0;  // bytes per second, measured by `reader`
  double fma_peak = 0;        // operations per second
  std::vector<std::unique_ptr<Peer>>* peers = nullptr;
  Roofline* roofline = nullptr;
};
bool bench_matmul(const Bench& bench);
bool bench_argmax(const Bench& bench);
bool bench_oracle(const Bench& bench);
bool bench_small(const Bench& bench);
bool bench_head(const Bench& bench);
bool bench_first_use(const Options& options);
bool bench_warm(const Options& options);
bool bench_dispatch(const Options& options);
bool bench_background(const Options& options);
// Compiles the kernels of bench_warm into `cache_directory`. bench_warm runs it in another process.
bool fill_cache(const Options& options, const std::string& cache_directory);

// A context with a CPU device. Prints the reason if it cannot be created.
class BenchDevice {
 public:
  BenchDevice(int workers, const std::string& cache_directory);
  explicit BenchDevice(const lathe_context_options& options);
  ~BenchDevice();
  BenchDevice(const BenchDevice&) = delete;
  BenchDevice& operator=(const BenchDevice&) = delete;
  lathe_device* get() const { return device_; }
  lathe_context* context() const { return context_; }
  bool ok() const { return device_ != nullptr; }
  lathe_statistics statistics() const;

 private:
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
};

// True for LATHE_OK; else prints `what`, the status and the library's message.
bool succeeded(lathe_status status, const char* what);

// The product of a PyTorch Linear: A [m, k], row-major, times W, which is [n, k] if trans_b and else [k, n].
// D is f32, for i8 i32.
lathe_matmul_desc linear(const Gemm& gemm, const void* a, const void* b, void* d);

}  // namespace lathe::bench
