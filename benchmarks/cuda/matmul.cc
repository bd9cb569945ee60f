// 16-bit matmul against cuBLASLt: its first answer, and the best of its algorithms timed. Cold weights, hot
// activations, graph replay, every entrant's result checked.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "cuda/linear.h"
#include "nlohmann/json.hpp"
#include "report.h"

namespace lathe::bench {
namespace {

using nlohmann::literals::operator""_json_pointer;

// Of those that its heuristics name, best first by their own estimate.
constexpr int kAlgorithms = 8;

class CudaMatmul {
 public:
  CudaMatmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool, CublasLt* peer,
             const std::vector<LinearProblem>& problems)
      : gpu_(gpu),
        options_(options),
        pool_(pool),
        peer_(peer),
        linear_(gpu, options, pool, problems),
        table_("matmul " + options.dtype_name + ", " + gpu.driver.name(),
               {"weight", "M", "N", "K", "lathe us", "TFLOP/s", "GB/s", "of roofline", "plan", "first us",
                "best us", "vs first", "vs best", "quartiles", "algorithms"}) {
    table_.write_csv(options.csv_directory, "cuda_matmul_" + options.dtype_name + ".csv");
  }

  // False: Lathe's own result was wrong, or a call failed; the row says which. What the peer alone fails at
  // is in its columns. Throws only where the device itself is lost.
  bool measure(const LinearProblem& p) {
    if (pool_.copies(p.weight_bytes()) == 0) return true;
    Row row;
    row.problem = p;
    try {
      measure(&row);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s m=%ld: %s\n", p.name.c_str(), static_cast<long>(p.m), e.what());
      row.ours = "REFUSED";
    }
    add(row);
    if (!gpu_.driver.is_alive(gpu_.stream)) throw std::runtime_error("the device is lost");
    return row.ours != "REFUSED" && row.ours != "WRONG";
  }

  // False: a floor was missed by what was measured, or a row could not be written.
  bool report() const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    table_.print();
    print_means("M <= 16", 1, 16);
    print_means("M 17..64", 17, 64);
    print_means("M 65..511", 65, 511);
    print_means("M >= 512", 512, kMost);
    const Means decode = means_of(1, 16), prefill = means_of(512, kMost);
    const bool streams = decode.bandwidth >= 90;
    bool met = reaches_floor("decode, M <= 16, over cuBLASLt's first answer", decode.first, 1, "x",
                             options_.judged && decode.first > 0 && !streams);
    met &= reaches_floor("decode, M <= 16, of the read bandwidth", decode.bandwidth, 90, "%",
                         options_.judged && streams);
    met &= reaches_floor("prefill, M >= 512, over cuBLASLt's first answer", prefill.first, 0.8, "x",
                         options_.judged && prefill.first > 0);
    return met && table_.is_written();
  }

 private:
  struct Row {
    LinearProblem problem;
    std::string kernel = "-", ours = "-", tflops = "-", gbs = "-", roofline = "-";
    std::string first = "-", best = "-", vs_first = "-", vs_best = "-", quartiles = "-", algorithms = "-";
  };
  // The peer's first answer unless it failed (`fault` says how), and its fastest where that is another.
  struct Theirs {
    std::optional<GraphEntrant> first, best;
    std::string fault = "-", count = "-";
  };
  struct Outcome {
    int64_t m;
    double first, best, bandwidth;  // the latter of the read bandwidth
  };

  void measure(Row* row) {
    Entry ours = enter_ours(row->problem, &row->kernel);
    if (!ours.entrant) {
      row->ours = ours.fault;
      return;
    }
    Theirs theirs = enter_theirs(row->problem);
    row->first = theirs.fault;
    row->algorithms = theirs.count;
    const bool has_first = theirs.first.has_value();
    std::vector<GraphEntrant> entrants;
    entrants.push_back(std::move(*ours.entrant));
    for (std::optional<GraphEntrant>* one : {&theirs.first, &theirs.best})
      if (*one) entrants.push_back(std::move(**one));
    fill(run_graph_contest(entrants, options_.seconds), has_first, row);
  }

  Entry enter_ours(const LinearProblem& p, std::string* kernel) const {
    return linear_.enter(
        "lathe",
        [&](const void* a, const void* w, void* d, void* stream) {
          const lathe_matmul_desc desc = matmul_of(p, options_.dtype, a, w, d);
          if (*kernel == "-") *kernel = kernel_of(gpu_.device.plan(desc));
          gpu_.device.run(desc, stream);
        },
        p);
  }

  Theirs enter_theirs(const LinearProblem& p) const {
    Theirs theirs;
    if (peer_ == nullptr) return theirs;
    std::vector<LtCall> calls;
    try {
      calls = peer_->algorithms({p.m, p.n, p.k, options_.dtype}, kAlgorithms);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "cuBLASLt: %s m=%ld: %s\n", p.name.c_str(), static_cast<long>(p.m), e.what());
    }
    theirs.fault = calls.empty() ? "REFUSED" : "";
    int wrong = 0, refused = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < calls.size(); ++i) {
      Entry entry = linear_.enter("cuBLASLt's answer " + std::to_string(i + 1), calls[i], p);
      wrong += entry.fault == "WRONG", refused += entry.fault == "REFUSED";
      if (i == 0) theirs.fault = entry.fault;
      if (!entry.entrant) continue;
      const double seconds = linear_.probe(*entry.entrant);
      const bool is_best = seconds < least;
      if (is_best) least = seconds;
      if (i == 0)
        theirs.first = std::move(entry.entrant);
      else if (is_best)
        theirs.best = std::move(entry.entrant);
    }
    theirs.count = std::to_string(calls.size());
    if (wrong > 0) theirs.count += " (" + std::to_string(wrong) + " WRONG)";
    if (refused > 0) theirs.count += " (" + std::to_string(refused) + " REFUSED)";
    return theirs;
  }

  static std::string kernel_of(const Plan& plan) {
    const nlohmann::json json = nlohmann::json::parse(plan.explain());
    return json.value("/config/kernel"_json_pointer, "none");
  }

  // The standings are Lathe's, the peer's first answer's unless that failed, and its best's if another.
  void fill(const std::vector<Standing>& standings, bool has_first, Row* row) {
    const LinearProblem& p = row->problem;
    const double bytes = 2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
    const double limit =
        std::max(gpu_.matrix_peak > 0 ? p.flops() / gpu_.matrix_peak : 0, bytes / gpu_.read_bandwidth);
    const Standing& ours = standings[0];
    row->ours = number(ours.seconds * 1e6, 2);
    row->tflops = number(p.flops() / ours.seconds * 1e-12, 1);
    row->gbs = number(bytes / ours.seconds * 1e-9, 0);
    row->roofline = number(100 * limit / ours.seconds, 0) + "%";
    Outcome outcome{p.m, 0, 0, bytes / ours.seconds / gpu_.read_bandwidth};
    if (has_first) {
      const Ratio first = paired_ratio(ours, standings[1]);
      outcome.first = first.median;
      row->first = number(standings[1].seconds * 1e6, 2);
      row->vs_first = number(first.median, 2) + "x";
    }
    if (standings.size() > 1) {
      const Standing& best = standings.back();
      const Ratio ratio = paired_ratio(ours, best);
      outcome.best = ratio.median;
      row->best = number(best.seconds * 1e6, 2);
      row->vs_best = number(ratio.median, 2) + "x";
      row->quartiles = number(ratio.low, 2) + ".." + number(ratio.high, 2);
    }
    outcomes_.push_back(outcome);
  }

  void add(const Row& r) {
    const LinearProblem& p = r.problem;
    table_.add({p.name, std::to_string(p.m), std::to_string(p.n), std::to_string(p.k), r.ours, r.tflops,
                r.gbs, r.roofline, r.kernel, r.first, r.best, r.vs_first, r.vs_best, r.quartiles,
                r.algorithms});
  }

  // Geometric means over the rows of these M, 0 where there are none: ratios, and percent of the bandwidth.
  struct Means {
    double first = 0, best = 0, worst = 0, bandwidth = 0;
    size_t rows = 0;
  };

  Means means_of(int64_t lo, int64_t hi) const {
    std::vector<double> first, best, bandwidth;
    for (const Outcome& o : outcomes_) {
      if (o.m < lo || o.m > hi) continue;
      if (o.first > 0) first.push_back(o.first);
      if (o.best > 0) best.push_back(o.best);
      bandwidth.push_back(100 * o.bandwidth);
    }
    const double worst = best.empty() ? 0 : *std::min_element(best.begin(), best.end());
    return {geometric_mean(first), geometric_mean(best), worst, geometric_mean(bandwidth), bandwidth.size()};
  }

  void print_means(const char* name, int64_t lo, int64_t hi) const {
    const Means means = means_of(lo, hi);
    if (means.rows == 0) return;
    std::printf(
        "%s: %.3fx cuBLASLt's first answer, %.3fx its best (worst %.2fx), %.1f%% of the read bandwidth; "
        "geometric means "
        "of %zu rows\n",
        name, means.first, means.best, means.worst, means.bandwidth, means.rows);
  }

  const Gpu& gpu_;
  const CudaBenchOptions& options_;
  const DevicePool& pool_;
  CublasLt* peer_;
  LinearBench linear_;
  Table table_;
  std::vector<Outcome> outcomes_;
};

// The M that were asked for first come first, each with all shapes.
std::vector<LinearProblem> problems_of(const CudaBenchOptions& options) {
  std::vector<LinearProblem> problems;
  for (int64_t m : options.m) {
    for (const Shape& shape : options.shapes) problems.push_back({shape.name, m, shape.n, shape.k});
  }
  if (options.ragged) problems.push_back({"ragged", 123, 456, 51234});
  problems.erase(std::remove_if(problems.begin(), problems.end(),
                                [&](const LinearProblem& p) { return p.flops() > options.max_flop; }),
                 problems.end());
  return problems;
}

}  // namespace

double measure_matrix_peak(const Gpu& gpu, const DevicePool& pool, CublasLt* peer, lathe_dtype dtype) {
  if (peer == nullptr) return 0;
  int64_t side = 8192;
  while (pool.copies(static_cast<size_t>(side * side) * 2) < 4) side /= 2;
  const auto bytes = static_cast<size_t>(side * side) * 2;
  const Buffer d = gpu.device.allocate(bytes);
  double best = 0;
  for (const LtCall& call : peer->algorithms({side, side, side, dtype}, kAlgorithms)) {
    const auto multiply = [&] { call(pool.copy(bytes, 0), pool.copy(bytes, 1), d.data(), gpu.stream); };
    try {
      multiply();
      const CudaDriver::Graph graph(gpu.driver, gpu.stream, multiply);
      for (int round = 0; round < 4; ++round) {
        const double start = now_seconds();
        graph.replay();
        const double cubed =
            static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
        if (round > 0) best = std::max(best, 2 * cubed / (now_seconds() - start));
      }
    } catch (const std::exception& e) {
      std::fprintf(stderr, "cuBLASLt, %ld cubed: %s\n", static_cast<long>(side), e.what());
    }
  }
  return best;
}

bool bench_cuda_matmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool,
                       CublasLt* peer) {
  const std::vector<LinearProblem> problems = problems_of(options);
  CudaMatmul matmul(gpu, options, pool, peer, problems);
  bool right = true;
  size_t done = 0;
  try {
    for (; done < problems.size() && !is_over(options); ++done) right &= matmul.measure(problems[done]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "matmul ends at %s m=%ld: %s\n", problems[done].name.c_str(),
                 static_cast<long>(problems[done].m), e.what());
    right = false;
  }
  right &= matmul.report();
  if (done < problems.size()) std::printf("matmul: %zu of %zu rows measured\n", done, problems.size());
  return right;
}

}  // namespace lathe::bench
