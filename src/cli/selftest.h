// The checks of `lathe selftest`. They test one device through the public API, and each has a command that repeats it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/device_memory.h"
#include "cli/ops.h"
#include "reference/check.h"

namespace lathe::cli {

// Which of a request's legal candidates are forced in turn.
enum class Forced {
  kNone,   // the oracle's choice runs
  kEach,   // every candidate, or with --quick an evenly spaced part of them
  kMerge,  // the best candidate of each way to merge splits
};

// One row of the table: a request to be run and checked.
struct SelftestCase {
  std::string group;  // "shapes", "dtypes", ...
  AnyRequest request;
  Forced forced = Forced::kNone;
};

// The built-in table: all ops, dtypes, layouts, epilogues, alignments, tile edges, splits and determinism levels.
// `quick`: evenly spaced rows of each group, small enough for an emulator.
std::vector<SelftestCase> selftest_cases(bool quick);
// Reads a request file: one request per line, written as after `lathe run` ("matmul 16x64x64 --dtype bf16").
// Empty lines and lines that begin with # are skipped. kInvalidArgument names the line.
absl::StatusOr<std::vector<SelftestCase>> read_requests(const std::string& text);

// A check that needs more than one request.
struct Behaviour {
  std::string group, name;
  // kUnimplemented, with the reason: the device does not have the feature.
  std::function<absl::StatusOr<reference::CheckResult>()> run;
};

struct SelftestDevice {
  lathe_device* device = nullptr;
  const Stream* stream = nullptr;
  std::string name;  // "cuda:0"
  uint64_t seed = 0;
  bool quick = false;
};

// The behaviours: a refused request leaves the device usable, two streams do not disturb each other, and a stream
// capture accepts hits and refuses misses.
std::vector<Behaviour> selftest_behaviours(const SelftestDevice& device);

}  // namespace lathe::cli
