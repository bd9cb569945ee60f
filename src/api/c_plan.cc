// C functions: plans, explain, dump, slices.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/plan.h"
#include "options/options.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

void lathe_plan_destroy(lathe_plan* plan) {
  at_boundary([&]() -> absl::Status {
    delete plan;
    return absl::OkStatus();
  });
}

lathe_status lathe_plan_workspace_bytes(lathe_plan* plan, size_t* bytes) {
  return at_boundary([&]() -> absl::Status {
    if (plan == nullptr) return null_argument("lathe_plan_workspace_bytes", "plan");
    if (bytes == nullptr) return null_argument("lathe_plan_workspace_bytes", "bytes");
    LATHE_ASSIGN_OR_RETURN(*bytes, lathe::plan_workspace_bytes(*plan, plan->device.workers));
    return absl::OkStatus();
  });
}

lathe_status lathe_plan_explain(lathe_plan* plan, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (plan == nullptr) return null_argument("lathe_plan_explain", "plan");
    if (text == nullptr) return null_argument("lathe_plan_explain", "text");
    LATHE_ASSIGN_OR_RETURN(const lathe::Json json, lathe::explain_json(*plan));
    lathe::pass_text(text, user, "explain", json);
    return absl::OkStatus();
  });
}

lathe_status lathe_plan_dump(lathe_plan* plan, const char* pipeline_yaml, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (plan == nullptr) return null_argument("lathe_plan_dump", "plan");
    if (text == nullptr) return null_argument("lathe_plan_dump", "text");
    return lathe::dump_plan(*plan, pipeline_yaml != nullptr ? pipeline_yaml : "",
                            [&](absl::string_view name, absl::string_view stage) {
                              text(user, std::string(name).c_str(), stage.data(), stage.size());
                            });
  });
}

lathe_status lathe_plan_phases(lathe_plan* plan, int32_t* phases) {
  return at_boundary([&]() -> absl::Status {
    if (plan == nullptr) return null_argument("lathe_plan_phases", "plan");
    if (phases == nullptr) return null_argument("lathe_plan_phases", "phases");
    LATHE_ASSIGN_OR_RETURN(*phases, lathe::plan_phases(*plan));
    return absl::OkStatus();
  });
}

lathe_status lathe_plan_slice_workspace_bytes(lathe_plan* plan, int32_t workers, size_t* bytes) {
  return at_boundary([&]() -> absl::Status {
    if (plan == nullptr) return null_argument("lathe_plan_slice_workspace_bytes", "plan");
    if (bytes == nullptr) return null_argument("lathe_plan_slice_workspace_bytes", "bytes");
    LATHE_RETURN_IF_ERROR(lathe::check_workers("lathe_plan_slice_workspace_bytes", workers));
    LATHE_ASSIGN_OR_RETURN(*bytes, lathe::plan_workspace_bytes(*plan, workers));
    return absl::OkStatus();
  });
}

}  // extern "C"
