// Paired timing: all entrants run in turns in one process. Reports medians and the spread of paired ratios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lathe::bench {

double now_seconds();
double median(std::vector<double> values);
// The `part` quantile (0 to 1), interpolated linearly; 0 for no values.
double quantile(std::vector<double> values, double part);
double geometric_mean(const std::vector<double>& values);

struct Entrant {
  std::string name;
  std::function<void()> call;  // one operation on the next operands
};

struct Standing {
  std::string name;
  double seconds = 0;          // median time of a call
  std::vector<double> rounds;  // seconds per call, one value per round
};

struct ContestOptions {
  double seconds = 1.0;         // for all entrants together
  double round_seconds = 2e-3;  // short calls are repeated to fill this time
  int min_rounds = 7, max_rounds = 200;
};

// Each round runs every entrant once, in a random order: in a fixed order an entrant would always run with
// the cache contents and thread states of the same predecessor. The first round is discarded.
std::vector<Standing> run_contest(const std::vector<Entrant>& entrants, const ContestOptions& options);

struct Ratio {
  double median = 0, low = 0, high = 0;  // median and quartiles of the ratios per round
};
// Time of `other` over time of `ours`, per round. Above 1, `ours` is faster.
Ratio paired_ratio(const Standing& ours, const Standing& other);

}  // namespace lathe::bench
