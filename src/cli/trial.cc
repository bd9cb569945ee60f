#include "cli/trial.h"

namespace lathe::cli {

absl::StatusOr<CheckResult> run_checked(Trial& trial) {
  if (absl::Status s = trial.reset(); !s.ok()) return s;
  if (absl::Status s = check(trial.launch()); !s.ok()) return s;
  absl::StatusOr<CheckResult> result = trial.verify();
  if (!result.ok() || !result->ok) return result;
  absl::StatusOr<std::string> differs = trial.compare_bits();
  if (!differs.ok()) return differs.status();
  if (!differs->empty()) {
    result->ok = false;
    result->what = *std::move(differs);
  }
  return result;
}

}  // namespace lathe::cli
