// What the command line asks of a benchmark.
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

// Of first_use and of warm: the operands that all share hold no larger one.
constexpr int kMostClasses = 570;

struct Options {
  Strings modes;
  std::vector<Shape> shapes;
  // Qwen2.5-0.5B's head, and one of 32000 words that fits a small pool.
  std::vector<Shape> heads = {{"", 151936, 896}, {"", 32000, 1024}};
  std::vector<int64_t> decode_m, prefill_m;
  std::vector<int64_t> argmax_rows, argmax_n;
  std::vector<int64_t> single_cubed = {8, 16, 24, 32, 48, 64}, batched_cubed = {32, 48, 64, 96, 128};
  std::vector<std::string> argmax_dtypes, matmul_dtypes;
  int threads = 1;
  bool trans_b = true;
  bool ragged = true;  // the 123x456x51234 case
  std::vector<Shape> odd = {{"odd", 4097, 4095}, {"odd", 17, 8191}};
  bool packed = true;      // Lathe with packed weights too
  double max_flop = 1e18;  // larger shapes are left out
  double seconds = 1.0;    // of every figure's contest
  size_t pool_bytes = 0;
  int first_use_classes = 24;
  int warm_kernels = 64;
  int oracle_candidates = 24;
  int oracle_tuned = 8;  // of them, measured by tuning
  int background_classes = 30, background_rounds = 9;
  bool smoke = false;  // no figure is judged
  uint64_t seed = 0;
  std::string csv_directory, roofline_file;
  PeerLibraries peer_libraries;
  std::string program;  // this executable, for a process of its own
};

// The benchmarks; each prints its table. False: a result was wrong, a call failed or the table could not be
// written (the reason is printed).
struct Bench {
  const Options& options;
  Pool* pool;
  const Reader* reader = nullptr;
  double read_bandwidth = 0;  // the reader's, bytes per second
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
// Compiles bench_warm's kernels into `cache_directory`; runs in a process of its own.
bool fill_cache(const Options& options, const std::string& cache_directory);

// A context and a device of the CPU; prints the reason when there is none.
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

// Prints the failure and the library's message; true for OK.
bool succeeded(lathe_status status, const char* what);

// A PyTorch Linear: A [m, k] row-major times W, [n, k] if trans_b.
// D is f32, of bytes i32.
lathe_matmul_desc linear(const Gemm& gemm, const void* a, const void* b, void* d);

}  // namespace lathe::bench
