#include "cuda/candidates.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "cli/config_text.h"
#include "nlohmann/json.hpp"
#include "report.h"

namespace lathe::bench {
namespace {

using nlohmann::json;

// Without the padding that aligns columns in the command's output.
std::string text_of(const json& config, int64_t splits) {
  std::string text = cli::config_line(config, splits);
  absl::RemoveExtraAsciiWhitespace(&text);
  return text;
}

Candidate candidate_of(const json& c) {
  const json config = c.value("config", json::object());
  return {c.value("rank", 0), config.value("kernel", "none"), text_of(config, c.value("splits", int64_t{1})),
          c.value("predicted_seconds", 0.0)};
}

// Leaves out candidates that are predicted to be so slow that they would take most of the measuring time.
bool is_near(const json& candidate, const json& plan) {
  return candidate.value("predicted_seconds", 0.0) <= 2.5 * plan.value("predicted_seconds", 0.0);
}

}  // namespace

std::vector<Candidate> candidates_of(const std::string& explained, int most) {
  const json plan = json::parse(explained);
  const int chosen = plan.value("rank", 0);
  std::vector<Candidate> first(1), others;
  std::set<std::tuple<std::string, int64_t, int64_t>>
      kinds;  // kernel family, merge and tile_k of the candidates so far
  for (const json& c : plan.value("candidates", json::array())) {
    if (!c.value("legal", false)) continue;
    const json config = c.value("config", json::object());
    const bool is_new = kinds
                            .insert({config.value("kernel", ""), config.value("split", int64_t{0}),
                                     config.value("tile_k", int64_t{0})})
                            .second;
    if (c.value("rank", 0) == chosen)
      first[0] = candidate_of(c);
    else if (most > 1 && (others.size() + 1 < static_cast<size_t>(most) || (is_new && is_near(c, plan))))
      others.push_back(candidate_of(c));
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

CandidateTable::CandidateTable(const CudaBenchOptions& options)
    : csv_(options.csv_directory, "cuda_candidates_" + options.dtype_name + ".csv",
           {"weight", "M", "N", "K", "rank", "candidate", "predicted us", "measured us", "state"},
           options.skip > 0) {}

void CandidateTable::add(const LinearProblem& p, const std::vector<Contender>& contenders) {
  double best = 1;
  bool is_contest = false;
  for (const Contender& c : contenders) {
    const bool measured = !c.standing.rounds.empty();
    csv_.add({p.name, std::to_string(p.m), std::to_string(p.n), std::to_string(p.k),
              std::to_string(c.candidate.rank), c.candidate.text,
              number(c.candidate.predicted_seconds * 1e6, 2),
              measured ? number(c.standing.seconds * 1e6, 2) : "-", c.state()});
    if (&c == &contenders[0] || !measured || contenders[0].standing.rounds.empty()) continue;
    is_contest = true;
    best = std::min(best, paired_ratio(contenders[0].standing, c.standing).median);
  }
  if (is_contest) qualities_.push_back({best, p.name + " M=" + std::to_string(p.m)});
}

void CandidateTable::report() const {
  if (qualities_.empty()) return;
  std::vector<double> ratios;
  for (const Quality& quality : qualities_) ratios.push_back(quality.ratio);
  const auto worst = std::min_element(qualities_.begin(), qualities_.end(),
                                      [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
  std::printf("oracle's choice over its best candidate: %.2f (geometric mean of %zu rows), worst %.2f (%s)\n",
              geometric_mean(ratios), ratios.size(), worst->ratio, worst->problem.c_str());
}

}  // namespace lathe::bench
