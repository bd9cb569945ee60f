// Regret: the oracle's choice, and tuning's, against the best of the oracle's candidates, timed; how much an
// exhaustive search would gain, and where.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Candidate {
  std::string label;
  double predicted = 0;
  nlohmann::json config, splits;  // as lathe_plan_explain and records have them
  lathe_plan* plan = nullptr;
};

void append_text(void* user, const char*, const char* piece, size_t size) {
  static_cast<std::string*>(user)->append(piece, size);
}

std::string label_of(const nlohmann::json& candidate) {
  const nlohmann::json& c = candidate["config"];
  const auto field = [&c](const char* name) { return std::to_string(c.value(name, 0)); };
  return c.value("kernel", "?") + " " + field("register_m") + "x" + field("register_n") + " tile " +
         field("tile_m") + "x" + field("tile_n") + "x" + field("tile_k") + " unroll " + field("unroll_k") +
         " splits " + std::to_string(candidate.value("splits", 0));
}

class OracleBench {
 public:
  explicit OracleBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        table_("oracle, " + std::to_string(bench.options.threads) +
                   " thread(s): the choice against the best of its " + "first candidates, timed",
               {"weight", "M", "N", "K", "candidates", "choice us", "predicted us", "tuned us", "best us",
                "choice/best", "tuned/best", "choice", "tuned", "best", "best's rank"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const std::string& name, int64_t m, int64_t n, int64_t k) {
    const size_t weight_bytes = static_cast<size_t>(n * k) * 4;
    if (bench_.pool->copies(weight_bytes) == 0) return true;
    std::vector<float> a(static_cast<size_t>(m * k)), d(static_cast<size_t>(m * n));
    std::mt19937_64 engine(bench_.options.seed);
    std::normal_distribution<float> normal;
    for (float& x : a) x = normal(engine);
    lathe_matmul_desc desc = linear({m, n, k, bench_.options.trans_b}, a.data(), nullptr, d.data());
    std::vector<Candidate> candidates;
    if (!plan_candidates(desc, &candidates)) return false;
    size_t next = 0;
    std::vector<Entrant> entrants;
    bool failed = false;
    for (size_t i = 0; i < candidates.size(); ++i) {
      entrants.push_back({candidates[i].label, [&, i] {
                            lathe_matmul_desc request = desc;
                            request.b.data = bench_.pool->copy(weight_bytes, next++);
                            if (lathe_plan_run_matmul(candidates[i].plan, nullptr, &request) != LATHE_OK)
                              failed = true;
                          }});
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds * static_cast<double>(candidates.size()) / 4;
    contest.min_rounds = 5;
    const std::vector<Standing> standings = run_contest(entrants, contest);
    for (const Candidate& candidate : candidates) lathe_plan_destroy(candidate.plan);
    size_t tuned = 0;
    if (!tune(desc, candidates, &tuned)) return false;
    if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
    const auto best =
        std::min_element(standings.begin(), standings.end(),
                         [](const Standing& x, const Standing& y) { return x.seconds < y.seconds; });
    const Ratio loss = paired_ratio(*best, standings[0]), left = paired_ratio(*best, standings[tuned]);
    table_.add({name, std::to_string(m), std::to_string(n), std::to_string(k),
                std::to_string(candidates.size()), number(standings[0].seconds * 1e6, 1),
                number(candidates[0].predicted * 1e6, 1), number(standings[tuned].seconds * 1e6, 1),
                number(best->seconds * 1e6, 1), number(loss.median, 3), number(left.median, 3),
                standings[0].name, standings[tuned].name, best->name,
                std::to_string(best - standings.begin() + 1)});
    losses_.push_back(loss.median);
    tuned_losses_.push_back(left.median);
    return true;
  }

  void report() const {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "oracle.csv");
    for (const auto& [who, losses] :
         {std::make_pair("the oracle's choice", &losses_), std::make_pair("tuning's winner", &tuned_losses_)})
      std::printf("%s takes %.3fx the best candidate's time (geometric mean of %zu, worst %.3fx)\n", who,
                  geometric_mean(*losses), losses->size(), *std::max_element(losses->begin(), losses->end()));
  }

 private:
  // Plans of the best-ranked candidates, the oracle's choice first.
  bool plan_candidates(const lathe_matmul_desc& desc, std::vector<Candidate>* candidates) {
    lathe_plan* choice = nullptr;
    if (!succeeded(lathe_plan_matmul(device_.get(), &desc, &choice), "planning")) return false;
    std::string text;
    const lathe_status explained = lathe_plan_explain(choice, append_text, &text);
    lathe_plan_destroy(choice);
    if (!succeeded(explained, "explaining")) return false;
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return false;
    for (const auto& candidate : json["candidates"]) {
      if (!candidate.value("legal", false)) break;
      if (static_cast<int>(candidates->size()) == bench_.options.oracle_candidates) break;
      lathe_tuning tuning = LATHE_TUNING_INIT;
      tuning.candidate = candidate.value("rank", 0);
      lathe_matmul_desc tuned = desc;
      tuned.next = reinterpret_cast<const lathe_chain*>(&tuning);
      Candidate entry = {label_of(candidate), candidate.value("predicted_seconds", 0.0), candidate["config"],
                         candidate["splits"]};
      if (!succeeded(lathe_plan_matmul(device_.get(), &tuned, &entry.plan), "planning a candidate"))
        return false;
      candidates->push_back(entry);
    }
    return !candidates->empty();
  }

  // Which of the candidates tuning takes that measures the first `oracle_tuned` of them.
  bool tune(const lathe_matmul_desc& desc, const std::vector<Candidate>& candidates, size_t* tuned) {
    std::string text;
    lathe_tune_options options = LATHE_TUNE_OPTIONS_INIT;
    options.candidates = static_cast<uint32_t>(
        std::min<size_t>(candidates.size(), static_cast<size_t>(bench_.options.oracle_tuned)));
    options.pool_bytes = bench_.pool->bytes();
    options.text = append_text;
    options.text_user = &text;
    if (!succeeded(lathe_tune_matmul(device_.get(), &desc, &options, nullptr), "tuning")) return false;
    const nlohmann::json record = nlohmann::json::parse(text, nullptr, false);
    const auto winner = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
      return c.config == record.value("config", nlohmann::json()) &&
             c.splits == record.value("splits", nlohmann::json());
    });
    if (winner == candidates.end()) return false;
    *tuned = static_cast<size_t>(winner - candidates.begin());
    return true;
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<double> losses_, tuned_losses_;
};

}  // namespace

bool bench_oracle(const Bench& bench) {
  OracleBench oracle(bench);
  if (!oracle.ok()) return false;
  const Options& options = bench.options;
  if (options.ragged && !oracle.measure("ragged", 123, 456, 51234)) return false;
  for (const Shape& shape : options.shapes) {
    for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m}) {
      for (int64_t m : *list) {
        if (!oracle.measure(shape.name, m, shape.n, shape.k)) return false;
      }
    }
  }
  oracle.report();
  return true;
}

}  // namespace lathe::bench
