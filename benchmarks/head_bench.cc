// A language model's head with its argmax fused, compared with the same matmul alone, which writes logits.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "contest.h"
#include "options.h"
#include "report.h"
#include "sample_check.h"

namespace lathe::bench {
namespace {

constexpr int64_t kRows[] = {1, 4, 16, 64};
constexpr struct {
  const char* name;
  Element element;
} kElements[] = {{"f32", Element::kF32}, {"bf16", Element::kBF16}};

class HeadBench {
 public:
  explicit HeadBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        table_("matmul_argmax, " + std::to_string(bench.options.threads) + " thread(s)",
               {"dtype", "M", "N", "K", "fused us", "matmul us", "matmul/fused", "quartiles",
                "of read bandwidth"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const char* name, const Gemm& g) {
    const size_t bytes = weight_bytes(g.element, static_cast<size_t>(g.n * g.k));
    if (bench_.pool->copies(bytes) == 0) {
      std::fprintf(stderr, "head %ldx%ld %s: left out, larger than the pool: raise --pool_bytes\n",
                   static_cast<long>(g.n), static_cast<long>(g.k), name);
      return true;
    }
    std::vector<float> a(static_cast<size_t>(g.m * g.k)),
        logits(static_cast<size_t>(g.m * g.n), std::numeric_limits<float>::quiet_NaN());
    std::memcpy(a.data(), bench_.pool->data(), weight_bytes(g.element, static_cast<size_t>(g.m * g.k)));
    std::vector<int64_t> indices(static_cast<size_t>(g.m), -1);
    size_t next = 0;
    bool failed = false;
    const Entrant fused = {"fused", [&] {
                             const lathe_matmul_desc plain =
                                 linear(g, a.data(), weights(bytes, &next), nullptr);
                             lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
                             desc.m = g.m, desc.n = g.n, desc.k = g.k;
                             desc.a = plain.a, desc.b = plain.b;
                             desc.logits_dtype = LATHE_F32;
                             desc.indices = indices.data();
                             desc.index_dtype = LATHE_I64;
                             if (lathe_matmul_argmax(device_.get(), nullptr, &desc) != LATHE_OK)
                               failed = true;
                           }};
    const Entrant alone = {"matmul", [&] {
                             const lathe_matmul_desc desc =
                                 linear(g, a.data(), weights(bytes, &next), logits.data());
                             if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                           }};
    fused.call();
    next = 0;
    alone.call();
    if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
    if (!is_right(g, "matmul", a.data(), bench_.pool->copy(bytes, 0), logits.data(), bench_.options.seed) ||
        !agrees(g, logits, indices))
      return false;
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    const std::vector<Standing> standings = run_contest({fused, alone}, contest);
    const Ratio ratio = paired_ratio(standings[0], standings[1]);
    table_.add(
        {name, std::to_string(g.m), std::to_string(g.n), std::to_string(g.k),
         number(standings[0].seconds * 1e6, 1), number(standings[1].seconds * 1e6, 1),
         number(ratio.median, 3), number(ratio.low, 3) + ".." + number(ratio.high, 3),
         number(100 * static_cast<double>(bytes) / standings[0].seconds / bench_.read_bandwidth, 0) + "%"});
    ratios_.push_back(ratio.median);
    return !failed;
  }

  // Returns false if the table cannot be written.
  [[nodiscard]] bool report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "head.csv");
    if (ratios_.empty()) return table_.is_written();
    reaches_floor("matmul_argmax, over the matmul alone (geometric mean of " +
                      std::to_string(ratios_.size()) + ", worst " +
                      number(*std::min_element(ratios_.begin(), ratios_.end()), 3) + ")",
                  geometric_mean(ratios_), 0.97, "x", !bench_.options.smoke);
    return table_.is_written();
  }

 private:
  void* weights(size_t bytes, size_t* next) const { return bench_.pool->copy(bytes, (*next)++); }

  // Whether the logit at each index is the row's maximum, up to rounding: the two kernels may sum in a
  // different order.
  static bool agrees(const Gemm& g, const std::vector<float>& logits, const std::vector<int64_t>& indices) {
    for (int64_t i = 0; i < g.m; ++i) {
      const float* row = logits.data() + i * g.n;
      const int64_t at = indices[static_cast<size_t>(i)];
      const double slack = 12 * std::sqrt(static_cast<double>(g.k)) * 0x1p-24 * static_cast<double>(g.k);
      if (at >= 0 && at < g.n && row[at] >= *std::max_element(row, row + g.n) - slack) continue;
      std::fprintf(stderr, "matmul_argmax %ldx%ldx%ld: row %ld has index %ld, which is not its maximum\n",
                   static_cast<long>(g.m), static_cast<long>(g.n), static_cast<long>(g.k),
                   static_cast<long>(i), static_cast<long>(at));
      return false;
    }
    return true;
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<double> ratios_;
};

}  // namespace

bool bench_head(const Bench& bench) {
  HeadBench head(bench);
  if (!head.ok()) return false;
  for (const auto& [name, element] : kElements) {
    bench.pool->fill(element);
    for (const Shape& shape : bench.options.heads)
      for (int64_t m : kRows)
        if (!head.measure(name, {m, shape.n, shape.k, true, element})) return false;
  }
  bench.pool->fill(Element::kF32);
  return head.report();
}

}  // namespace lathe::bench
