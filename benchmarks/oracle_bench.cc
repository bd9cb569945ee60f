// Regret: the oracle's choice, and tuning's, against the best of the oracle's candidates, timed; how much an
// exhaustive search would gain, and where. And its choice among these and the external libraries that are
// installed, against the best of all.
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

// What is timed of a class: `own` candidates, the oracle's choice first, then what external libraries do.
struct Field {
  std::vector<Candidate> all;
  size_t own = 0, choice_of_all = 0;
};

void append_text(void* user, const char*, const char* piece, size_t size) {
  static_cast<std::string*>(user)->append(piece, size);
}

bool is_external(const nlohmann::json& candidate) {
  return !candidate["config"]["external"].value("library", "").empty();
}

std::string label_of(const nlohmann::json& candidate) {
  const nlohmann::json& c = candidate["config"];
  if (is_external(candidate))
    return c["external"].value("library", "?") + " " + c["external"].value("routine", "?");
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
                "choice/best", "tuned/best", "choice", "tuned", "best", "best's rank", "external us",
                "external", "of all", "choice of all"}) {}

  bool ok() const { return device_.ok(); }

  bool measure(const std::string& name, int64_t m, int64_t n, int64_t k) {
    const size_t weight_bytes = static_cast<size_t>(n * k) * 4;
    if (bench_.pool->copies(weight_bytes) == 0) return true;
    std::vector<float> a(static_cast<size_t>(m * k)), d(static_cast<size_t>(m * n));
    std::mt19937_64 engine(bench_.options.seed);
    std::normal_distribution<float> normal;
    for (float& x : a) x = normal(engine);
    lathe_matmul_desc desc = linear({m, n, k, bench_.options.trans_b}, a.data(), nullptr, d.data());
    Field field;
    const bool planned = plan_field(desc, &field);
    const std::vector<Candidate>& all = field.all;
    size_t next = 0;
    std::vector<Entrant> entrants;
    bool failed = false;
    for (const Candidate& candidate : all) {
      entrants.push_back({candidate.label, [&] {
                            lathe_matmul_desc request = desc;
                            request.b.data = bench_.pool->copy(weight_bytes, next++);
                            if (lathe_plan_run_matmul(candidate.plan, nullptr, &request) != LATHE_OK)
                              failed = true;
                          }});
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds * static_cast<double>(all.size()) / 4;
    contest.min_rounds = 5;
    std::vector<Standing> standings;
    if (planned) standings = run_contest(entrants, contest);
    for (const Candidate& candidate : all) lathe_plan_destroy(candidate.plan);
    size_t tuned = 0;
    if (!planned || !tune(desc, field, &tuned)) return false;
    if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
    const auto faster = [](const Standing& x, const Standing& y) { return x.seconds < y.seconds; };
    const auto own_end = standings.begin() + static_cast<ptrdiff_t>(field.own);
    const auto best = std::min_element(standings.begin(), own_end, faster);
    const auto external = std::min_element(own_end, standings.end(), faster);
    const auto best_of_all = std::min_element(standings.begin(), standings.end(), faster);
    const double loss = paired_ratio(*best, standings[0]).median,
                 tuned_loss = paired_ratio(*best, standings[tuned]).median,
                 loss_of_all = paired_ratio(*best_of_all, standings[field.choice_of_all]).median;
    const bool has_external = external != standings.end();
    table_.add({name, std::to_string(m), std::to_string(n), std::to_string(k), std::to_string(field.own),
                number(standings[0].seconds * 1e6, 1), number(all[0].predicted * 1e6, 1),
                number(standings[tuned].seconds * 1e6, 1), number(best->seconds * 1e6, 1), number(loss, 3),
                number(tuned_loss, 3), standings[0].name, standings[tuned].name, best->name,
                std::to_string(best - standings.begin() + 1),
                has_external ? number(external->seconds * 1e6, 1) : "", has_external ? external->name : "",
                number(loss_of_all, 3), standings[field.choice_of_all].name});
    losses_.push_back(loss);
    tuned_losses_.push_back(tuned_loss);
    losses_of_all_.push_back(loss_of_all);
    return true;
  }

  void report() const {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "oracle.csv");
    const auto tell = [](const char* who, const char* whose, const std::vector<double>& losses) {
      std::printf("%s takes %.3fx the time of the best of %s (geometric mean of %zu, worst %.3fx)\n", who,
                  geometric_mean(losses), whose, losses.size(),
                  *std::max_element(losses.begin(), losses.end()));
    };
    tell("the oracle's choice", "its candidates", losses_);
    tell("tuning's winner", "these", tuned_losses_);
    tell("the oracle's choice among libraries too", "all", losses_of_all_);
  }

 private:
  bool explain(const lathe_matmul_desc& desc, nlohmann::json* json) {
    lathe_plan* plan = nullptr;
    if (!succeeded(lathe_plan_matmul(device_.get(), &desc, &plan), "planning")) return false;
    std::string text;
    const lathe_status explained = lathe_plan_explain(plan, append_text, &text);
    lathe_plan_destroy(plan);
    if (!succeeded(explained, "explaining")) return false;
    *json = nlohmann::json::parse(text, nullptr, false);
    return json->is_object();
  }

  // `desc` has the policy that the candidate was ranked under.
  bool plan_candidate(const lathe_matmul_desc& desc, const nlohmann::json& candidate, Field* field) {
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.candidate = candidate.value("rank", 0);
    tuning.next = desc.next;
    lathe_matmul_desc forced = desc;
    forced.next = reinterpret_cast<const lathe_chain*>(&tuning);
    field->all.push_back({label_of(candidate), candidate.value("predicted_seconds", 0.0), candidate["config"],
                          candidate["splits"]});
    return succeeded(lathe_plan_matmul(device_.get(), &forced, &field->all.back().plan),
                     "planning a candidate");
  }

  // Plans of the best-ranked candidates, the oracle's choice first, and of every routine of a library.
  bool plan_field(const lathe_matmul_desc& desc, Field* field) {
    nlohmann::json own, all;
    lathe_external off = LATHE_EXTERNAL_INIT, allow = LATHE_EXTERNAL_INIT;
    off.use = LATHE_EXTERNAL_OFF;
    allow.use = LATHE_EXTERNAL_ALLOW;
    lathe_matmul_desc without = desc, with = desc;
    without.next = reinterpret_cast<const lathe_chain*>(&off);
    with.next = reinterpret_cast<const lathe_chain*>(&allow);
    if (!explain(without, &own) || !explain(with, &all)) return false;
    for (const auto& candidate : own["candidates"]) {
      if (!candidate.value("legal", false)) break;
      if (static_cast<int>(field->own) == bench_.options.oracle_candidates) break;
      if (!plan_candidate(without, candidate, field)) return false;
      ++field->own;
    }
    for (const auto& candidate : all["candidates"]) {
      if (!candidate.value("legal", false)) break;
      if (!is_external(candidate)) continue;
      if (candidate.value("rank", 0) == 1) field->choice_of_all = field->all.size();
      if (!plan_candidate(with, candidate, field)) return false;
    }
    return field->own > 0;
  }

  // Which of the candidates tuning takes that measures the first `oracle_tuned` of them.
  bool tune(const lathe_matmul_desc& desc, const Field& field, size_t* tuned) {
    std::string text;
    lathe_tune_options options = LATHE_TUNE_OPTIONS_INIT;
    options.candidates =
        static_cast<uint32_t>(std::min<size_t>(field.own, static_cast<size_t>(bench_.options.oracle_tuned)));
    options.pool_bytes = bench_.pool->bytes();
    options.text = append_text;
    options.text_user = &text;
    if (!succeeded(lathe_tune_matmul(device_.get(), &desc, &options, nullptr), "tuning")) return false;
    const nlohmann::json record = nlohmann::json::parse(text, nullptr, false);
    const auto winner = std::find_if(field.all.begin(), field.all.end(), [&](const Candidate& c) {
      return c.config == record.value("config", nlohmann::json()) &&
             c.splits == record.value("splits", nlohmann::json());
    });
    if (winner == field.all.end()) return false;
    *tuned = static_cast<size_t>(winner - field.all.begin());
    return true;
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<double> losses_, tuned_losses_, losses_of_all_;
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
