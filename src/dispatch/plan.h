// The body of a lathe_plan: the choice for one problem class on one device.
#pragma once

#include <memory>
#include <string>

#include "compile_client/compiler.h"
#include "dispatch/choose.h"
#include "dispatch/device.h"
#include "dispatch/dispatch.h"

struct lathe_plan {
  lathe_device& device;
  const lathe::Request planned;  // the request that lathe_plan_* was given
  // Null if no request of the class needs a kernel (N or K is 0), or if `choice` is set.
  const lathe::DispatchEntry* entry = nullptr;
  // Set if no kernel is loaded: on a described device, or by make_plan_unprepared().
  std::unique_ptr<const lathe::Choice> choice;

  bool needs_kernel() const { return entry != nullptr || choice != nullptr; }
};

namespace lathe {

// `request` was read with Purpose::kPlan. If the class is in the dispatch table, this costs one lookup.
absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan(lathe_device& device, const Request& request);

// As make_plan, but compiles and loads nothing; a class that is not loaded has only its choice. For explain_json().
absl::StatusOr<std::unique_ptr<lathe_plan>> make_plan_unprepared(lathe_device& device,
                                                                 const Request& request);

// Runs `request` (read with Purpose::kRun) with the plan. kInvalidArgument: the request is of another class; the
// message names the field that differs. `slice` null: the whole launch.
absl::Status run_plan(const lathe_plan& plan, Request& request, const Slice* slice);
// The same for a descriptor, as a whole launch. `Desc` is the descriptor of any op.
template <typename Desc>
absl::Status run_plan(const lathe_plan& plan, void* stream, const Desc* desc);

// The launch config for the planned sizes. kUnavailable on a described device.
absl::StatusOr<LaunchConfig> planned_launch(const lathe_plan& plan);
absl::StatusOr<size_t> plan_workspace_bytes(const lathe_plan& plan, int32_t workers);
absl::StatusOr<int32_t> plan_phases(const lathe_plan& plan);

// The JSON of lathe_plan_explain (explain.cc). This and dump_plan rank all candidates of the class again.
absl::StatusOr<Json> explain_json(const lathe_plan& plan);
absl::Status dump_plan(const lathe_plan& plan, absl::string_view pipeline_yaml, StageSink stages);

}  // namespace lathe
