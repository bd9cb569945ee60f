// Small products with operands in the cache: single ones of 8 to 64 cubed and batches of 64 of 32 to 128
// cubed, against every peer that supports them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

constexpr int64_t kBatch = 64;

// Compares every element of the first and the last product of the batch with float64.
bool is_right(const Gemm& g, const std::vector<float>& a, const std::vector<float>& b,
              const std::vector<float>& d) {
  for (int64_t p : {int64_t{0}, g.batch - 1}) {
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t q = 0; q < g.k; ++q) {
          const double product =
              double{a[static_cast<size_t>((p * g.m + i) * g.k + q)]} *
              b[static_cast<size_t>(p * g.n * g.k + (g.trans_b ? j * g.k + q : q * g.n + j))];
          sum += product;
          magnitude += std::fabs(product);
        }
        const double got = d[static_cast<size_t>((p * g.m + i) * g.n + j)];
        if (!(std::fabs(got - sum) <= 6 * std::sqrt(static_cast<double>(g.k) + 4) * 0x1p-24 * magnitude)) {
          std::fprintf(stderr, "%ld cubed: product %ld (%ld, %ld) is %g, expected %g\n",
                       static_cast<long>(g.m), static_cast<long>(p), static_cast<long>(i),
                       static_cast<long>(j), got, sum);
          return false;
        }
      }
    }
  }
  return true;
}

class SmallBench {
 public:
  explicit SmallBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        table_("small f32 products, " + std::to_string(bench.options.threads) + " thread(s)",
               {"layout", "batch", "cubed", "lathe us", "GFLOP/s", "of FMA peak", "best peer", "peer us",
                "vs best peer", "quartiles", "rounds"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const Gemm& g) {
    std::vector<float> a(static_cast<size_t>(g.batch * g.m * g.k)),
        b(static_cast<size_t>(g.batch * g.n * g.k)), d(static_cast<size_t>(g.batch * g.m * g.n));
    std::mt19937_64 engine(bench_.options.seed);
    std::normal_distribution<float> normal;
    for (std::vector<float>* values : {&a, &b})
      for (float& x : *values) x = normal(engine);
    bool failed = false;
    const lathe_matmul_desc desc = linear(g, a.data(), b.data(), d.data());
    std::vector<Entrant> entrants = {{"lathe", [&] {
                                        if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK)
                                          failed = true;
                                      }}};
    for (const auto& peer : *bench_.peers)
      if (auto run = peer->prepare(g))
        entrants.push_back({peer->name(), [&, run] { run(a.data(), b.data(), d.data()); }});
    for (const Entrant& entrant : entrants) {
      std::fill(d.begin(), d.end(), std::numeric_limits<float>::quiet_NaN());
      entrant.call();
      if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
      if (is_right(g, a, b, d)) continue;
      std::fprintf(stderr, "small: the result of %s is wrong\n", entrant.name.c_str());
      return false;
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    add(g, run_contest(entrants, contest));
    return !failed;
  }

  // Returns false if the table cannot be written.
  [[nodiscard]] bool report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "small.csv");
    if (ratios_.empty()) return table_.is_written();
    reaches_floor("small, over the best peer (geometric mean of " + std::to_string(ratios_.size()) +
                      ", worst " + number(*std::min_element(ratios_.begin(), ratios_.end()), 2) + ")",
                  geometric_mean(ratios_), 1.2, "x", !bench_.options.smoke);
    return table_.is_written();
  }

 private:
  void add(const Gemm& g, const std::vector<Standing>& standings) {
    const Standing& ours = standings[0];
    const double flops = 2.0 * static_cast<double>(g.batch * g.m) * static_cast<double>(g.n * g.k);
    std::vector<std::string> row = {g.trans_b ? "nt" : "nn",
                                    std::to_string(g.batch),
                                    std::to_string(g.m),
                                    number(ours.seconds * 1e6, 2),
                                    number(flops / ours.seconds * 1e-9, 1),
                                    number(100 * flops / ours.seconds / bench_.fma_peak, 0) + "%"};
    const auto best =
        std::min_element(standings.begin() + 1, standings.end(),
                         [](const Standing& x, const Standing& y) { return x.seconds < y.seconds; });
    if (best == standings.end()) {
      row.insert(row.end(), {"-", "-", "-", "-"});
    } else {
      const Ratio ratio = paired_ratio(ours, *best);
      row.insert(row.end(), {best->name, number(best->seconds * 1e6, 2), number(ratio.median, 2) + "x",
                             number(ratio.low, 2) + ".." + number(ratio.high, 2)});
      ratios_.push_back(ratio.median);
    }
    row.push_back(std::to_string(ours.rounds.size()));
    table_.add(row);
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<double> ratios_;
};

}  // namespace

bool bench_small(const Bench& bench) {
  SmallBench small(bench);
  if (!small.ok()) return false;
  for (bool trans_b : {true, false}) {
    for (int64_t size : bench.options.single_cubed)
      if (!small.measure({size, size, size, trans_b})) return false;
    for (int64_t size : bench.options.batched_cubed)
      if (!small.measure({size, size, size, trans_b, Element::kF32, kBatch})) return false;
  }
  return small.report();
}

}  // namespace lathe::bench
