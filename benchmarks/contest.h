// Paired timing: A B A B in one process, medians, and the spread of the paired ratios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lathe::bench {

double now_seconds();
double median(std::vector<double> values);
// The value below which `part` of them lie.
double quantile(std::vector<double> values, double part);
double geometric_mean(const std::vector<double>& values);

struct Entrant {
  std::string name;
  std::function<void()> call;  // one operation on the next operands
};

struct Standing {
  std::string name;
  double seconds = 0;          // median of a call
  std::vector<double> rounds;  // seconds per call, one a round
};

struct ContestOptions {
  double seconds = 1.0;         // of all entrants together
  double round_seconds = 2e-3;  // calls are repeated until a round takes that long
  int min_rounds = 7, max_rounds = 200;
};

// Each round runs every entrant once, in an order of its own: what one leaves behind would else meet the same
// successor every time (M = 64 by 4096 x 4096 after OpenBLAS: 20.8 ms for 18.9). The first round is
// discarded.
std::vector<Standing> run_contest(const std::vector<Entrant>& entrants, const ContestOptions& options);

struct Ratio {
  double median = 0, low = 0, high = 0;  // of the rounds' ratios: the middle and the quartiles
};
// Time of `other` over time of `ours`, round by round: above 1, `ours` is faster.
Ratio paired_ratio(const Standing& ours, const Standing& other);

}  // namespace lathe::bench
