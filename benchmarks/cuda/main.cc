// lathe_cuda_bench: measures Lathe on a CUDA device against cuBLASLt and the roofline of the same run. See
// README.md.
#include <algorithm>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_join.h"
#include "cuda/bench.h"
#include "flag_values.h"

using lathe::bench::Strings;

namespace {
const Strings kModes = {"startup", "argmax", "matmul"};
}

ABSL_FLAG(std::string, device, "0", "ordinal of the CUDA device");
ABSL_FLAG(Strings, mode, kModes, "what to measure: " + absl::StrJoin(kModes, ", "));
ABSL_FLAG(std::string, shapes, "", "file of weights with lines model,layer,n,k; empty: none");
ABSL_FLAG(Strings, models, Strings({"all"}), "models whose weights are measured; all: every model");
ABSL_FLAG(Strings, m, Strings({"1", "8", "16", "512", "2048", "8192", "2", "4", "32", "64", "128"}),
          "values of M, measured in this order");
ABSL_FLAG(Strings, argmax_rows, Strings({"1", "2", "4", "8", "16", "32", "64", "128", "256"}),
          "rows for argmax");
ABSL_FLAG(Strings, argmax_n, Strings({"32000", "128256", "151936", "201088"}), "row lengths for argmax");
ABSL_FLAG(std::string, dtype, "bf16",
          "f16 or bf16; with --mode=matmul also f8_e4m3 (D is bf16) and i8 (D is i32)");
ABSL_FLAG(
    std::string, candidates, "1",
    "how many of the oracle's candidates are measured for each matmul, best rank first; more than 1: also "
    "the best of each other family");
ABSL_FLAG(std::string, skip, "0",
          "leave out this many matmul problems at the start, and append to the CSV files");
ABSL_FLAG(std::string, dependent_launch, "off",
          "off, on or constant_b: whether Lathe's matmul may start before the previous kernel has finished");
ABSL_FLAG(bool, ragged, true, "also measure 123x456x51234");
ABSL_FLAG(std::string, max_tflop, "20", "leave out shapes that need more TFLOP");
ABSL_FLAG(std::string, pool_mib, "2560", "MiB of memory that cold operands rotate over");
ABSL_FLAG(std::string, seconds, "0.3", "seconds for one figure");
ABSL_FLAG(std::string, deadline, "0",
          "start no row after this many seconds and report the rows so far; 0: no deadline");
ABSL_FLAG(bool, alone, false, "measure matmul without cuBLASLt");
ABSL_FLAG(bool, smoke, false, "run with tiny sizes, to test the program; no figure is judged");
ABSL_FLAG(std::string, seed, "0", "seed of the inputs; 0: a random one. The seed is printed");
ABSL_FLAG(std::string, roofline, "", "SVG file for a roofline plot of the matmul figures; empty: none");
ABSL_FLAG(std::string, csv, "", "directory for the tables as CSV files; empty: none");

namespace lathe::bench {
namespace {

// Sizes that are small enough for the device emulator.
void make_tiny(CudaBenchOptions* options) {
  options->shapes = {{"smoke", 128, 256}};
  options->m = {1};
  options->argmax_rows = {2};
  options->argmax_n = {1000};
  options->ragged = false;
  options->seconds = 0.01;
  options->enqueued = 5;
  options->judged = false;
  options->first_use_classes = 2;
  options->first_use_n = 64;
  options->first_use_k = 64;
  options->pool_bytes = size_t{256} << 10;
}

lathe_dtype dtype_of(const std::string& name) {
  return name == "f16" ? LATHE_F16 : name == "bf16" ? LATHE_BF16 : name == "i8" ? LATHE_I8 : LATHE_F8_E4M3;
}

CudaBenchOptions read_options() {
  CudaBenchOptions options;
  options.device = static_cast<int>(integer_of(FLAGS_device, 0, 1023));
  options.modes = names_of(FLAGS_mode, kModes);
  if (!absl::GetFlag(FLAGS_shapes).empty())
    options.shapes = shapes_of(FLAGS_shapes, FLAGS_models);
  else
    names_of(FLAGS_models, {"all"});  // without a file there are no other models
  options.m = counts_of(FLAGS_m, kMostRows);
  options.argmax_rows = counts_of(FLAGS_argmax_rows, kMostRows);
  options.argmax_n = counts_of(FLAGS_argmax_n, kMostOfRow);
  options.dtype_name = name_of(FLAGS_dtype, {"f16", "bf16", "f8_e4m3", "i8"});
  options.dtype = dtype_of(options.dtype_name);
  if (size_of(options.dtype) == 1 && options.modes != Strings{"matmul"})
    refuse(FLAGS_dtype, options.dtype_name, "allowed with --mode=matmul only");
  options.candidates = count_of(FLAGS_candidates, 1000);
  options.skip = static_cast<size_t>(integer_of(FLAGS_skip, 0, 1 << 20));
  const Strings launches = {"off", "on", "constant_b"};  // in the order of lathe_dependent_launch
  const auto launch = std::find(launches.begin(), launches.end(), name_of(FLAGS_dependent_launch, launches));
  options.dependent_launch = static_cast<lathe_dependent_launch>(launch - launches.begin());
  options.ragged = absl::GetFlag(FLAGS_ragged);
  options.max_flop = 1e12 * number_of(FLAGS_max_tflop, 1e-6, 1e6);
  options.seconds = number_of(FLAGS_seconds, 1e-3, 3600);
  options.pool_bytes = static_cast<size_t>(integer_of(FLAGS_pool_mib, 1, 1 << 20)) << 20;
  options.seed = seed_of(FLAGS_seed);
  options.csv_directory = directory_of(FLAGS_csv);
  options.roofline_file = output_file_of(FLAGS_roofline);
  const double deadline = number_of(FLAGS_deadline, 0, 1e6);
  if (deadline > 0) options.deadline = now_seconds() + deadline;
  if (absl::GetFlag(FLAGS_smoke)) make_tiny(&options);
  return options;
}

// Sets gpu->read_bandwidth and returns the copy bandwidth. Does not change the pool.
double measure_memory(const DevicePool& pool, Gpu* gpu) {
  const size_t copied = pool.bytes() / 4;
  const Buffer target = gpu->device.allocate(copied);
  gpu->read_bandwidth =
      measure_read_bandwidth(gpu->driver, gpu->stream, pool.data(), pool.bytes(), target.data());
  return measure_copy_bandwidth(gpu->driver, gpu->stream, pool.data(), pool.bytes(), target.data(), copied);
}

bool run() {
  const CudaBenchOptions options = read_options();
  const std::string device_name = "cuda:" + std::to_string(options.device);
  const CudaDriver driver(options.device);
  const Context context;
  const Device device = context.open(device_name.c_str());
  const Stream stream = device.stream();
  Gpu gpu{driver, device, stream.get()};
  const DevicePool pool(device, options.pool_bytes, options.dtype, options.seed);
  const auto wants = [&modes = options.modes](const char* mode) {
    return std::find(modes.begin(), modes.end(), mode) != modes.end();
  };
  std::unique_ptr<CublasLt> peer;
  if (wants("matmul") && !absl::GetFlag(FLAGS_alone)) peer = CublasLt::open(driver);
  const double copy_bandwidth = measure_memory(pool, &gpu);
  if (wants("matmul")) gpu.matrix_peak = measure_matrix_peak(gpu, pool, peer.get(), options.dtype);
  std::printf(
      "%s, cuBLASLt %s; seed %llu; weights rotate over %zu MiB; measured ceilings: read %.0f GB/s, copy "
      "%.0f GB/s, %s %.0f TFLOP/s\n",
      driver.name().c_str(), peer ? peer->version().c_str() : "not used",
      static_cast<unsigned long long>(options.seed), pool.bytes() >> 20, gpu.read_bandwidth * 1e-9,
      copy_bandwidth * 1e-9, options.dtype_name.c_str(), gpu.matrix_peak * 1e-12);
  std::fflush(stdout);
  bool right = true;
  if (wants("startup")) right &= bench_cuda_startup(gpu, device_name, options);
  if (wants("argmax")) right &= bench_cuda_argmax(gpu, options, pool);
  if (wants("matmul")) right &= bench_cuda_matmul(gpu, options, pool, peer.get());
  return right;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) try {
  absl::SetProgramUsageMessage("measures Lathe on a CUDA device against cuBLASLt. See benchmarks/README.md.");
  lathe::bench::parse_flags(argc, argv);
  return lathe::bench::run() ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
