// lathe_gguf_bench: Lathe's matmuls with GGUF weights against ggml's CPU backend and ik_llama.cpp.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../contest.h"
#include "../flag_values.h"
#include "../shapes.h"
#include "absl/flags/usage.h"
#include "gguf_bench.h"

using lathe::bench::Strings;

namespace {
const Strings kFormats = {"q4_0", "q8_0", "q4_1",   "q5_0",   "q5_1", "q4_k",
                          "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"};
}  // namespace

ABSL_FLAG(Strings, peers, Strings({LATHE_GGUF_PEERS}), "shared objects of the peers");
ABSL_FLAG(Strings, formats, kFormats, "formats of the weights");
ABSL_FLAG(std::string, shapes, LATHE_GGUF_SHAPES, "file of weights with lines model,layer,n,k");
ABSL_FLAG(Strings, models, Strings({"all"}), "models whose weights are measured; all: every model");
ABSL_FLAG(std::string, weight, "",
          "measure only the weight of this name, such as llama3-8b/down; empty: all");
ABSL_FLAG(Strings, m, Strings({"1", "2", "4", "8", "16", "64", "128", "512"}), "values of M");
ABSL_FLAG(std::string, max_gflop, "1000", "leave out products that need more GFLOP");
ABSL_FLAG(std::string, threads, "1", "threads for Lathe and for every peer");
ABSL_FLAG(std::string, seconds, "1", "seconds for one product, all entrants together");
ABSL_FLAG(std::string, rounds, "7", "rounds that are measured at least");
ABSL_FLAG(std::string, rotate_bytes, "536870912", "bytes that the weights of each entrant rotate over");
ABSL_FLAG(std::string, seed, "0", "seed of the inputs; 0: a random one. The seed is printed");
ABSL_FLAG(std::string, csv, "", "directory for gguf.csv; empty: none");

namespace lathe::bench {
namespace {

// Binds lazily: ik_llama.cpp without flash attention lacks functions that a product does not call.
// A failed peer ends the program: without it another would wrongly count as the best.
GgufPeer* open_peer(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) refuse(FLAGS_peers, path, dlerror());
  auto make = reinterpret_cast<GgufPeer* (*)()>(dlsym(library, "lathe_gguf_peer"));
  if (make == nullptr) refuse(FLAGS_peers, path, "no peer of lathe_gguf_bench");
  return make();
}

GgufOptions read_options() {
  GgufOptions options;
  options.formats = names_of(FLAGS_formats, kFormats);
  options.shapes = shapes_of(FLAGS_shapes, FLAGS_models);
  const std::string weight = absl::GetFlag(FLAGS_weight);
  const auto is_other = [&](const Shape& shape) { return !weight.empty() && shape.name != weight; };
  options.shapes.erase(std::remove_if(options.shapes.begin(), options.shapes.end(), is_other),
                       options.shapes.end());
  if (options.shapes.empty()) refuse(FLAGS_weight, weight, "no weight of the named models");
  options.m = counts_of(FLAGS_m, kMostRows);
  options.max_flop = 1e9 * number_of(FLAGS_max_gflop, 1e-3, 1e9);
  options.threads = count_of(FLAGS_threads, 1024);
  options.seconds = number_of(FLAGS_seconds, 1e-3, 3600);
  options.rounds = count_of(FLAGS_rounds, 1000);
  options.rotate_bytes = static_cast<size_t>(integer_of(FLAGS_rotate_bytes, 1, int64_t{1} << 40));
  options.seed = seed_of(FLAGS_seed);
  options.csv_directory = directory_of(FLAGS_csv);
  for (const std::string& path : absl::GetFlag(FLAGS_peers)) options.peers.push_back(open_peer(path));
  if (options.peers.empty()) refuse(FLAGS_peers, "", "no list of shared objects");
  return options;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Measures Lathe's matmuls with GGUF weights against ggml and ik_llama.cpp.");
  lathe::bench::parse_flags(argc, argv);
  return lathe::bench::bench_gguf(lathe::bench::read_options()) ? EXIT_SUCCESS : EXIT_FAILURE;
}
