// The CUDA benchmarks and their options.
#pragma once

#include <limits>

#include "cuda/cublaslt.h"
#include "cuda/gpu.h"
#include "shapes.h"

namespace lathe::bench {

struct CudaBenchOptions {
  int device = 0;
  Strings modes;
  std::vector<Shape> shapes;
  std::vector<int64_t> m, argmax_rows, argmax_n;
  lathe_dtype dtype = LATHE_BF16;
  std::string dtype_name = "bf16";
  int candidates = 1;  // how many of Lathe's candidates are measured for each matmul problem
  size_t skip = 0;     // the first matmul problems that are left out
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;  // for matmul
  bool ragged = true;
  double max_flop = 1e18;
  size_t pool_bytes = 0;                                      // cold operands rotate over it
  double seconds = 0.3;                                       // for each figure
  double deadline = std::numeric_limits<double>::infinity();  // by now_seconds(): start no row after it
  int first_use_classes = 24;
  int64_t first_use_n = 2048, first_use_k = 4096;  // the smallest class
  // Calls in a row whose host time is measured: few enough that the device's queue never fills.
  int enqueued = 200;
  bool judged = true;  // whether a missed floor is a failure
  uint64_t seed = 0;
  std::string csv_directory, roofline_file;
};

inline bool is_over(const CudaBenchOptions& options) { return now_seconds() >= options.deadline; }

// Each prints a table of the rows that were measured before the deadline. Returns false if a result of Lathe
// is wrong, a call of Lathe fails or a floor is missed; the reason is printed.
bool bench_cuda_matmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool,
                       CublasLt* peer);
bool bench_cuda_argmax(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool);
// Time from a call on an empty cache to its result, and the host's time for a cached call and a direct
// launch.
bool bench_cuda_startup(const Gpu& gpu, const std::string& device_name, const CudaBenchOptions& options);

// Operations per second of the peer's fastest algorithm for a large square product; 0 without a peer.
double measure_matrix_peak(const Gpu& gpu, const DevicePool& pool, CublasLt* peer, lathe_dtype dtype);

}  // namespace lathe::bench
