// argmax against loops that the compiler vectorises. Cold logits come from memory and are compared with the
// time of reading them. Cached logits lie in L2, where a matmul has just left them.
#include <algorithm>
#include <cstdio>
#include <map>

#include "contest.h"
#include "options.h"
#include "report.h"
#include "scalar_argmax.h"

namespace lathe::bench {
namespace {

struct Kind {
  const char* name;
  lathe_dtype dtype;
  Element element;
  size_t bytes;
};
constexpr size_t kCachedBytes = 512 << 10;  // half of a usual L2
constexpr Kind kKinds[] = {{"f32", LATHE_F32, Element::kF32, 4},
                           {"f16", LATHE_F16, Element::kF16, 2},
                           {"bf16", LATHE_BF16, Element::kBF16, 2}};

int64_t scalar_row(const Kind& kind, const void* x, int64_t row, int64_t n) {
  switch (kind.dtype) {
    case LATHE_F32: return scalar_argmax(static_cast<const float*>(x) + row * n, n);
    case LATHE_F16: return scalar_argmax(static_cast<const _Float16*>(x) + row * n, n);
    default: return scalar_argmax(static_cast<const uint16_t*>(x) + row * n, n);
  }
}

class ArgmaxBench {
 public:
  explicit ArgmaxBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        scalar_team_(bench.options.threads),
        table_("argmax, " + std::to_string(bench.options.threads) + " thread(s)",
               {"dtype", "rows", "V", "logits", "lathe us", "GB/s", "of reading", "scalar us", "vs scalar",
                "quartiles"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const Kind& kind, int64_t rows, int64_t n, bool cached) {
    const size_t bytes = static_cast<size_t>(rows * n) * kind.bytes;
    if (cached && bytes > kCachedBytes) return true;
    if (bench_.pool->copies(bytes) == 0) {
      std::fprintf(stderr, "argmax %s %ldx%ld: left out, larger than the pool: raise --pool_bytes\n",
                   kind.name, static_cast<long>(rows), static_cast<long>(n));
      return true;
    }
    std::vector<int64_t> indices(static_cast<size_t>(rows), -1), expected(static_cast<size_t>(rows), -1);
    size_t next = 0;
    const auto logits = [&] { return bench_.pool->copy(bytes, cached ? 0 : next++); };
    bool failed = false;
    const Entrant ours = {"lathe", [&] {
                            lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
                            desc.rows = rows;
                            desc.n = n;
                            desc.x.data = logits();
                            desc.x.dtype = kind.dtype;
                            desc.indices = indices.data();
                            desc.index_dtype = LATHE_I64;
                            if (lathe_argmax(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                          }};
    // Its rows are distributed over the same number of threads.
    const Entrant scalar = {"scalar", [&] {
                              const void* x = logits();
                              scalar_team_.run(rows, [&](int64_t i) {
                                expected[static_cast<size_t>(i)] = scalar_row(kind, x, i, n);
                              });
                            }};
    ours.call();
    if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
    next = 0;
    scalar.call();
    if (indices != expected) {
      std::fprintf(stderr, "argmax %s %ldx%ld: indices differ from the scalar loop's\n", kind.name,
                   static_cast<long>(rows), static_cast<long>(n));
      return false;
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    std::vector<Entrant> entrants = {ours, scalar};
    if (!cached) entrants.push_back({"reading", [&] { bench_.reader->read(logits(), bytes); }});
    const std::vector<Standing> standings = run_contest(entrants, contest);
    const Ratio ratio = paired_ratio(standings[0], standings[1]);
    const double rate = static_cast<double>(bytes) / standings[0].seconds;
    const double of_reading = cached ? 0 : paired_ratio(standings[0], standings[2]).median;
    table_.add({kind.name, std::to_string(rows), std::to_string(n), cached ? "cached" : "cold",
                number(standings[0].seconds * 1e6, 1), number(rate * 1e-9, 1),
                cached ? "-" : number(100 * of_reading, 0) + "%", number(standings[1].seconds * 1e6, 1),
                number(ratio.median, 2) + "x", number(ratio.low, 2) + ".." + number(ratio.high, 2)});
    Figures& figures = figures_[kind.name];
    if (cached)
      figures.cached_of_scalar.push_back(ratio.median);
    else
      figures.cold_of_reading.push_back(of_reading);
    return !failed;
  }

  // Returns false if the table cannot be written.
  [[nodiscard]] bool report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "argmax.csv");
    for (const auto& [dtype, figures] : figures_) {
      judge("argmax " + dtype + ", cold logits, over reading them in the same rounds",
            figures.cold_of_reading, 0.90);
      judge("argmax " + dtype + ", cached logits, over the scalar loop", figures.cached_of_scalar, 2);
    }
    return table_.is_written();
  }

 private:
  struct Figures {
    std::vector<double> cold_of_reading, cached_of_scalar;
  };

  void judge(const std::string& what, const std::vector<double>& ratios, double floor) const {
    if (ratios.empty()) return;
    reaches_floor(what + " (geometric mean of " + std::to_string(ratios.size()) + ", worst " +
                      number(*std::min_element(ratios.begin(), ratios.end()), 2) + ")",
                  geometric_mean(ratios), floor, "x", !bench_.options.smoke);
  }

  const Bench& bench_;
  BenchDevice device_;
  const Team scalar_team_;
  Table table_;
  std::map<std::string, Figures> figures_;  // by dtype
};

}  // namespace

bool bench_argmax(const Bench& bench) {
  ArgmaxBench argmax(bench);
  if (!argmax.ok()) return false;
  for (const Kind& kind : kKinds) {
    const auto& wanted = bench.options.argmax_dtypes;
    if (std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end()) continue;
    bench.pool->fill(kind.element);
    for (int64_t n : bench.options.argmax_n) {
      for (int64_t rows : bench.options.argmax_rows) {
        for (bool cached : {false, true})
          if (!argmax.measure(kind, rows, n, cached)) return false;
      }
    }
  }
  return argmax.report();
}

}  // namespace lathe::bench
