// What the oracle chose for a payload's steps, as a file: `lathe plan` writes it, `lathe compile --params`
// compiles exactly that.
//
//   {"lathe_params": 1,
//    "target": {...},
//    "entries": [{"step": 0, "rows": 4, "class": {...}, "config": {...}, "splits": 1}...],
//    "parameters": {...}}
//
// "step" counts the steps of all functions; "rows" are those of a step that leaves them open; class, config
// and splits are lathe_plan_explain's, as is "target", which may be missing: another device refuses what is
// of one. "parameters", written by hand, are --pipeline's params.NAME; of them and the entries one may be
// missing.
#pragma once

#include <string>

#include "cli/payload_steps.h"

namespace lathe::cli {

// What is asked of a payload's steps beside the payload itself.
struct StepsAsked {
  int64_t rows = 0;                         // where the payload leaves them open
  lathe_tuning tuning = LATHE_TUNING_INIT;  // its split_k is every product's; 0: the oracle's
};
// Every function's steps, in order; `asked` outlives them.
absl::StatusOr<std::vector<PayloadStep>> asked_steps(const Json& program, const StepsAsked& asked);

// lathe_explain_matmul's JSON, or its sisters', of the step; errors name its place.
absl::StatusOr<Json> explain_step(lathe_device* device, const PayloadStep& step);
// Adds what the steps' requests can ask for: a step's one class, or where its rows are open every class with
// 1 to `asked.rows`.
absl::Status add_steps(lathe_device* device, const Json& program, const StepsAsked& asked,
                       lathe_manifest* manifest);

// Whether the file lists what to compile; one may hold a pipeline's "parameters" alone. kInvalidArgument: it
// is no such file.
absl::StatusOr<bool> lists_entries(const std::string& path);
// Of a verb that takes no payload: --params may not name a file that lists what a payload's steps take.
absl::Status refuse_entries(const Arguments& arguments);
absl::StatusOr<Json> make_params(lathe_device* device, const Json& program, const StepsAsked& asked);
// Adds exactly what the file lists, and tells each with its step. kInvalidArgument names the entry that is of
// no step, of another class, or no candidate here.
absl::StatusOr<std::vector<std::string>> add_params(lathe_device* device, const Json& program,
                                                    const std::string& path, lathe_manifest* manifest);
// What the steps, with `rows` where they are open, are to ask for so that they get what the file lists: one a
// step, in order, that of a step on the host sets nothing. kInvalidArgument: as add_params.
absl::StatusOr<std::vector<lathe_tuning>> listed_tunings(lathe_device* device, const Json& program,
                                                         const std::string& path, int64_t rows);

}  // namespace lathe::cli
