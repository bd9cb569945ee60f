// The file with the oracle's choices for a payload's steps. `lathe plan --out` writes it, and `lathe compile --params`
// compiles exactly these choices.
//
//   {"lathe_params": 1,
//    "target": {...},
//    "entries": [{"step": 0, "rows": 4, "class": {...}, "config": {...}, "splits": 1}...],
//    "parameters": {...}}
//
// "step" counts the steps of all functions. "rows" is the number of rows if the step leaves it open. "class",
// "config", "splits" and "target" are those of lathe_plan_explain. "target" may be missing; a device with another
// target refuses the file. "parameters", written by hand, are the params.NAME of --pipeline. "entries" or "parameters"
// may be missing.
#pragma once

#include <string>

#include "cli/payload_steps.h"

namespace lathe::cli {

// What the command line asks of a payload's steps.
struct StepsAsked {
  int64_t rows = 0;                         // number of rows where the payload leaves it open
  lathe_tuning tuning = LATHE_TUNING_INIT;  // its split_k is for every matmul; 0: the oracle chooses
};
// The steps of all functions, in order. `asked` must outlive them.
absl::StatusOr<std::vector<PayloadStep>> asked_steps(const Json& program, const StepsAsked& asked);

// The explanation of the step, from lathe_explain_matmul or the function for its op. Errors name the step's location.
absl::StatusOr<Json> explain_step(lathe_device* device, const PayloadStep& step);
// Adds the classes of the steps to the manifest: one class per step, or all classes with 1 to `asked.rows` rows if the
// step leaves its rows open.
absl::Status add_steps(lathe_device* device, const Json& program, const StepsAsked& asked,
                       lathe_manifest* manifest);

// Whether the file has "entries". kInvalidArgument: it is not a file in the format above.
absl::StatusOr<bool> lists_entries(const std::string& path);
// For verbs without a payload: kInvalidArgument if the file of --params has "entries".
absl::Status refuse_entries(const Arguments& arguments);
// The content of a file for these steps: an entry for each class.
absl::StatusOr<Json> make_params(lathe_device* device, const Json& program, const StepsAsked& asked);
// Adds exactly the classes and candidates that the file lists. Returns a line about each, to be printed.
// kInvalidArgument names an entry whose step does not exist, whose class differs, or whose config is not a candidate
// here.
absl::StatusOr<std::vector<std::string>> add_params(lathe_device* device, const Json& program,
                                                    const std::string& path, lathe_manifest* manifest);
// For each step, in order: the tuning with which it gets the candidate that the file lists for `rows` open rows. For a
// step on the host it sets nothing. kInvalidArgument: as for add_params.
absl::StatusOr<std::vector<lathe_tuning>> listed_tunings(lathe_device* device, const Json& program,
                                                         const std::string& path, int64_t rows);

}  // namespace lathe::cli
