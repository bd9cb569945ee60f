// The four matmuls of one Llama-3-8B layer, for M = 1 and M = 64 tokens: y = x * weight^T in f32, with each
// weight stored [N, K], as in a Linear layer. Prints the time of the first call, the median of later calls, and
// where the kernel came from.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../report.h"

namespace {

struct Layer {
  const char* name;
  int64_t n, k;
};
constexpr Layer kLayers[] = {
    {"qkv", 6144, 4096}, {"o", 4096, 4096}, {"gate_up", 28672, 4096}, {"down", 4096, 14336}};

// Standard normal values. A large array repeats one block, whose odd length makes the rows differ.
std::vector<float> random_array(int64_t count, std::mt19937_64* random) {
  constexpr int64_t kBlock = (1 << 20) - 1;
  std::vector<float> values(count);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < std::min(count, kBlock); ++i) values[i] = normal(*random);
  for (int64_t i = kBlock; i < count; ++i) values[i] = values[i - kBlock];
  return values;
}

const char* outcome(const lathe_statistics& before, const lathe_statistics& after) {
  if (after.compiles > before.compiles) return "compiled";
  if (after.disk_hits + after.bundle_hits > before.disk_hits + before.bundle_hits) return "from disk";
  return after.memory_hits > before.memory_hits ? "from memory" : "already loaded";
}

// Compares 64 random elements with float64, allowing for the rounding errors of f32.
bool is_right(const Layer& layer, int64_t m, const std::vector<float>& x, const std::vector<float>& weight,
              const std::vector<float>& y, std::mt19937_64* random) {
  for (int i = 0; i < 64; ++i) {
    const int64_t row = (*random)() % m, column = (*random)() % layer.n;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < layer.k; ++k) {
      const double product = static_cast<double>(x[row * layer.k + k]) * weight[column * layer.k + k];
      sum += product;
      magnitude += std::fabs(product);
    }
    if (!(std::fabs(y[row * layer.n + column] - sum) <= 6 * 0x1p-23 * magnitude))
      return false;  // a NaN fails too, because the comparison is negated
  }
  return true;
}

double seconds_of(const lathe::Device& device, const lathe_matmul_desc& desc) {
  const auto start = std::chrono::steady_clock::now();
  device.run(desc);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(int argc, char** argv) {
  const lathe::Context context;
  const lathe::Device cpu = context.open("cpu");
  std::mt19937_64 random(std::random_device{}());
  bool right = true;
  std::printf("%-8s %3s %6s %6s  %9s  %9s  %8s  %8s  %s\n", "layer", "M", "N", "K", "first ms", "then ms",
              "GFLOP/s", "GB/s", "kernel");
  for (const Layer& layer : kLayers) {
    const std::vector<float> weight = random_array(layer.n * layer.k, &random);
    for (int64_t m : {1, 64}) {
      const std::vector<float> x = random_array(m * layer.k, &random);
      std::vector<float> y(m * layer.n, NAN);
      const lathe_matmul_desc desc =
          lathe::matmul_desc(lathe::row_major(x.data(), m, layer.k),
                             lathe::row_major(weight.data(), layer.n, layer.k).transposed(),
                             lathe::row_major(y.data(), m, layer.n));
      const lathe_statistics before = context.statistics();
      const double first = seconds_of(cpu, desc);
      const lathe_statistics after = context.statistics();
      std::vector<double> times;
      for (int i = 0; i < 7; ++i) times.push_back(seconds_of(cpu, desc));
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      const double then = times[times.size() / 2];
      const double bytes = 4.0 * (layer.n * layer.k + m * layer.k + m * layer.n);
      const bool good = is_right(layer, m, x, weight, y, &random);
      right = right && good;
      std::printf("%-8s %3d %6d %6d  %9.2f  %9.2f  %8.1f  %8.2f  %s%s\n", layer.name, static_cast<int>(m),
                  static_cast<int>(layer.n), static_cast<int>(layer.k), first * 1e3, then * 1e3,
                  2.0 * m * layer.n * layer.k / then / 1e9, bytes / then / 1e9, outcome(before, after),
                  good ? "" : "  WRONG RESULT");
    }
  }
  return report_statistics(context, argc, argv) && right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "llama_layer: %s\n", e.what());
    return 1;
  }
}
