// 16-bit matmul against cuBLASLt: its first answer, and the best of all its algorithms timed. Cold weights,
// hot activations, graph replay, every entrant's result checked.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "cuda/bench.h"
#include "cuda/cublaslt.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Problem {
  std::string name;
  int64_t m, n, k;
};

lathe_matmul_desc linear(const Problem& p, lathe_dtype dtype, const void* a, const void* w, void* d) {
  return matmul_desc({const_cast<void*>(a), dtype, p.m, p.k},
                     Matrix{const_cast<void*>(w), dtype, p.n, p.k}.transposed(), {d, dtype, p.m, p.n});
}

class CudaMatmul {
 public:
  CudaMatmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool, CublasLt* peer)
      : gpu_(gpu),
        options_(options),
        pool_(pool),
        peer_(peer),
        table_("matmul " + options.dtype_name + ", " + gpu.driver.name(),
               {"weight", "M", "N", "K", "lathe us", "TFLOP/s", "GB/s", "of roofline", "plan", "first us",
                "best us", "vs first", "vs best", "quartiles"}) {}

  bool measure(const Problem& p) {
    const auto activations =
        normal_numbers(static_cast<size_t>(p.m * p.k), options_.dtype, options_.seed + 1);
    const Buffer a = gpu_.device.allocate(activations.size() * 2);
    const Buffer d = gpu_.device.allocate(static_cast<size_t>(p.m * p.n) * 2);
    check(lathe_device_copy(gpu_.device.get(), gpu_.stream, a.data(), activations.data(),
                            activations.size() * 2, LATHE_COPY_TO_DEVICE));
    gpu_.device.synchronize(gpu_.stream);
    const size_t weight_bytes = static_cast<size_t>(p.n * p.k) * 2;
    if (pool_.copies(weight_bytes) == 0) return true;

    const Plan plan = gpu_.device.plan(linear(p, options_.dtype, a.data(), pool_.data(), d.data()));
    const LtCall ours = [&](const void* x, const void* w, void* y, void* stream) {
      gpu_.device.run(linear(p, options_.dtype, x, w, y), stream);
    };
    std::vector<LtCall> theirs;
    if (peer_ != nullptr) theirs = peer_->algorithms({p.m, p.n, p.k, options_.dtype});
    if (theirs.size() > 1) std::swap(theirs[1], theirs[best_of(theirs, p, a.data(), d.data())]);
    if (theirs.size() > 2) theirs.resize(2);

    std::vector<GraphEntrant> entrants;
    const auto enter = [&](const char* name, const LtCall& call) {
      if (!is_right(name, call, p, activations, a.data(), d.data())) return false;
      entrants.push_back(graph_of(name, call, p, a.data(), d.data()));
      return true;
    };
    if (!enter("lathe", ours)) return false;
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (!enter(i == 0 ? "first" : "best", theirs[i])) return false;
    }
    add(p, kernel_of(plan), run_graph_contest(entrants, options_.seconds));
    return true;
  }

  void report() const {
    table_.print();
    table_.write_csv(options_.csv_directory, "cuda_matmul_" + options_.dtype_name + ".csv");
    print_means("M <= 16", 1, 16);
    print_means("M 17..64", 17, 64);
    print_means("M 65..511", 65, 511);
    print_means("M >= 512", 512, std::numeric_limits<int64_t>::max());
  }

 private:
  struct Outcome {
    int64_t m;
    double first, best, bandwidth;
    size_t weight_bytes;
  };

  GraphEntrant graph_of(const char* name, const LtCall& call, const Problem& p, const void* a,
                        void* d) const {
    const size_t weight_bytes = static_cast<size_t>(p.n * p.k) * 2;
    const auto enqueue = [&](int calls) {
      return std::make_unique<CudaDriver::Graph>(gpu_.driver, gpu_.stream, [&] {
        for (int i = 0; i < calls; ++i)
          call(a, pool_.copy(weight_bytes, static_cast<size_t>(i)), d, gpu_.stream);
      });
    };
    const auto probe = enqueue(4);
    probe->replay();
    const double start = now_seconds();
    probe->replay();
    const int calls = calls_for((now_seconds() - start) / 4, cold_copies(weight_bytes));
    return {name, enqueue(calls), calls};
  }

  // Copies that a turn must pass through for the next one to find none of the weights in L2.
  size_t cold_copies(size_t weight_bytes) const {
    const size_t wanted = 4 * static_cast<size_t>(gpu_.driver.l2_bytes()) / weight_bytes + 1;
    return std::min(wanted, pool_.copies(weight_bytes));
  }

  size_t best_of(const std::vector<LtCall>& calls, const Problem& p, const void* a, void* d) const {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < calls.size(); ++i) {
      const GraphEntrant entrant = graph_of("candidate", calls[i], p, a, d);
      std::vector<double> seconds;
      for (int round = 0; round < 4; ++round) {
        const double start = now_seconds();
        entrant.graph->replay();
        if (round > 0) seconds.push_back((now_seconds() - start) / entrant.calls);
      }
      if (median(seconds) < least) least = median(seconds), best = i;
    }
    return best;
  }

  // Poisons D, runs once, compares 64 elements with float64 within the rounding of one store and of f32 sums.
  bool is_right(const char* name, const LtCall& call, const Problem& p, const std::vector<uint16_t>& a,
                const void* device_a, void* d) const {
    std::vector<uint16_t> got(static_cast<size_t>(p.m * p.n), 0x7fff);  // a NaN in both types
    const auto copy = [&](void* to, const void* from, lathe_copy_kind kind) {
      check(lathe_device_copy(gpu_.device.get(), gpu_.stream, to, from, got.size() * 2, kind));
    };
    copy(d, got.data(), LATHE_COPY_TO_DEVICE);
    call(device_a, pool_.copy(static_cast<size_t>(p.n * p.k) * 2, 0), d, gpu_.stream);
    copy(got.data(), d, LATHE_COPY_TO_HOST);
    gpu_.device.synchronize(gpu_.stream);
    const double half_ulp = options_.dtype == LATHE_BF16 ? 0x1p-8 : 0x1p-11;
    std::mt19937_64 engine(options_.seed + 2);
    for (int sample = 0; sample < 64; ++sample) {
      const auto i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
      const auto j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
      double sum = 0, magnitude = 0;
      for (int64_t q = 0; q < p.k; ++q) {
        const double product = value_of(a[static_cast<size_t>(i * p.k + q)], options_.dtype) *
                               pool_.value(static_cast<size_t>(j * p.k + q));
        sum += product;
        magnitude += std::fabs(product);
      }
      const double bound = half_ulp * std::fabs(sum) +
                           6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 * magnitude + 1e-30;
      const double value = value_of(got[static_cast<size_t>(i * p.n + j)], options_.dtype);
      if (std::fabs(value - sum) <= bound) continue;
      std::fprintf(stderr, "%s: %s m=%ld: (%ld, %ld) is %g, expected %g within %g\n", name, p.name.c_str(),
                   static_cast<long>(p.m), static_cast<long>(i), static_cast<long>(j), value, sum, bound);
      return false;
    }
    return true;
  }

  static std::string kernel_of(const Plan& plan) {
    const std::string text = plan.explain();
    constexpr char kField[] = "\"config\":{";
    const size_t config = text.find(kField), end = text.find('}', config);
    const size_t kernel = text.find("\"kernel\":\"", config);
    if (config == std::string::npos || kernel > end) return "?";
    const size_t start = kernel + sizeof("\"kernel\":\"") - 1;
    return text.substr(start, text.find('"', start) - start);
  }

  void add(const Problem& p, const std::string& kernel, const std::vector<Standing>& standings) {
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const double bytes = 2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
    const double limit =
        std::max(gpu_.matrix_peak > 0 ? flops / gpu_.matrix_peak : 0, bytes / gpu_.read_bandwidth);
    const Standing& ours = standings[0];
    Outcome outcome{p.m, 0, 0, bytes / ours.seconds / gpu_.read_bandwidth,
                    static_cast<size_t>(p.n * p.k) * 2};
    std::vector<std::string> row = {p.name,
                                    std::to_string(p.m),
                                    std::to_string(p.n),
                                    std::to_string(p.k),
                                    number(ours.seconds * 1e6, 2),
                                    number(flops / ours.seconds * 1e-12, 1),
                                    number(bytes / ours.seconds * 1e-9, 0),
                                    number(100 * limit / ours.seconds, 0) + "%",
                                    kernel};
    if (standings.size() < 2) {
      row.insert(row.end(), {"-", "-", "-", "-", "-"});
    } else {
      const Standing& best = standings.back();
      const Ratio first = paired_ratio(ours, standings[1]), ratio = paired_ratio(ours, best);
      outcome.first = first.median, outcome.best = ratio.median;
      row.insert(row.end(), {number(standings[1].seconds * 1e6, 2), number(best.seconds * 1e6, 2),
                             number(first.median, 2) + "x", number(ratio.median, 2) + "x",
                             number(ratio.low, 2) + ".." + number(ratio.high, 2)});
    }
    outcomes_.push_back(outcome);
    table_.add(row);
  }

  void print_means(const char* name, int64_t lo, int64_t hi) const {
    std::vector<double> first, best, streaming;
    for (const Outcome& o : outcomes_) {
      if (o.m < lo || o.m > hi) continue;
      if (o.first > 0) first.push_back(o.first), best.push_back(o.best);
      if (o.weight_bytes >= size_t{64} << 20) streaming.push_back(o.bandwidth);
    }
    if (!first.empty()) {
      std::printf(
          "%s: %.3fx cuBLASLt's first answer, %.3fx its best (geometric means of %zu shapes, worst %.2fx)\n",
          name, geometric_mean(first), geometric_mean(best), first.size(),
          *std::min_element(best.begin(), best.end()));
    }
    if (!streaming.empty() && hi <= 16) {
      std::printf("%s, weights of 64 MB and more: %.1f%% of the read bandwidth (geometric mean of %zu)\n",
                  name, 100 * geometric_mean(streaming), streaming.size());
    }
  }

  const Gpu& gpu_;
  const CudaBenchOptions& options_;
  const DevicePool& pool_;
  CublasLt* peer_;
  Table table_;
  std::vector<Outcome> outcomes_;
};

}  // namespace

double measure_matrix_peak(const Gpu& gpu, const DevicePool& pool, CublasLt* peer, lathe_dtype dtype) {
  if (peer == nullptr) return 0;
  constexpr int64_t kSide = 8192;
  const Buffer d = gpu.device.allocate(kSide * kSide * 2);
  double best = 0;
  for (const LtCall& call : peer->algorithms({kSide, kSide, kSide, dtype})) {
    const CudaDriver::Graph graph(gpu.driver, gpu.stream, [&] {
      call(pool.copy(kSide * kSide * 2, 0), pool.copy(kSide * kSide * 2, 1), d.data(), gpu.stream);
    });
    for (int round = 0; round < 4; ++round) {
      const double start = now_seconds();
      graph.replay();
      if (round > 0) best = std::max(best, 2.0 * kSide * kSide * kSide / (now_seconds() - start));
    }
  }
  return best;
}

bool bench_cuda_matmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool,
                       CublasLt* peer) {
  CudaMatmul matmul(gpu, options, pool, peer);
  if (options.ragged && !matmul.measure({"ragged", 123, 456, 51234})) return false;
  for (const Shape& shape : options.shapes) {
    for (int64_t m : options.m) {
      if (2.0 * static_cast<double>(m * shape.n) * static_cast<double>(shape.k) > options.max_flop) continue;
      if (!matmul.measure({shape.name, m, shape.n, shape.k})) return false;
    }
  }
  matmul.report();
  return true;
}

}  // namespace lathe::bench
