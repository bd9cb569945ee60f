// f32 matmul against the peers: cold weights, hot activations, every result checked.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Problem {
  std::string name;
  int64_t m, n, k;
  bool trans_b;
};

// Samples of D against float64, within the error that any order of f32 sums stays well below. A column
// sampled is computed for its row alone.
bool is_right(const Problem& p, const float* a, const float* b, const float* d, uint64_t seed) {
  std::mt19937_64 engine(seed);
  for (int sample = 0; sample < 64; ++sample) {
    const int64_t i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
    const int64_t j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
    double sum = 0, magnitude = 0;
    for (int64_t q = 0; q < p.k; ++q) {
      const double product = static_cast<double>(a[i * p.k + q]) *
                             static_cast<double>(p.trans_b ? b[j * p.k + q] : b[q * p.n + j]);
      sum += product;
      magnitude += std::fabs(product);
    }
    const double bound = 6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 * magnitude;
    const double got = d[i * p.n + j];
    if (!(std::fabs(got - sum) <= bound)) {
      std::fprintf(stderr, "%s m=%ld: (%ld, %ld) is %g, expected %g within %g\n", p.name.c_str(),
                   static_cast<long>(p.m), static_cast<long>(i), static_cast<long>(j), got, sum, bound);
      return false;
    }
  }
  return true;
}

struct Row {
  double ratio = 0;  // of the better peer
  int64_t m = 0;
  bool ragged = false;
};

class MatmulBench {
 public:
  explicit MatmulBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        table_("matmul f32, " + std::to_string(bench.options.threads) + " thread(s)",
               {"weight", "M", "N", "K", "lathe us", "GFLOP/s", "of roofline", "best peer", "peer us",
                "vs best peer", "quartiles", "rounds"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const Problem& p) {
    if (2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k) > bench_.options.max_flop)
      return true;
    const size_t weight_bytes = static_cast<size_t>(p.n * p.k) * 4;
    const size_t copies = bench_.pool->copies(weight_bytes);
    if (copies == 0) {
      std::fprintf(stderr, "%s: %zu bytes do not fit the pool\n", p.name.c_str(), weight_bytes);
      return true;
    }
    std::vector<float> a(static_cast<size_t>(p.m * p.k)), d(static_cast<size_t>(p.m * p.n));
    std::mt19937_64 engine(bench_.options.seed + static_cast<uint64_t>(p.m));
    std::normal_distribution<float> normal;
    for (float& x : a) x = normal(engine);

    // One walk over the copies for everybody: none finds in the cache what another has just read.
    bool failed = false;
    size_t next = 0;
    const auto weights = [&] { return static_cast<const float*>(bench_.pool->copy(weight_bytes, next++)); };
    std::vector<Entrant> entrants;
    entrants.push_back({"lathe", [&] {
                          const lathe_matmul_desc desc =
                              linear(p.m, p.n, p.k, p.trans_b, a.data(), weights(), d.data());
                          if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                        }});
    for (size_t i = 0; i < bench_.peers->size(); ++i) {
      auto run = (*bench_.peers)[i]->prepare({p.m, p.n, p.k, p.trans_b});
      entrants.push_back({(*bench_.peers)[i]->name(), [&, run] { run(a.data(), weights(), d.data()); }});
    }
    for (const Entrant& entrant : entrants) {
      next = 0;
      std::fill(d.begin(), d.end(), std::numeric_limits<float>::quiet_NaN());
      entrant.call();
      if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
      if (!is_right(p, a.data(), static_cast<const float*>(bench_.pool->copy(weight_bytes, 0)), d.data(),
                    engine())) {
        std::fprintf(stderr, "%s is wrong\n", entrant.name.c_str());
        return false;
      }
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    add(p, run_contest(entrants, contest));
    return !failed;
  }

  void report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "matmul.csv");
    if (bench_.peers->empty()) return;
    print_mean("M 1..64 and the ragged K", [](const Row& row) { return row.m <= 64 || row.ragged; });
    print_mean("M 65..511", [](const Row& row) { return row.m > 64 && row.m < 512 && !row.ragged; });
    print_mean("M >= 512", [](const Row& row) { return row.m >= 512; });
  }

 private:
  void add(const Problem& p, const std::vector<Standing>& standings) {
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const double bytes = 4.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
    const double limit = std::max(flops / bench_.fma_peak, bytes / bench_.read_bandwidth);
    const Standing& ours = standings[0];
    std::vector<std::string> row = {p.name,
                                    std::to_string(p.m),
                                    std::to_string(p.n),
                                    std::to_string(p.k),
                                    number(ours.seconds * 1e6, 1),
                                    number(flops / ours.seconds * 1e-9, 1),
                                    number(100 * limit / ours.seconds, 0) + "%"};
    const auto best =
        std::min_element(standings.begin() + 1, standings.end(),
                         [](const Standing& x, const Standing& y) { return x.seconds < y.seconds; });
    if (best == standings.end()) {
      row.insert(row.end(), {"-", "-", "-", "-"});
    } else {
      const Ratio ratio = paired_ratio(ours, *best);
      row.insert(row.end(), {best->name, number(best->seconds * 1e6, 1), number(ratio.median, 2) + "x",
                             number(ratio.low, 2) + ".." + number(ratio.high, 2)});
      ratios_.push_back({ratio.median, p.m, p.k > 50000});
    }
    row.push_back(std::to_string(ours.rounds.size()));
    table_.add(row);
  }

  template <typename Belongs>
  void print_mean(const char* name, const Belongs& belongs) const {
    std::vector<double> ratios;
    for (const Row& row : ratios_) {
      if (belongs(row)) ratios.push_back(row.ratio);
    }
    if (ratios.empty()) return;
    std::printf("%s: %.2fx the better peer (geometric mean of %zu shapes, worst %.2fx)\n", name,
                geometric_mean(ratios), ratios.size(), *std::min_element(ratios.begin(), ratios.end()));
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<Row> ratios_;
};

}  // namespace

bool bench_matmul(const Bench& bench) {
  MatmulBench matmul(bench);
  if (!matmul.ok()) return false;
  const Options& options = bench.options;
  if (options.ragged && !matmul.measure({"ragged", 123, 456, 51234, options.trans_b})) return false;
  for (const Shape& shape : options.shapes) {
    for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m}) {
      for (int64_t m : *list) {
        if (!matmul.measure({shape.name, m, shape.n, shape.k, options.trans_b})) return false;
      }
    }
  }
  matmul.report();
  return true;
}

}  // namespace lathe::bench
