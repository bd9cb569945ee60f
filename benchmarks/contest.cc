#include "contest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "base/spinning_threads.h"

namespace lathe::bench {
namespace {

// Shorter calls are made once before their turn is timed, so that their threads are awake.
constexpr double kShortCall = 10e-3;

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (double value : values) logs += std::log(value);
  return values.empty() ? 0 : std::exp(logs / static_cast<double>(values.size()));
}

std::vector<Standing> run_contest(const std::vector<Entrant>& entrants, const ContestOptions& options) {
  std::vector<Standing> standings(entrants.size());
  std::vector<int> repeats(entrants.size(), 1);
  std::vector<bool> is_short(entrants.size());
  for (size_t e = 0; e < entrants.size(); ++e) {
    standings[e].name = entrants[e].name;
    entrants[e].call();  // first call: compiles, maps pages, starts threads
    const double start = now_seconds();
    entrants[e].call();
    const double once = now_seconds() - start;
    is_short[e] = once < kShortCall;
    repeats[e] = static_cast<int>(std::clamp(options.round_seconds / std::max(once, 1e-9), 1.0, 1e6));
  }
  const double begin = now_seconds();
  double waited = 0;
  SpinningThreads spinning;
  std::vector<size_t> order(entrants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);  // any fixed sequence
  for (int round = 0; round < options.max_rounds; ++round) {
    if (round > options.min_rounds && now_seconds() - begin - waited > options.seconds) break;
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t e : order) {
      waited += spinning.wait();
      if (is_short[e]) entrants[e].call();
      const double start = now_seconds();
      for (int i = 0; i < repeats[e]; ++i) entrants[e].call();
      const double seconds = (now_seconds() - start) / repeats[e];
      if (round > 0) standings[e].rounds.push_back(seconds);
    }
  }
  for (Standing& standing : standings) standing.seconds = median(standing.rounds);
  return standings;
}

Ratio paired_ratio(const Standing& ours, const Standing& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.rounds.size(); ++i) ratios.push_back(other.rounds[i] / ours.rounds[i]);
  return {quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
}

}  // namespace lathe::bench
