// lathe_grouped_bench: Lathe's grouped products against ggml's MUL_MAT_ID and a loop over oneDNN.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "../flag_values.h"
#include "../shapes.h"
#include "absl/flags/usage.h"
#include "grouped_bench.h"

using lathe::bench::Strings;

namespace {
const Strings kFormats = {"f32",  "bf16", "q8_0", "q4_0",   "q4_1",   "q5_0", "q5_1",
                          "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"};
}  // namespace

ABSL_FLAG(std::string, ggml, LATHE_GROUPED_PEER, "shared object of the peer ggml");
ABSL_FLAG(std::string, onednn_library, "", "libdnnl.so.3 of another oneDNN for the loop; empty: none");
ABSL_FLAG(Strings, formats, Strings({"bf16", "q4_k", "q8_0", "mxfp4"}), "formats of the weights");
ABSL_FLAG(std::string, shapes, LATHE_GROUPED_SHAPES, "file with lines model,layer,n,k,experts,used,input");
ABSL_FLAG(Strings, models, Strings({"all"}), "models whose experts are measured; all: every model");
ABSL_FLAG(std::string, weight, "",
          "measure only the experts of this name, such as mixtral-8x7b/down; empty: all");
ABSL_FLAG(Strings, m, Strings({"1", "8", "64", "512"}), "numbers of tokens");
ABSL_FLAG(std::string, max_gflop, "1000", "leave out products that need more GFLOP");
ABSL_FLAG(std::string, threads, "1", "threads for Lathe and for every peer");
ABSL_FLAG(std::string, seconds, "1", "seconds for one product, all entrants together");
ABSL_FLAG(std::string, rounds, "7", "rounds that are measured at least");
ABSL_FLAG(std::string, seed, "0", "seed of the inputs; 0: a random one. The seed is printed");
ABSL_FLAG(std::string, csv, "", "directory for grouped.csv; empty: none");
ABSL_FLAG(std::string, cache, "", "Lathe's cache directory; empty: kernels are compiled in every run");

namespace lathe::bench {
namespace {

// The peer also makes the weights, so the program cannot do without.
GgufPeer* open_ggml() {
  const std::string path = absl::GetFlag(FLAGS_ggml);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(FLAGS_ggml, path, dlerror());
  auto make = reinterpret_cast<GgufPeer* (*)()>(dlsym(library, "lathe_gguf_peer"));
  if (make == nullptr) refuse(FLAGS_ggml, path, "no peer of lathe_gguf_bench");
  return make();
}

GroupedOptions read_options() {
  GroupedOptions options;
  options.formats = names_of(FLAGS_formats, kFormats);
  options.shapes = experts_of(FLAGS_shapes, FLAGS_models, FLAGS_weight);
  options.m = counts_of(FLAGS_m, kMostRows);
  options.max_flop = 1e9 * number_of(FLAGS_max_gflop, 1e-3, 1e9);
  options.threads = count_of(FLAGS_threads, 1024);
  options.seconds = number_of(FLAGS_seconds, 1e-3, 3600);
  options.rounds = count_of(FLAGS_rounds, 1000);
  options.seed = seed_of(FLAGS_seed);
  options.csv_directory = directory_of(FLAGS_csv);
  options.cache_directory = directory_of(FLAGS_cache);
  options.ggml = open_ggml();
  PeerLibraries libraries;
  libraries.onednn = absl::GetFlag(FLAGS_onednn_library);
  if (!make_peers(options.threads, libraries, &options.loops)) std::exit(kBadFlag);
  return options;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures Lathe's grouped products against ggml's MUL_MAT_ID and a loop over oneDNN.");
  lathe::bench::parse_flags(argc, argv);
  return lathe::bench::bench_grouped(lathe::bench::read_options()) ? EXIT_SUCCESS : EXIT_FAILURE;
}
