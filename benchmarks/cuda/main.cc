// lathe_cuda_bench: Lathe on a CUDA device beside cuBLASLt and the rooflines measured in the same run. See
// README.md.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cuda/bench.h"

using Strings = std::vector<std::string>;

ABSL_FLAG(int32_t, device, 0, "which CUDA device");
ABSL_FLAG(Strings, mode, Strings({"startup", "argmax", "matmul"}),
          "what to measure: startup, argmax, matmul");
ABSL_FLAG(std::string, shapes, "", "a file of weights: model,layer,n,k");
ABSL_FLAG(Strings, models, Strings({"all"}), "models of the shapes to take; all: every one");
ABSL_FLAG(Strings, m, Strings({"1", "8", "16", "512", "2048", "8192", "2", "4", "32", "64", "128"}),
          "rows; those that come first are measured first");
ABSL_FLAG(Strings, argmax_rows, Strings({"1", "2", "4", "8", "16", "32", "64", "128", "256"}),
          "rows of argmax");
ABSL_FLAG(Strings, argmax_n, Strings({"32000", "128256", "151936", "201088"}), "row lengths of argmax");
ABSL_FLAG(std::string, dtype, "bf16", "f16 or bf16");
ABSL_FLAG(bool, ragged, true, "measure 123x456x51234 too");
ABSL_FLAG(double, max_tflop, 20, "leave out shapes that need more");
ABSL_FLAG(int64_t, pool_mib, 2560, "memory that cold operands rotate over");
ABSL_FLAG(double, seconds, 0.3, "time for one figure");
ABSL_FLAG(double, deadline, 0, "begin no row after that many seconds, and report what there is; 0: none");
ABSL_FLAG(bool, alone, false, "measure matmul without cuBLASLt");
ABSL_FLAG(bool, smoke, false, "tiny sizes: shows that it works, measures nothing");
ABSL_FLAG(uint64_t, seed, 0, "of the inputs; 0: a fresh one, printed");
ABSL_FLAG(std::string, csv, "", "a directory to write the tables into as CSV");

namespace lathe::bench {
namespace {

std::vector<int64_t> integers(const Strings& texts) {
  std::vector<int64_t> values;
  for (const std::string& text : texts) {
    int64_t value = 0;
    if (absl::SimpleAtoi(text, &value)) values.push_back(value);
  }
  return values;
}

std::vector<Shape> read_shapes(const std::string& path, const Strings& models) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read --shapes '" + path + "'");
  const bool all = std::find(models.begin(), models.end(), "all") != models.end();
  std::vector<Shape> shapes;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (std::string line; std::getline(file, line);) {
    const Strings fields = absl::StrSplit(line, ',');
    Shape shape;
    if (fields.size() < 4 || !absl::SimpleAtoi(fields[2], &shape.n) || !absl::SimpleAtoi(fields[3], &shape.k))
      continue;
    if (!all && std::find(models.begin(), models.end(), fields[0]) == models.end()) continue;
    if (!seen.insert({shape.n, shape.k}).second) continue;
    shape.name = fields[0] + "/" + fields[1];
    shapes.push_back(shape);
  }
  return shapes;
}

// For a device that an emulator plays.
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

CudaBenchOptions read_options() {
  CudaBenchOptions options;
  if (!absl::GetFlag(FLAGS_shapes).empty())
    options.shapes = read_shapes(absl::GetFlag(FLAGS_shapes), absl::GetFlag(FLAGS_models));
  options.m = integers(absl::GetFlag(FLAGS_m));
  options.argmax_rows = integers(absl::GetFlag(FLAGS_argmax_rows));
  options.argmax_n = integers(absl::GetFlag(FLAGS_argmax_n));
  options.dtype_name = absl::GetFlag(FLAGS_dtype);
  options.dtype = options.dtype_name == "f16" ? LATHE_F16 : LATHE_BF16;
  options.ragged = absl::GetFlag(FLAGS_ragged);
  options.max_flop = 1e12 * absl::GetFlag(FLAGS_max_tflop);
  options.seconds = absl::GetFlag(FLAGS_seconds);
  options.pool_bytes = static_cast<size_t>(absl::GetFlag(FLAGS_pool_mib)) << 20;
  options.seed = absl::GetFlag(FLAGS_seed) ? absl::GetFlag(FLAGS_seed) : std::random_device{}();
  options.csv_directory = absl::GetFlag(FLAGS_csv);
  if (absl::GetFlag(FLAGS_deadline) > 0) options.deadline = now_seconds() + absl::GetFlag(FLAGS_deadline);
  if (absl::GetFlag(FLAGS_smoke)) make_tiny(&options);
  return options;
}

bool run() {
  const CudaBenchOptions options = read_options();
  const int ordinal = absl::GetFlag(FLAGS_device);
  const std::string device_name = "cuda:" + std::to_string(ordinal);
  const CudaDriver driver(ordinal);
  const Context context;
  const Device device = context.open(device_name.c_str());
  const Stream stream = device.stream();
  Gpu gpu{driver, device, stream.get()};
  const DevicePool pool(device, options.pool_bytes, options.dtype, options.seed);
  const Strings modes = absl::GetFlag(FLAGS_mode);
  const auto wants = [&](const char* mode) {
    return std::find(modes.begin(), modes.end(), mode) != modes.end();
  };
  std::unique_ptr<CublasLt> peer;
  if (wants("matmul") && !absl::GetFlag(FLAGS_alone)) peer = CublasLt::open();
  gpu.read_bandwidth = measure_read_bandwidth(driver, stream.get(), pool.data(), pool.bytes());
  if (wants("matmul")) gpu.matrix_peak = measure_matrix_peak(gpu, pool, peer.get(), options.dtype);
  std::printf(
      "%s, cuBLASLt %s; seed %llu; weights rotate over %zu MiB; measured ceilings: read %.0f GB/s, %s %.0f "
      "TFLOP/s\n",
      driver.name().c_str(), peer ? peer->version().c_str() : "not asked for",
      static_cast<unsigned long long>(options.seed), pool.bytes() >> 20, gpu.read_bandwidth * 1e-9,
      options.dtype_name.c_str(), gpu.matrix_peak * 1e-12);
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
  absl::ParseCommandLine(argc, argv);
  return lathe::bench::run() ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
