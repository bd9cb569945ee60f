// What `lathe selftest` runs: checks of one device through the public API, each with the command that repeats
// it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "cli/device_memory.h"
#include "cli/reference.h"
#include "cli/request.h"

namespace lathe::cli {

using AnyRequest = std::variant<MatmulRequest, ArgmaxRequest, MatmulArgmaxRequest>;
std::string command_of(const AnyRequest& request);

// One row of the table: a request to be run and checked.
struct SelftestCase {
  std::string group;  // "shapes", "dtypes", ...
  AnyRequest request;
  bool every_candidate = false;  // forced in turn
};

// Every op, dtype, layout, epilogue, alignment, edge, split and promise of equal bits. `quick`: an even
// choice of each group, in shapes that an emulator gets through.
std::vector<SelftestCase> selftest_cases(bool quick);

// A check that is more than one request.
struct Behaviour {
  std::string group, name;
  // kUnimplemented: the device has no such thing, with the reason.
  std::function<absl::StatusOr<CheckResult>()> run;
};

struct SelftestDevice {
  lathe_device* device = nullptr;
  const Stream* stream = nullptr;
  std::string name;  // "cuda:0"
  uint64_t seed = 0;
  bool quick = false;
};

// Refusals leave the device usable, two streams at once do not meet, captured streams take hits and refuse
// misses.
std::vector<Behaviour> selftest_behaviours(const SelftestDevice& device);

}  // namespace lathe::cli
