// matmul against cuBLASLt (its first answer and the fastest of its algorithms) and among the oracle's
// candidates. Weights are cold, activations hot, calls are replayed as graphs, and every entrant's result is
// checked.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "cuda/candidates.h"
#include "cuda/compile_ahead.h"
#include "report.h"
#include "roofline.h"

namespace lathe::bench {
namespace {

// How many algorithms are taken from cuBLASLt's heuristics, best estimate first.
constexpr int kAlgorithms = 8;

const std::vector<std::string> kColumns = {"weight",  "M",        "N",           "K",         "lathe us",
                                           "TFLOP/s", "GB/s",     "of roofline", "plan",      "first us",
                                           "best us", "vs first", "vs best",     "quartiles", "algorithms"};

class CudaMatmul {
 public:
  CudaMatmul(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool, CublasLt* peer,
             const std::vector<LinearProblem>& problems)
      : gpu_(gpu),
        options_(options),
        pool_(pool),
        peer_(peer),
        linear_(gpu, options, pool, problems),
        table_("matmul " + options.dtype_name + ", " + gpu.driver.name(), kColumns),
        csv_(options.csv_directory, "cuda_matmul_" + options.dtype_name + ".csv", kColumns, options.skip > 0),
        candidates_(options) {}

  // Returns false if a result of Lathe is wrong or a call of Lathe fails; the rows say which. Failures of the
  // peer appear in its columns only. Throws only if the CUDA context is lost.
  bool measure(const LinearProblem& p) {
    if (pool_.copies(p.weight_bytes()) == 0) return true;
    Row row;
    row.problem = p;
    std::vector<Contender> ours;
    try {
      measure(&row, &ours);
    } catch (const std::exception& e) {
      complain(p, e);
      row.ours = "REFUSED";
    }
    add(row);
    candidates_.add(p, ours);
    if (!gpu_.driver.is_alive(gpu_.stream)) throw std::runtime_error("the CUDA context is lost");
    return row.ours != "REFUSED" && row.ours != "WRONG" &&
           std::all_of(ours.begin(), ours.end(), [](const Contender& c) { return c.entry.fault.empty(); });
  }

  // Returns false if a floor is missed or a row cannot be written.
  bool report() const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    table_.print();
    print_means("M <= 16", 1, 16);
    print_means("M 17..64", 17, 64);
    print_means("M 65..511", 65, 511);
    print_means("M >= 512", 512, kMost);
    candidates_.report();
    const Means decode = means_of(1, 16), prefill = means_of(512, kMost);
    const bool streams = decode.bandwidth >= 90;
    bool met = reaches_floor("decode, M <= 16, over cuBLASLt's first answer", decode.first, 1, "x",
                             options_.judged && decode.first > 0 && !streams);
    met &= reaches_floor("decode, M <= 16, of the read bandwidth", decode.bandwidth, 90, "%",
                         options_.judged && streams);
    met &= reaches_floor("prefill, M >= 512, over cuBLASLt's first answer", prefill.first, 0.8, "x",
                         options_.judged && prefill.first > 0);
    Roofline roofline = roofline_;
    roofline.machine = gpu_.driver.name();
    roofline.threads = 0;
    roofline.peak_name = options_.dtype_name + " products";
    roofline.read_bandwidth = gpu_.read_bandwidth;
    roofline.fma_peak = gpu_.matrix_peak;
    met &= roofline.write(options_.roofline_file);
    return met && csv_.is_written() && candidates_.is_written();
  }

 private:
  struct Row {
    LinearProblem problem;
    std::string kernel = "-", ours = "-", tflops = "-", gbs = "-", roofline = "-";
    std::string first = "-", best = "-", vs_first = "-", vs_best = "-", quartiles = "-", algorithms = "-";
  };
  // The peer's first answer, unless it failed (then `fault` says how), and its fastest if that is another
  // one.
  struct Theirs {
    std::optional<GraphEntrant> first, best;
    std::string fault = "-", count = "-";
  };
  struct Outcome {
    int64_t m;
    double first, best, bandwidth;  // ratios to the peer, share of the read bandwidth
  };

  void measure(Row* row, std::vector<Contender>* ours) {
    enter_ours(row->problem, ours);
    row->kernel = (*ours)[0].candidate.kernel;
    row->ours = (*ours)[0].entry.fault;
    std::vector<GraphEntrant> entrants;
    std::vector<Contender*> measured;
    for (Contender& c : *ours) {
      if (!c.entry.entrant) continue;
      entrants.push_back(std::move(*c.entry.entrant));
      measured.push_back(&c);
    }
    const bool is_right = row->ours.empty();
    Theirs theirs;
    if (is_right) theirs = enter_theirs(row->problem);
    row->first = theirs.fault;
    row->algorithms = theirs.count;
    const bool has_first = theirs.first.has_value();
    for (std::optional<GraphEntrant>* one : {&theirs.first, &theirs.best})
      if (*one) entrants.push_back(std::move(**one));
    if (entrants.empty()) return;
    const std::vector<Standing> standings = run_graph_contest(entrants, options_.seconds);
    const auto end_of_ours = standings.begin() + static_cast<std::ptrdiff_t>(measured.size());
    for (size_t i = 0; i < measured.size(); ++i) measured[i]->standing = standings[i];
    if (is_right) fill(standings[0], {end_of_ours, standings.end()}, has_first, row);
  }

  // Enters the choice and then the next candidates. Prints a candidate's line before its first launch, so
  // that the log of a run that hangs shows the kernel.
  void enter_ours(const LinearProblem& p, std::vector<Contender>* ours) const {
    std::string fault;
    const std::string explained = prepare(p, &fault);
    for (Candidate& candidate : candidates_of(explained, options_.candidates))
      ours->push_back({std::move(candidate), {std::nullopt, "REFUSED"}, {}});
    for (size_t i = 0; i < ours->size(); ++i) {
      Contender& c = (*ours)[i];
      if (i == 0 && !fault.empty()) continue;
      std::printf("  candidate rank %d: %s\n", c.candidate.rank, c.candidate.text.c_str());
      std::fflush(stdout);
      const lathe_tuning tuning = forced(c.candidate.rank);
      const auto call = [&](const void* a, const void* w, void* d, void* stream) {
        gpu_.device.run(matmul_of(p, a, w, d, i == 0 ? nullptr : &tuning), stream);
      };
      c.entry = linear_.enter(i == 0 ? "lathe" : "lathe's rank " + std::to_string(c.candidate.rank), call, p);
      if (c.entry.fault == "REFUSED" && !gpu_.driver.is_alive(gpu_.stream))
        ours->resize(i + 1);  // the context is lost, so the next ones would fail too
    }
  }

  // Plans the problem as a call would and returns the explanation. If that fails, sets `fault` and returns
  // the oracle's ranking.
  std::string prepare(const LinearProblem& p, std::string* fault) const {
    const lathe_matmul_desc desc = matmul_of(p, nullptr, nullptr, nullptr);
    try {
      return gpu_.device.plan(desc).explain();
    } catch (const std::exception& e) {
      complain(p, e);
      *fault = "REFUSED";
      return gpu_.device.explain(desc);
    }
  }

  static void complain(const LinearProblem& p, const std::exception& e) {
    std::fprintf(stderr, "%s m=%ld: %s\n", p.name.c_str(), static_cast<long>(p.m), e.what());
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

  // `theirs`: the peer's first answer, unless it failed, and its fastest algorithm if that is another one.
  void fill(const Standing& ours, const std::vector<Standing>& theirs, bool has_first, Row* row) {
    const LinearProblem& p = row->problem;
    const double bytes = p.bytes();
    const double limit =
        std::max(gpu_.matrix_peak > 0 ? p.flops() / gpu_.matrix_peak : 0, bytes / gpu_.read_bandwidth);
    row->ours = number(ours.seconds * 1e6, 2);
    row->tflops = number(p.flops() / ours.seconds * 1e-12, 1);
    row->gbs = number(bytes / ours.seconds * 1e-9, 0);
    row->roofline = number(100 * limit / ours.seconds, 0) + "%";
    Outcome outcome{p.m, 0, 0, bytes / ours.seconds / gpu_.read_bandwidth};
    if (has_first) {
      const Ratio first = paired_ratio(ours, theirs[0]);
      outcome.first = first.median;
      row->first = number(theirs[0].seconds * 1e6, 2);
      row->vs_first = number(first.median, 2) + "x";
    }
    if (!theirs.empty()) {
      const Standing& best = theirs.back();
      const Ratio ratio = paired_ratio(ours, best);
      outcome.best = ratio.median;
      row->best = number(best.seconds * 1e6, 2);
      row->vs_best = number(ratio.median, 2) + "x";
      row->quartiles = number(ratio.low, 2) + ".." + number(ratio.high, 2);
    }
    outcomes_.push_back(outcome);
    const double theirs_flops = theirs.empty() ? 0 : p.flops() / theirs.back().seconds;
    roofline_.points.push_back({options_.dtype_name, p.name + " M " + std::to_string(p.m), p.flops() / bytes,
                                p.flops() / ours.seconds, theirs_flops});
  }

  void add(const Row& r) {
    const LinearProblem& p = r.problem;
    const std::vector<std::string> row = {p.name,
                                          std::to_string(p.m),
                                          std::to_string(p.n),
                                          std::to_string(p.k),
                                          r.ours,
                                          r.tflops,
                                          r.gbs,
                                          r.roofline,
                                          r.kernel,
                                          r.first,
                                          r.best,
                                          r.vs_first,
                                          r.vs_best,
                                          r.quartiles,
                                          r.algorithms};
    csv_.add(row);
    table_.add(row);
  }

  // Geometric means over rows of some M, 0 without rows: ratios, and percent of the read bandwidth.
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
  CsvFile csv_;
  CandidateTable candidates_;
  std::vector<Outcome> outcomes_;
  Roofline roofline_;
};

// Problems in the order of --m, each M with all shapes.
std::vector<LinearProblem> problems_of(const CudaBenchOptions& options) {
  std::vector<LinearProblem> problems;
  for (int64_t m : options.m) {
    for (const Shape& shape : options.shapes)
      problems.push_back({shape.name, m, shape.n, shape.k, options.dtype, options.dependent_launch});
  }
  if (options.ragged)
    problems.push_back({"ragged", 123, 456, 51234, options.dtype, options.dependent_launch});
  problems.erase(std::remove_if(problems.begin(), problems.end(),
                                [&](const LinearProblem& p) { return p.flops() > options.max_flop; }),
                 problems.end());
  return problems;
}

}  // namespace

double measure_matrix_peak(const Gpu& gpu, const DevicePool& pool, CublasLt* peer, lathe_dtype dtype) {
  if (peer == nullptr) return 0;
  int64_t side = 8192;
  while (pool.copies(static_cast<size_t>(side * side) * size_of(dtype)) < 4) side /= 2;
  const auto bytes = static_cast<size_t>(side * side) * size_of(dtype);
  const Buffer d = gpu.device.allocate(static_cast<size_t>(side * side) * size_of(result_of(dtype)));
  double best = 0;
  std::vector<LtCall> calls;
  try {
    calls = peer->algorithms({side, side, side, dtype}, kAlgorithms);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cuBLASLt, %ld cubed: %s\n", static_cast<long>(side), e.what());
  }
  for (const LtCall& call : calls) {
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
  const size_t first = std::min(options.skip, problems.size());
  size_t done = first;
  std::optional<CompileAhead> ahead;
  if (!is_over(options)) ahead.emplace(gpu.device, problems, first, options.candidates);
  try {
    for (; done < problems.size() && !is_over(options); ++done) {
      const LinearProblem& p = problems[done];
      std::printf("begin %zu %s M=%ld N=%ld K=%ld\n", done, p.name.c_str(), static_cast<long>(p.m),
                  static_cast<long>(p.n), static_cast<long>(p.k));
      std::fflush(stdout);
      right &= matmul.measure(p);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "matmul stops at %s m=%ld: %s\n", problems[done].name.c_str(),
                 static_cast<long>(problems[done].m), e.what());
    right = false;
  }
  right &= matmul.report();
  if (done < problems.size())
    std::printf("matmul: %zu of %zu rows measured\n", done - first, problems.size() - first);
  std::fflush(stdout);  // CompileAhead's destructor may wait for compilations
  return right;
}

}  // namespace lathe::bench
