// Runs the checks of a selftest and reports the results.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/selftest.h"
#include "reference/check.h"

namespace lathe::cli {

struct SelftestCheck {
  std::string group, what, command;  // the command runs this check again
  // kUnimplemented skips the check, with the reason; any other error fails it.
  std::function<absl::StatusOr<reference::CheckResult>()> run;
  std::function<void()> prepare;                        // compiles ahead, on any thread; may be empty
  std::shared_ptr<const AnyRequest> request = nullptr;  // null: several requests, or no kernel supports it
};

struct Tally {
  int64_t right = 0, wrong = 0, skipped = 0;
  std::map<std::string, int64_t> reasons;  // reason for skipping -> number of checks
  int in_a_row = 0;                        // failures since the last right check
};

// Runs the checks in order. Prints each failure at once, with its command, and one line per group. Stops after many
// failures in a row, because the device is then probably lost.
Tally run_checks(const std::vector<SelftestCheck>& checks, const std::string& device);

// Runs the checks in order, beginning with check `from`, and prints a line of JSON when a check is prepared,
// begins and ends. Lines are flushed, so a watching program knows which check hangs:
//   {"case":3,"state":"begin","group":"wgmma, merge last","what":"matmul ...","command":"lathe run ..."}
//   {"case":3,"state":"wrong","worst":7.2,"detail":"..."}
// The last "state" is right, wrong, refused (the device or family does not support the request) or failed.
absl::Status run_each(const std::vector<SelftestCheck>& checks, const std::string& device, size_t from);

// Prints the reasons of skipped checks, and the verdict. An error if a check was wrong or none was right.
absl::Status conclude(const Tally& tally, const std::string& device);

}  // namespace lathe::cli
