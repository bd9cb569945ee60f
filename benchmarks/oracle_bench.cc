// Regret of the oracle for matmul and argmax. Times the oracle's candidates and compares its choice, and
// tuning's choice, with the fastest: an exhaustive search would gain the difference. Also compares the choice
// among candidates and installed external libraries with the fastest of all.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Candidate {
  std::string label;
  double predicted = 0;
  int rank = 0;
  nlohmann::json config, splits;  // as in lathe_plan_explain and in tuning records
  nlohmann::json work;            // what the cost model counted, if it says so
  lathe_plan* plan = nullptr;
};

// Everything that is timed for a class: `own` candidates, the oracle's choice first, then routines of
// external libraries.
struct Field {
  std::vector<Candidate> all;
  size_t own = 0, choice_of_all = 0;
};

void append_text(void* user, const char*, const char* piece, size_t size) {
  static_cast<std::string*>(user)->append(piece, size);
}

// "issue=1200;l2=64"; "" if there are no counts.
std::string text_of(const nlohmann::json& work) {
  std::string text;
  for (const auto& [name, count] : work.items())
    text += (text.empty() ? "" : ";") + name + "=" + number(count.get<double>(), 1);
  return text;
}

bool is_external(const nlohmann::json& candidate) {
  return !candidate["config"]["external"].value("library", "").empty();
}

std::string label_of(const nlohmann::json& candidate) {
  const nlohmann::json& c = candidate["config"];
  if (is_external(candidate))
    return c["external"].value("library", "?") + " " + c["external"].value("routine", "?");
  const auto field = [&c](const char* name) { return std::to_string(c.value(name, 0)); };
  const std::string ukernel = c["ukernel"].value("function", "");
  return (ukernel.empty() ? c.value("kernel", "?") : ukernel) + " " + field("register_m") + "x" +
         field("register_n") + " tile " + field("tile_m") + "x" + field("tile_n") + "x" + field("tile_k") +
         " unroll " + field("unroll_k") + " prefetch " + field("prefetch") + " pace " + field("pace") +
         " splits " + std::to_string(candidate.value("splits", 0));
}

// A request: how to plan it with a chain of options, run it on the next operands, and tune it.
struct Problem {
  std::string op, dtype, name;
  int64_t m, n, k;  // for argmax: rows, row length, 1
  std::function<lathe_status(const lathe_chain* next, lathe_plan** plan)> plan;
  std::function<lathe_status(lathe_plan* plan)> run;
  std::function<lathe_status(const lathe_tune_options* options)> tune;
};

class OracleBench {
 public:
  explicit OracleBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        table_(
            "oracle, " + std::to_string(bench.options.threads) +
                " thread(s): the choice against the best of its first candidates and of each ukernel, timed",
            {"op",         "dtype",     "weight",       "M",        "N",           "K",
             "candidates", "choice us", "predicted us", "tuned us", "best us",     "choice/best",
             "tuned/best", "choice",    "tuned",        "best",     "best's rank", "external us",
             "external",   "of all",    "choice of all"}),
        candidates_("oracle: every candidate that was timed",
                    {"op", "dtype", "M", "N", "K", "rank", "candidate", "predicted us", "us", "work"}) {}

  bool ok() const { return device_.ok(); }

  bool measure_matmul(const std::string& name, Element element, const char* dtype, int64_t m, int64_t n,
                      int64_t k) {
    const size_t bytes = weight_bytes(element, static_cast<size_t>(n * k));
    if (bench_.pool->copies(bytes) == 0 || (is_q4(element) && (k % 32 != 0 || !bench_.options.trans_b)))
      return true;
    std::vector<char> a = bench_.pool->activations(element, static_cast<size_t>(m * k));
    std::vector<float> d(static_cast<size_t>(m * n));
    const lathe_matmul_desc desc =
        linear({m, n, k, bench_.options.trans_b, element}, a.data(), nullptr, d.data());
    size_t next = 0;
    const auto plan = [&](const lathe_chain* chain, lathe_plan** made) {
      lathe_matmul_desc chained = desc;
      chained.next = chain;
      return lathe_plan_matmul(device_.get(), &chained, made);
    };
    const auto run = [&](lathe_plan* made) {
      lathe_matmul_desc request = desc;
      request.b.data = bench_.pool->copy(bytes, next++);
      return lathe_plan_run_matmul(made, nullptr, &request);
    };
    const auto tune = [&](const lathe_tune_options* options) {
      return lathe_tune_matmul(device_.get(), &desc, options, nullptr);
    };
    return measure({"matmul", dtype, name, m, n, k, plan, run, tune});
  }

  bool measure_argmax(Element element, const char* dtype, lathe_dtype type, int64_t rows, int64_t n) {
    const size_t bytes = weight_bytes(element, static_cast<size_t>(rows * n));
    if (bench_.pool->copies(bytes) == 0) return true;
    std::vector<int64_t> indices(static_cast<size_t>(rows));
    lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
    desc.rows = rows;
    desc.n = n;
    desc.x.dtype = type;
    desc.indices = indices.data();
    desc.index_dtype = LATHE_I64;
    size_t next = 0;
    const auto plan = [&](const lathe_chain* chain, lathe_plan** made) {
      lathe_argmax_desc chained = desc;
      chained.next = chain;
      return lathe_plan_argmax(device_.get(), &chained, made);
    };
    const auto run = [&](lathe_plan* made) {
      lathe_argmax_desc request = desc;
      request.x.data = bench_.pool->copy(bytes, next++);
      return lathe_plan_run_argmax(made, nullptr, &request);
    };
    const auto tune = [&](const lathe_tune_options* options) {
      return lathe_tune_argmax(device_.get(), &desc, options, nullptr);
    };
    return measure({"argmax", dtype, "", rows, n, 1, plan, run, tune});
  }

  // Returns false if a table cannot be written.
  [[nodiscard]] bool report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "oracle.csv");
    candidates_.write_csv(bench_.options.csv_directory, "oracle_candidates.csv");
    for (const auto& [op, all] : losses_) {
      const auto tell = [op = op](const char* who, const char* whose, const std::vector<double>& losses) {
        std::printf("%s: %s takes %.3fx the time of the best of %s (geometric mean of %zu, worst %.3fx)\n",
                    op.c_str(), who, geometric_mean(losses), whose, losses.size(),
                    *std::max_element(losses.begin(), losses.end()));
      };
      tell("the oracle's choice", "its candidates", all.choice);
      tell("tuning's winner", "the same candidates", all.tuned);
      tell("the oracle's choice with libraries included", "all", all.of_all);
      const bool judged = !bench_.options.smoke;
      const double worst = *std::max_element(all.choice.begin(), all.choice.end());
      reaches_floor(op + ": speed of the choice relative to its best candidate, mean",
                    100 / geometric_mean(all.choice), 97, " %", judged);
      reaches_floor(op + ": speed of the choice relative to its best candidate, worst", 100 / worst, 90, " %",
                    judged);
    }
    return table_.is_written() && candidates_.is_written();
  }

 private:
  struct Losses {
    std::vector<double> choice, tuned, of_all;
  };

  bool measure(const Problem& problem) {
    Field field;
    const bool planned = plan_field(problem, &field);
    std::vector<Standing> standings;
    bool failed = false;
    if (planned) standings = contest(problem, field, &failed);
    for (const Candidate& candidate : field.all) lathe_plan_destroy(candidate.plan);
    size_t tuned = 0;
    if (!planned || !tune(problem, field, &tuned)) return false;
    if (failed) return succeeded(LATHE_INTERNAL, lathe_last_error());
    add_row(problem, field, standings, tuned);
    return true;
  }

  std::vector<Standing> contest(const Problem& problem, const Field& field, bool* failed) {
    std::vector<Entrant> entrants;
    for (const Candidate& candidate : field.all)
      entrants.push_back({candidate.label, [&problem, &candidate, failed] {
                            if (problem.run(candidate.plan) != LATHE_OK) *failed = true;
                          }});
    ContestOptions options;
    options.seconds = bench_.options.seconds * static_cast<double>(entrants.size()) / 4;
    options.min_rounds = 5;
    return run_contest(entrants, options);
  }

  void add_row(const Problem& p, const Field& field, const std::vector<Standing>& standings, size_t tuned) {
    const auto faster = [](const Standing& x, const Standing& y) { return x.seconds < y.seconds; };
    const auto own_end = standings.begin() + static_cast<ptrdiff_t>(field.own);
    const auto best = std::min_element(standings.begin(), own_end, faster);
    const auto external = std::min_element(own_end, standings.end(), faster);
    const auto best_of_all = std::min_element(standings.begin(), standings.end(), faster);
    const double loss = paired_ratio(*best, standings[0]).median,
                 tuned_loss = paired_ratio(*best, standings[tuned]).median,
                 loss_of_all = paired_ratio(*best_of_all, standings[field.choice_of_all]).median;
    const bool has_external = external != standings.end();
    table_.add({p.op,
                p.dtype,
                p.name,
                std::to_string(p.m),
                std::to_string(p.n),
                std::to_string(p.k),
                std::to_string(field.own),
                number(standings[0].seconds * 1e6, 1),
                number(field.all[0].predicted * 1e6, 1),
                number(standings[tuned].seconds * 1e6, 1),
                number(best->seconds * 1e6, 1),
                number(loss, 3),
                number(tuned_loss, 3),
                standings[0].name,
                standings[tuned].name,
                best->name,
                std::to_string(field.all[static_cast<size_t>(best - standings.begin())].rank),
                has_external ? number(external->seconds * 1e6, 1) : "",
                has_external ? external->name : "",
                number(loss_of_all, 3),
                standings[field.choice_of_all].name});
    for (size_t i = 0; i < field.all.size(); ++i) {
      const Candidate& c = field.all[i];
      candidates_.add({p.op, p.dtype, std::to_string(p.m), std::to_string(p.n), std::to_string(p.k),
                       std::to_string(c.rank), c.label, number(c.predicted * 1e6, 1),
                       number(standings[i].seconds * 1e6, 1), text_of(c.work)});
    }
    Losses& losses = losses_[p.op];
    losses.choice.push_back(loss);
    losses.tuned.push_back(tuned_loss);
    losses.of_all.push_back(loss_of_all);
  }

  bool explain(const Problem& problem, const lathe_external& policy, nlohmann::json* json) {
    lathe_plan* plan = nullptr;
    if (!succeeded(problem.plan(reinterpret_cast<const lathe_chain*>(&policy), &plan), "planning"))
      return false;
    std::string text;
    const lathe_status explained = lathe_plan_explain(plan, append_text, &text);
    lathe_plan_destroy(plan);
    if (!succeeded(explained, "explaining")) return false;
    *json = nlohmann::json::parse(text, nullptr, false);
    return json->is_object();
  }

  // Plans the candidate with the policy for external libraries under which it was ranked.
  bool plan_candidate(const Problem& problem, const lathe_external& policy, const nlohmann::json& candidate,
                      Field* field) {
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.candidate = candidate.value("rank", 0);
    tuning.next = reinterpret_cast<const lathe_chain*>(&policy);
    field->all.push_back({label_of(candidate), candidate.value("predicted_seconds", 0.0), tuning.candidate,
                          candidate["config"], candidate["splits"],
                          candidate.value("work", nlohmann::json::object())});
    return succeeded(problem.plan(reinterpret_cast<const lathe_chain*>(&tuning), &field->all.back().plan),
                     "planning a candidate");
  }

  // Plans the best-ranked candidates, the oracle's choice first, the best candidate of each ukernel, and
  // every routine of a library.
  bool plan_field(const Problem& problem, Field* field) {
    nlohmann::json own, all;
    lathe_external off = LATHE_EXTERNAL_INIT, allow = LATHE_EXTERNAL_INIT;
    off.use = LATHE_EXTERNAL_OFF;
    allow.use = LATHE_EXTERNAL_ALLOW;
    if (!explain(problem, off, &own) || !explain(problem, allow, &all)) return false;
    std::set<std::string> ukernels;
    for (const auto& candidate : own["candidates"]) {
      if (!candidate.value("legal", false)) break;
      const bool fresh = ukernels.insert(candidate["config"]["ukernel"].value("function", "")).second;
      if (static_cast<int>(field->own) >= bench_.options.oracle_candidates && !fresh) continue;
      if (!plan_candidate(problem, off, candidate, field)) return false;
      ++field->own;
    }
    for (const auto& candidate : all["candidates"]) {
      if (!candidate.value("legal", false)) break;
      if (!is_external(candidate)) continue;
      if (candidate.value("rank", 0) == 1) field->choice_of_all = field->all.size();
      if (!plan_candidate(problem, allow, candidate, field)) return false;
    }
    return field->own > 0;
  }

  // Tunes with the first `oracle_tuned` candidates and the first of each ukernel. Sets *tuned to the index of
  // the winner.
  bool tune(const Problem& problem, const Field& field, size_t* tuned) {
    std::string text;
    lathe_tune_options options = LATHE_TUNE_OPTIONS_INIT;
    options.candidates =
        static_cast<uint32_t>(std::min(bench_.options.oracle_candidates, bench_.options.oracle_tuned));
    options.pool_bytes = bench_.pool->bytes();
    options.text = append_text;
    options.text_user = &text;
    if (!succeeded(problem.tune(&options), "tuning")) return false;
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
  Table table_, candidates_;
  std::map<std::string, Losses> losses_;  // by op
};

bool wants(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool measure_matmuls(const Bench& bench, Element element, const char* dtype, OracleBench* oracle) {
  const Options& options = bench.options;
  if (options.ragged && !oracle->measure_matmul("ragged", element, dtype, 123, 456, 51234)) return false;
  for (const Shape& shape : options.shapes)
    for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m})
      for (int64_t m : *list)
        if (!oracle->measure_matmul(shape.name, element, dtype, m, shape.n, shape.k)) return false;
  return true;
}

bool measure_argmaxes(const Bench& bench, Element element, const char* dtype, lathe_dtype type,
                      OracleBench* oracle) {
  for (int64_t n : bench.options.argmax_n)
    for (int64_t rows : bench.options.argmax_rows)
      if (!oracle->measure_argmax(element, dtype, type, rows, n)) return false;
  return true;
}

}  // namespace

bool bench_oracle(const Bench& bench) {
  OracleBench oracle(bench);
  if (!oracle.ok()) return false;
  for (const auto& [name, element] : kNamedElements) {
    if (!wants(bench.options.matmul_dtypes, name)) continue;
    bench.pool->fill(element);
    if (!measure_matmuls(bench, element, name, &oracle)) return false;
  }
  const struct {
    const char* name;
    Element element;
    lathe_dtype dtype;
  } kinds[] = {{"f32", Element::kF32, LATHE_F32},
               {"f16", Element::kF16, LATHE_F16},
               {"bf16", Element::kBF16, LATHE_BF16}};
  for (const auto& kind : kinds) {
    if (!wants(bench.options.argmax_dtypes, kind.name)) continue;
    bench.pool->fill(kind.element);
    if (!measure_argmaxes(bench, kind.element, kind.name, kind.dtype, &oracle)) return false;
  }
  return oracle.report();
}

}  // namespace lathe::bench
