// Tuning: the oracle's first candidates of a class and the first of each kind, measured by turns on the
// device, and a record of who won.
#pragma once

#include <string>
#include <vector>

#include "core/plan_record.h"
#include "dispatch/device.h"
#include "dispatch/warm.h"

namespace lathe {

struct TuneOptions {
  size_t candidates = 8;  // by the oracle's rank, then the first of each kind that is not among them
  double candidate_seconds = 0.05;
  size_t pool_bytes = 0;  // 0: pool_bytes_of the device
  std::string output;     // a file; "": none
  lathe_text_fn text = nullptr;
  void* text_user = nullptr;
  WarmOptions run;
};
// `options` may be null. kInvalidArgument names the field.
absl::StatusOr<TuneOptions> read_tune_options(const lathe_context& context,
                                              const lathe_tune_options* options);

// One class and the sizes it is measured at.
struct TuneClass {
  ProblemClass problem;
  Dims dims;
};
// Its record, kept nowhere yet. kUnimplemented: of batch_invariant. kCancelled: `goes_on` said no.
absl::StatusOr<PlanRecord> measure_class(lathe_device& device, const TuneClass& tuned,
                                         const TuneOptions& options, const std::function<bool()>& goes_on);

// As lathe_tune answers. `dims` null: measured_dims of each.
absl::Status tune(lathe_device& device, const std::vector<WarmClass>& classes, const Dims* dims,
                  const TuneOptions& options, lathe_tune_report* report);

// Of each candidate's seconds by rounds, [0] the oracle's choice's: which is to be taken. Another than the
// first where three quarters of the rounds and 2 % of the median of the ratios within rounds are in its
// favour, and of several the one with the least such median.
size_t winner_of(const std::vector<std::vector<double>>& seconds);

}  // namespace lathe
