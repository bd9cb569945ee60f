// The body of a lathe_plan: one problem class on one device, chosen once.
#pragma once

#include <memory>
#include <string>

#include "compile_client/compiler.h"
#include "dispatch/device.h"
#include "dispatch/dispatch.h"

struct lathe_plan {
  lathe_device& device;
  const lathe::Request planned;  // what lathe_plan_* was given
  // Null when no request of the class needs a kernel (N or K is 0), and where `choice` is set.
  const lathe::DispatchEntry* entry = nullptr;
  // Where there is no entry: on a described device, and of make_plan_unprepared().
  std::unique_ptr<const lathe::Choice> choice;

  bool needs_kernel() const { return entry != nullptr || choice != nullptr; }
};

namespace lathe {

// `request` was read with Purpose::kPlan. A class that is in the dispatch table is not ranked again: a plan
// of it costs a look-up.
absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan(lathe_device& device, const Request& request);

// The same, but what is not loaded is chosen alone, on whatever device: for explain_json().
absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan_unprepared(lathe_device& device,
                                                                 const Request& request);

// Runs `request` (read with Purpose::kRun) with the plan. kInvalidArgument names the field by which the
// request is of another class. `slice` null: the whole launch.
absl::Status run_plan(const lathe_plan& plan, Request& request, const Slice* slice);
// The whole launch of what `desc` says.
absl::Status run_plan(const lathe_plan& plan, void* stream, const lathe_matmul_desc* desc);

// The launch at the planned sizes. kUnavailable on a device that is only described.
absl::StatusOr<LaunchConfig> planned_launch(const lathe_plan& plan);
absl::StatusOr<size_t> plan_workspace_bytes(const lathe_plan& plan, int32_t workers);
absl::StatusOr<int32_t> plan_phases(const lathe_plan& plan);

// lathe_plan_explain's JSON (explain.cc). Ranks the class' candidates, and so does dump_plan.
absl::StatusOr<Json> explain_json(const lathe_plan& plan);
absl::Status dump_plan(const lathe_plan& plan, absl::string_view pipeline_yaml, StageSink stages);

}  // namespace lathe
