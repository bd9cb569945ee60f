// Which of the oracle's candidates for a product are measured, and how good its choice is among them.
#pragma once

#include "cuda/csv_file.h"
#include "cuda/linear.h"

namespace lathe::bench {

struct Candidate {
  int rank = 0;        // as in lathe_tuning.candidate; 1 is the oracle's best
  std::string kernel;  // "wgmma"
  std::string text;    // "wgmma tile 128x256x64 stages 4 cluster 2x1x1"
  double predicted_seconds = 0;
};

// Reads `explained`, the JSON of Plan::explain or Device::explain. Returns the oracle's choice, then the
// other legal candidates by rank, up to `most` in all. If `most` > 1, adds the best candidate of each other
// combination of kernel family, merge and tile_k that is predicted to take at most 2.5 times as long as the
// choice.
std::vector<Candidate> candidates_of(const std::string& explained, int most);

// A candidate for one problem, and its result.
struct Contender {
  Candidate candidate;
  Entry entry;
  Standing standing;  // without rounds: not measured

  const char* state() const { return entry.fault.empty() ? "right" : entry.fault.c_str(); }
};

// Writes cuda_candidates_<dtype>.csv and summarises the oracle's choices.
class CandidateTable {
 public:
  explicit CandidateTable(const CudaBenchOptions& options);
  // contenders[0] is the oracle's choice.
  void add(const LinearProblem& p, const std::vector<Contender>& contenders);
  // Prints how the choices compare with the best of their candidates, unless no problem had two candidates.
  void report() const;
  [[nodiscard]] bool is_written() const { return csv_.is_written(); }

 private:
  struct Quality {
    double ratio;  // time of the best candidate over that of the choice
    std::string problem;
  };
  CsvFile csv_;
  std::vector<Quality> qualities_;
};

}  // namespace lathe::bench
