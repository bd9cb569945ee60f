// What the oracle chose for a payload's steps, as a file: `lathe plan` writes it, `lathe compile --params`
// compiles exactly that.
//
//   {"lathe_params": 1,
//    "entries": [{"step": 0, "rows": 4, "class": {...}, "config": {...}, "splits": 1}...],
//    "parameters": {...}}
//
// "step" counts the steps of all functions; "rows" are those of a step that leaves them open; class, config
// and splits are lathe_plan_explain's. "parameters", written by hand, are --pipeline's params.NAME; of the
// two one may be missing.
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

// lathe_plan_explain's JSON of the step's plan; errors name its place.
absl::StatusOr<Json> explain_step(lathe_device* device, const PayloadStep& step);
// Adds what the steps' requests can ask for: a step's one class, or where its rows are open every class with
// 1 to `asked.rows`.
absl::Status add_steps(lathe_device* device, const Json& program, const StepsAsked& asked,
                       lathe_manifest* manifest);

// Whether the file lists what to compile; one may hold a pipeline's "parameters" alone. kInvalidArgument: it
// is no such file.
absl::StatusOr<bool> lists_entries(const std::string& path);
absl::StatusOr<Json> make_params(lathe_device* device, const Json& program, const StepsAsked& asked);
// Adds exactly what the file lists, and tells each with its step. kInvalidArgument names the entry that is of
// no step, of another class, or no candidate here.
absl::StatusOr<std::vector<std::string>> add_params(lathe_device* device, const Json& program,
                                                    const std::string& path, lathe_manifest* manifest);

}  // namespace lathe::cli
