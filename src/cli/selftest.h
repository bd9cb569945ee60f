// What `lathe selftest` runs: checks of one device through the public API, each with the command that repeats
// it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "cli/device_memory.h"
#include "cli/request.h"
#include "reference/reference.h"

namespace lathe::cli {

using AnyRequest = std::variant<MatmulRequest, ArgmaxRequest, MatmulArgmaxRequest>;
std::string command_of(const AnyRequest& request);

// Which of a request's legal candidates are forced in turn.
enum class Forced {
  kNone,   // the oracle's choice runs
  kEach,   // every candidate, or with --quick an even choice
  kMerge,  // the best candidate of each way to merge splits
};

// One row of the table: a request to be run and checked.
struct SelftestCase {
  std::string group;  // "shapes", "dtypes", ...
  AnyRequest request;
  Forced forced = Forced::kNone;
};

// Every op, dtype, layout, epilogue, alignment, edge, split and promise of equal bits. `quick`: an even
// choice of each group, in shapes that an emulator gets through.
std::vector<SelftestCase> selftest_cases(bool quick);
// Reads a request file: one request per line, written as after `lathe run` ("matmul 16x64x64 --dtype bf16").
// Empty lines and lines that begin with # are skipped. kInvalidArgument names the line.
absl::StatusOr<std::vector<SelftestCase>> read_requests(const std::string& text);

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
