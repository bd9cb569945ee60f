// Tuning: measures the oracle's first candidates of a class, and the first of each other kind, in turns on the device,
// and records the winner.
#pragma once

#include <string>
#include <vector>

#include "core/plan_record.h"
#include "dispatch/device.h"
#include "dispatch/warm.h"

namespace lathe {

struct TuneOptions {
  size_t candidates = 8;  // how many to measure, by rank; the first of each other kind is measured too
  double candidate_seconds = 0.05;  // time for each candidate
  size_t pool_bytes = 0;  // memory for copies of the streamed operand; 0: four times the last-level cache
  std::string output;     // a tuning file to add the records to; "": none
  lathe_text_fn text = nullptr;
  void* text_user = nullptr;
  WarmOptions run;
};
// `options` may be null, which gives the defaults. kInvalidArgument names the wrong field.
absl::StatusOr<TuneOptions> read_tune_options(const lathe_context& context,
                                              const lathe_tune_options* options);

// One class, and the sizes at which it is measured.
struct TuneClass {
  ProblemClass problem;
  Dims dims;
};
// Measures a class and returns its record, without storing it. kUnimplemented: the class is batch_invariant.
// kCancelled: `goes_on` returned false.
absl::StatusOr<PlanRecord> measure_class(lathe_device& device, const TuneClass& tuned,
                                         const TuneOptions& options, const std::function<bool()>& goes_on);

// Tunes the classes, stores their records and fills the report, as lathe_tune does. `dims` gives the sizes to measure
// at; null: measured_dims of each class.
absl::Status tune(lathe_device& device, const std::vector<WarmClass>& classes, const Dims* dims,
                  const TuneOptions& options, lathe_tune_report* report);

// Picks the winner. seconds[c] has a candidate's seconds in each round; seconds[0] is the oracle's choice. Another
// candidate must be faster in three quarters of the rounds, and its median ratio to the oracle's choice must be at
// most 0.98. If several are, the one with the smallest median ratio wins. Candidates with fewer rounds than the first
// cannot win.
size_t winner_of(const std::vector<std::vector<double>>& seconds);

}  // namespace lathe
