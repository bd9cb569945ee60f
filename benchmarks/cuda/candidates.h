// The oracle's candidates for a product: which are measured, and how good its choice was among them.
#pragma once

#include "cuda/csv_file.h"
#include "cuda/linear.h"

namespace lathe::bench {

struct Candidate {
  int rank = 0;        // 1 is the oracle's first; what lathe_tuning.candidate takes
  std::string kernel;  // "wgmma"
  std::string text;    // "wgmma tile 128x256x64 stages 4 cluster 2x1x1"
  double predicted_seconds = 0;
};

// The choice that `explained` (JSON of Plan::explain or Device::explain) made, then the other legal
// candidates by rank until they are `most`, then the best of each kernel family, merge and tile_k not among
// them that is predicted to take at most 2.5 times as long as the choice.
std::vector<Candidate> candidates_of(const std::string& explained, int most);

// A candidate's way through one problem.
struct Contender {
  Candidate candidate;
  Entry entry;
  Standing standing;  // no rounds: not measured

  const char* state() const { return entry.fault.empty() ? "right" : entry.fault.c_str(); }
};

// cuda_candidates_<dtype>.csv, and the choices' summary.
class CandidateTable {
 public:
  explicit CandidateTable(const CudaBenchOptions& options);
  // The first contender is the choice.
  void add(const LinearProblem& p, const std::vector<Contender>& contenders);
  // Prints how the choices compare with the best of their candidates. Nothing where no problem had two.
  void report() const;
  [[nodiscard]] bool is_written() const { return csv_.is_written(); }

 private:
  struct Quality {
    double ratio;  // the best candidate's time over the choice's
    std::string problem;
  };
  CsvFile csv_;
  std::vector<Quality> qualities_;
};

}  // namespace lathe::bench
