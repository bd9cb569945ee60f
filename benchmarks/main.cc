// lathe_bench: measures Lathe against its peers and against the roofline of the same run.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "absl/flags/flag.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_join.h"
#include "flag_values.h"
#include "options.h"

using lathe::bench::Strings;

namespace {
const Strings kModes = {"warm",  "first_use", "dispatch", "background", "matmul",
                        "small", "argmax",    "head",     "oracle"};
const Strings kArgmaxDtypes = {"f32", "f16", "bf16"};
}  // namespace

ABSL_FLAG(Strings, mode, Strings({"warm", "first_use", "dispatch", "matmul", "small", "argmax", "head"}),
          "what to measure: " + absl::StrJoin(kModes, ", "));
ABSL_FLAG(Strings, models, Strings({"llama3-8b", "qwen2.5-7b"}),
          "models whose weights are measured; all: every model");
ABSL_FLAG(std::string, shapes, LATHE_BENCH_SHAPES, "file of weights with lines model,layer,n,k");
ABSL_FLAG(std::string, max_bytes, "314572800", "leave out weights that take more bytes as f32");
ABSL_FLAG(Strings, m, Strings({"1", "2", "3", "4", "5", "8", "16", "32", "64"}),
          "values of M for decode; empty: none");
ABSL_FLAG(Strings, prefill_m, Strings({"512", "1000"}), "values of M for prefill; empty: none");
ABSL_FLAG(std::string, max_gflop, "60", "leave out shapes that need more GFLOP");
ABSL_FLAG(bool, ragged, true, "also measure 123x456x51234 and weights of 4097x4095 and 17x8191");
ABSL_FLAG(bool, packed, true, "also measure Lathe with packed weights");
ABSL_FLAG(std::string, layout, "nt",
          "layout of the weights. nt: [N, K], as PyTorch's Linear stores them; nn: [K, N]");
ABSL_FLAG(Strings, argmax_rows, Strings({"1", "2", "4", "8", "16", "32", "64", "128", "256"}),
          "rows for argmax");
ABSL_FLAG(Strings, argmax_n, Strings({"32000", "128256", "151936", "201088"}), "row lengths for argmax");
ABSL_FLAG(Strings, dtypes, kArgmaxDtypes, "dtypes for argmax: " + absl::StrJoin(kArgmaxDtypes, ", "));
ABSL_FLAG(
    Strings, matmul_dtypes, Strings({"f32"}),
    "dtypes for matmul: f32, f16, bf16, i8; weights of a type with A in f32: f16_weights, bf16_weights, "
    "q4_0; the same where Lathe may round A: bf16_weights_bf16 (to bf16), q4_0_int8 (to int8)");
ABSL_FLAG(std::string, threads, "1", "threads for Lathe and for every peer");
ABSL_FLAG(std::string, seconds, "1", "seconds for one figure");
ABSL_FLAG(std::string, pool_bytes, "0",
          "bytes that cold operands rotate over; 0: 4 times the last-level cache, at most 1.5 GB");
ABSL_FLAG(std::string, first_use_classes, "24", "number of kernels that first_use compiles");
ABSL_FLAG(std::string, warm_kernels, "64", "number of kernels that warm loads");
ABSL_FLAG(std::string, background_classes, "30",
          "number of kernels that `background` compiles in each round");
ABSL_FLAG(std::string, background_rounds, "15",
          "rounds of `background`; each takes --seconds idle and at most --seconds compiling");
ABSL_FLAG(std::string, oracle_candidates, "24",
          "how many candidates of a class `oracle` times, best rank first");
ABSL_FLAG(std::string, oracle_tuned, "8",
          "how many of these tuning may measure; `oracle` reports tuning's choice too");
ABSL_FLAG(std::string, seed, "0", "seed of the inputs; 0: a random one. The seed is printed");
ABSL_FLAG(std::string, csv, "", "directory for the tables as CSV files; empty: none");
ABSL_FLAG(std::string, roofline, "", "SVG file for a roofline plot of the matmul figures; empty: none");
ABSL_FLAG(std::string, mkl_library, "", "path of MKL's libmkl_rt.so, to add MKL to the peers");
ABSL_FLAG(std::string, onednn_library, "", "path of oneDNN 3's libdnnl.so.3, to add it to the peers");
ABSL_FLAG(bool, smoke, false,
          "run with tiny shapes for a few seconds, to test the program; no figure is judged");
ABSL_FLAG(std::string, fill_cache, "",
          "for internal use: compile the kernels of `warm` into this directory and exit");

namespace lathe::bench {
namespace {

Strings matmul_dtypes() {
  Strings names;
  for (const NamedElement& named : kNamedElements) names.push_back(named.name);
  return names;
}

bool wants(const Options& options, const char* mode) {
  return std::find(options.modes.begin(), options.modes.end(), mode) != options.modes.end();
}

std::vector<Shape> shapes_up_to(int64_t most) {
  std::vector<Shape> shapes = shapes_of(FLAGS_shapes, FLAGS_models);
  const auto is_larger = [most](const Shape& shape) {
    if (shape.n * shape.k * 4 <= most) return false;
    std::fprintf(stderr, "%s: left out, larger than --max_bytes\n", shape.name.c_str());
    return true;
  };
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(), is_larger), shapes.end());
  return shapes;
}

size_t read_pool_bytes() {
  constexpr int64_t kLeast = 2 << 20;  // a huge page
  if (absl::GetFlag(FLAGS_pool_bytes) == "0") return 0;
  return static_cast<size_t>(
      integer_of(FLAGS_pool_bytes, kLeast, static_cast<int64_t>(describe_machine().memory_bytes)));
}

Options read_options(const char* program) {
  Options options;
  options.program = program;
  options.modes = names_of(FLAGS_mode, kModes);
  options.decode_m = counts_of(FLAGS_m, kMostRows, Empty::kAllowed);
  options.prefill_m = counts_of(FLAGS_prefill_m, kMostRows, Empty::kAllowed);
  options.argmax_rows = counts_of(FLAGS_argmax_rows, kMostRows);
  options.argmax_n = counts_of(FLAGS_argmax_n, kMostOfRow);
  options.argmax_dtypes = names_of(FLAGS_dtypes, kArgmaxDtypes);
  options.matmul_dtypes = names_of(FLAGS_matmul_dtypes, matmul_dtypes());
  options.threads = count_of(FLAGS_threads, 1024);
  options.trans_b = name_of(FLAGS_layout, {"nt", "nn"}) == "nt";
  options.ragged = absl::GetFlag(FLAGS_ragged);
  if (!options.ragged) options.odd.clear();
  options.packed = absl::GetFlag(FLAGS_packed);
  options.max_flop = 1e9 * number_of(FLAGS_max_gflop, 1e-3, 1e9);
  options.seconds = number_of(FLAGS_seconds, 1e-3, 3600);
  options.pool_bytes = read_pool_bytes();
  options.first_use_classes = count_of(FLAGS_first_use_classes, kMostClasses);
  options.warm_kernels = count_of(FLAGS_warm_kernels, kMostClasses);
  options.oracle_candidates = count_of(FLAGS_oracle_candidates, 100'000);
  options.oracle_tuned = count_of(FLAGS_oracle_tuned, 100'000);
  options.background_classes = count_of(FLAGS_background_classes, 1000);
  options.background_rounds = count_of(FLAGS_background_rounds, 1000);
  options.seed = seed_of(FLAGS_seed);
  options.csv_directory = directory_of(FLAGS_csv);
  options.roofline_file = output_file_of(FLAGS_roofline);
  options.peer_libraries = {absl::GetFlag(FLAGS_mkl_library), absl::GetFlag(FLAGS_onednn_library)};
  const int64_t max_bytes = integer_of(FLAGS_max_bytes, 1, std::numeric_limits<int64_t>::max());
  if (wants(options, "matmul") || wants(options, "oracle")) options.shapes = shapes_up_to(max_bytes);
  if (!absl::GetFlag(FLAGS_smoke)) return options;
  options.smoke = true;
  options.shapes = {{"smoke", 96, 200}};
  options.heads = {{"", 1000, 96}};
  options.single_cubed = {8};
  options.batched_cubed = {16};
  options.decode_m = {1, 3};
  options.prefill_m = {70};
  options.argmax_rows = {2};
  options.argmax_n = {1000};
  options.ragged = false;
  options.odd = {{"odd", 17, 95}};
  options.seconds = 0.01;
  options.matmul_dtypes = matmul_dtypes();
  options.pool_bytes = 8 << 20;
  options.first_use_classes = 2;
  options.warm_kernels = 3;
  options.oracle_candidates = 3;
  options.background_classes = 3;
  options.background_rounds = 1;
  return options;
}

bool run(const Options& options) {
  const Machine machine = describe_machine();
  std::vector<std::unique_ptr<Peer>> peers;
  if (!make_peers(options.threads, options.peer_libraries, &peers)) std::exit(kBadFlag);
  std::printf("machine: %s, last-level cache %zu MiB, %d thread(s); seed %llu\n", machine.name.c_str(),
              machine.last_level_cache_bytes >> 20, options.threads,
              static_cast<unsigned long long>(options.seed));
  const auto wants = [&](const char* mode) { return bench::wants(options, mode); };
  // Runs first: the other modes load the compiler library, and warm checks that it is not loaded.
  bool right = true;
  if (wants("warm")) right &= bench_warm(options);
  if (wants("first_use")) right &= bench_first_use(options);
  if (wants("dispatch")) right &= bench_dispatch(options);
  if (wants("background")) right &= bench_background(options);
  const bool has_kernels =
      wants("matmul") || wants("small") || wants("argmax") || wants("head") || wants("oracle");
  if (!has_kernels) return right;

  constexpr size_t kPoolLimit = size_t{1500} << 20;
  size_t pool_bytes = options.pool_bytes;
  if (pool_bytes == 0) {
    // A weight that is four times as large as the cache needs one copy only.
    pool_bytes = 4 * std::max<size_t>(machine.last_level_cache_bytes, 16 << 20);
    const auto hold = [&](const std::vector<Shape>& weights) {
      for (const Shape& w : weights)
        pool_bytes = std::max(pool_bytes, static_cast<size_t>(w.n * w.k) * 4 + (4 << 20));
    };
    if (wants("matmul") || wants("oracle")) hold(options.shapes);
    if (wants("head")) hold(options.heads);
    pool_bytes = std::min({pool_bytes, kPoolLimit, machine.memory_bytes / 3});
  }
  Pool pool(pool_bytes, options.seed);
  pool.fill(Element::kF32);
  Bench bench{options, &pool};
  bench.peers = &peers;
  const Reader reader(pool.data(), pool.bytes(), options.threads);
  bench.reader = &reader;
  bench.read_bandwidth = reader.bytes_per_second();
  bench.fma_peak = measure_fma_peak(options.threads);
  std::printf(
      "cold operands rotate over %zu MiB (%.1f x the last-level cache); measured ceilings: read %.1f GB/s, "
      "f32 %.1f GFLOP/s\n",
      pool.bytes() >> 20,
      static_cast<double>(pool.bytes()) /
          static_cast<double>(std::max<size_t>(1, machine.last_level_cache_bytes)),
      bench.read_bandwidth * 1e-9, bench.fma_peak * 1e-9);
  std::fflush(stdout);
  Roofline roofline;
  roofline.machine = machine.name;
  roofline.threads = options.threads;
  roofline.read_bandwidth = bench.read_bandwidth;
  roofline.fma_peak = bench.fma_peak;
  bench.roofline = &roofline;
  if (wants("matmul")) right &= bench_matmul(bench) && roofline.write(options.roofline_file);
  if (wants("small")) right &= bench_small(bench);
  if (wants("oracle")) right &= bench_oracle(bench);
  if (wants("argmax")) right &= bench_argmax(bench);
  if (wants("head")) right &= bench_head(bench);
  return right;
}

}  // namespace
}  // namespace lathe::bench

// Idle OpenMP threads of a peer would spin for milliseconds after its turn, on cores that the next entrant
// needs. The OpenMP runtime reads its wait policy when it is loaded, so the program restarts itself with the
// policy set.
static void let_idle_peers_sleep(char** argv) {
  if (getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);
}

int main(int argc, char** argv) {
  let_idle_peers_sleep(argv);
  absl::SetProgramUsageMessage(
      "measures Lathe's matmul and argmax against OpenBLAS, oneDNN and vectorised loops, and the time of a "
      "first use, a warm start and a cached call. See benchmarks/README.md.");
  lathe::bench::parse_flags(argc, argv);
  const lathe::bench::Options options = lathe::bench::read_options(argv[0]);
  const std::string fill = absl::GetFlag(FLAGS_fill_cache);
  const bool right = fill.empty() ? lathe::bench::run(options) : lathe::bench::fill_cache(options, fill);
  return right ? 0 : 1;
}
