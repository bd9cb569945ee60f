// The CUDA benchmarks and what the command line asks of them.
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
  int candidates = 1;  // of Lathe's, a problem of matmul
  size_t skip = 0;     // problems of matmul that are left out, the first ones
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;  // of matmul
  bool ragged = true;
  double max_flop = 1e18;
  size_t pool_bytes = 0;                                      // that cold operands rotate over
  double seconds = 0.3;                                       // of every figure's contest
  double deadline = std::numeric_limits<double>::infinity();  // by now_seconds(): begin nothing after it
  int first_use_classes = 24;
  int64_t first_use_n = 2048, first_use_k = 4096;  // the least of the classes
  int enqueued =
      200;  // calls in a row whose host time is taken: few enough never to wait for the device's queue
  bool judged = true;  // whether a missed floor is a failure
  uint64_t seed = 0;
  std::string csv_directory, roofline_file;
};

inline bool is_over(const CudaBenchOptions& options) { return now_seconds() >= options.deadline; }

// Each prints its table, of the rows that it came to before the deadline. False: a result of Lathe's was
// wrong or a call of it failed, or a floor was missed; the reason is printed.
bool bench_cuda_matmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool,
                       CublasLt* peer);
bool bench_cuda_argmax(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool);
// First use on an empty cache, call to result; the host's time for a cached call beside a bare launch's.
bool bench_cuda_startup(const Gpu& gpu, const std::string& device_name, const CudaBenchOptions& options);

// Operations a second of a large square product, the peer's best; 0 without one.
double measure_matrix_peak(const Gpu& gpu, const DevicePool& pool, CublasLt* peer, lathe_dtype dtype);

}  // namespace lathe::bench
