// Runs a selftest's checks and tells how they went.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/reference.h"

namespace lathe::cli {

struct SelftestCheck {
  std::string group, what, command;  // the command runs this check again
  // kUnimplemented skips the check, with the reason; any other error fails it.
  std::function<absl::StatusOr<CheckResult>()> run;
  std::function<void()> prepare;  // compiles ahead, on any thread; may be empty
};

struct Tally {
  int64_t right = 0, wrong = 0, skipped = 0;
  std::map<std::string, int64_t> reasons;  // of what was skipped
  int in_a_row = 0;                        // failures without a right check between them
};

// In order. Prints each failure at once, with its command, and a line a group. Ends early after many failures
// in a row, as a lost device gives.
Tally run_checks(const std::vector<SelftestCheck>& checks, const std::string& device);

// Prints the reasons of what was skipped and the verdict; an error unless something was right and nothing
// wrong.
absl::Status conclude(const Tally& tally, const std::string& device);

}  // namespace lathe::cli
