// C functions: plans, explain, dump, slices.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/plan.h"
#include "options/options.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::Purpose;
using lathe::Request;

namespace {

// Overloads, so that the templates below work with each descriptor type.
absl::Status read(const lathe_matmul_desc* desc, Purpose purpose, const lathe_device& device, void* stream,
                  Request* out) {
  return lathe::read_matmul(desc, purpose, device.request_context(), stream, out);
}
absl::Status read(const lathe_argmax_desc* desc, Purpose purpose, const lathe_device& device, void* stream,
                  Request* out) {
  return lathe::read_argmax(desc, purpose, device.request_context(), stream, out);
}

absl::Status read(const lathe_matmul_argmax_desc* desc, Purpose purpose, const lathe_device& device,
                  void* stream, Request* out) {
  return lathe::read_matmul_argmax(desc, purpose, device.request_context(), stream, out);
}

absl::Status read(const lathe_elementwise_desc* desc, Purpose purpose, const lathe_device& device,
                  void* stream, Request* out) {
  return lathe::read_elementwise(desc, purpose, device.request_context(), stream, out);
}

template <typename Desc>
absl::Status plan(absl::string_view call, lathe_device* device, const Desc* desc, lathe_plan** out) {
  if (out == nullptr) return null_argument(call, "plan");
  *out = nullptr;
  if (device == nullptr) return null_argument(call, "device");
  Request request;
  LATHE_RETURN_IF_ERROR(read(desc, Purpose::kPlan, *device, nullptr, &request));
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<lathe_plan> made, lathe::make_plan(*device, request));
  *out = made.release();
  return absl::OkStatus();
}

template <typename Desc>
absl::Status explain(absl::string_view call, lathe_device* device, const Desc* desc, lathe_text_fn text,
                     void* user) {
  if (device == nullptr) return null_argument(call, "device");
  if (text == nullptr) return null_argument(call, "text");
  Request request;
  LATHE_RETURN_IF_ERROR(read(desc, Purpose::kPlan, *device, nullptr, &request));
  LATHE_ASSIGN_OR_RETURN(const auto made, lathe::make_plan_unprepared(*device, request));
  LATHE_ASSIGN_OR_RETURN(const lathe::Json json, lathe::explain_json(*made));
  lathe::pass_text(text, user, "explain", json);
  return absl::OkStatus();
}

template <typename Desc>
absl::Status run(absl::string_view call, lathe_plan* plan, void* stream, const Desc* desc) {
  if (plan == nullptr) return null_argument(call, "plan");
  Request request;
  LATHE_RETURN_IF_ERROR(read(desc, Purpose::kRun, plan->device, stream, &request));
  return lathe::run_plan(*plan, request, nullptr);
}

template <typename Desc>
absl::Status run_slice(absl::string_view call, lathe_plan* plan, const Desc* desc,
                       const lathe::Slice& slice) {
  if (plan == nullptr) return null_argument(call, "plan");
  LATHE_ASSIGN_OR_RETURN(const int32_t phases, lathe::plan_phases(*plan));
  if (slice.phase < 0 || slice.phase >= phases) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": phase ", slice.phase, " is not in [0, ", phases, ")"));
  }
  LATHE_RETURN_IF_ERROR(lathe::check_workers(call, slice.workers));
  if (slice.worker < 0 || slice.worker >= slice.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": worker ", slice.worker, " is not in [0, ", slice.workers, ")"));
  }
  Request request;
  LATHE_RETURN_IF_ERROR(read(desc, Purpose::kRun, plan->device, nullptr, &request));
  return lathe::run_plan(*plan, request, &slice);
}

}  // namespace

extern "C" {

lathe_status lathe_plan_matmul(lathe_device* device, const lathe_matmul_desc* desc, lathe_plan** out) {
  return at_boundary([&] { return plan("lathe_plan_matmul", device, desc, out); });
}

lathe_status lathe_plan_argmax(lathe_device* device, const lathe_argmax_desc* desc, lathe_plan** out) {
  return at_boundary([&] { return plan("lathe_plan_argmax", device, desc, out); });
}

lathe_status lathe_plan_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                      lathe_plan** out) {
  return at_boundary([&] { return plan("lathe_plan_matmul_argmax", device, desc, out); });
}

lathe_status lathe_plan_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                    lathe_plan** out) {
  return at_boundary([&] { return plan("lathe_plan_elementwise", device, desc, out); });
}

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

lathe_status lathe_plan_run_matmul(lathe_plan* plan, lathe_stream stream, const lathe_matmul_desc* desc) {
  return at_boundary([&] {
    if (plan == nullptr) return null_argument("lathe_plan_run_matmul", "plan");
    return lathe::run_plan(*plan, stream, desc);
  });
}

lathe_status lathe_plan_run_argmax(lathe_plan* plan, lathe_stream stream, const lathe_argmax_desc* desc) {
  return at_boundary([&] { return run("lathe_plan_run_argmax", plan, stream, desc); });
}

lathe_status lathe_plan_run_matmul_argmax(lathe_plan* plan, lathe_stream stream,
                                          const lathe_matmul_argmax_desc* desc) {
  return at_boundary([&] { return run("lathe_plan_run_matmul_argmax", plan, stream, desc); });
}

lathe_status lathe_plan_run_elementwise(lathe_plan* plan, lathe_stream stream,
                                        const lathe_elementwise_desc* desc) {
  return at_boundary([&] { return run("lathe_plan_run_elementwise", plan, stream, desc); });
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

lathe_status lathe_explain_matmul(lathe_device* device, const lathe_matmul_desc* desc, lathe_text_fn text,
                                  void* user) {
  return at_boundary([&] { return explain("lathe_explain_matmul", device, desc, text, user); });
}

lathe_status lathe_explain_argmax(lathe_device* device, const lathe_argmax_desc* desc, lathe_text_fn text,
                                  void* user) {
  return at_boundary([&] { return explain("lathe_explain_argmax", device, desc, text, user); });
}

lathe_status lathe_explain_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                         lathe_text_fn text, void* user) {
  return at_boundary([&] { return explain("lathe_explain_matmul_argmax", device, desc, text, user); });
}

lathe_status lathe_explain_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                       lathe_text_fn text, void* user) {
  return at_boundary([&] { return explain("lathe_explain_elementwise", device, desc, text, user); });
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

lathe_status lathe_plan_run_matmul_slice(lathe_plan* plan, const lathe_matmul_desc* desc, int32_t phase,
                                         int32_t worker, int32_t workers) {
  return at_boundary([&] {
    return run_slice("lathe_plan_run_matmul_slice", plan, desc, {phase, worker, workers});
  });
}

lathe_status lathe_plan_run_argmax_slice(lathe_plan* plan, const lathe_argmax_desc* desc, int32_t phase,
                                         int32_t worker, int32_t workers) {
  return at_boundary([&] {
    return run_slice("lathe_plan_run_argmax_slice", plan, desc, {phase, worker, workers});
  });
}

lathe_status lathe_plan_run_matmul_argmax_slice(lathe_plan* plan, const lathe_matmul_argmax_desc* desc,
                                                int32_t phase, int32_t worker, int32_t workers) {
  return at_boundary([&] {
    return run_slice("lathe_plan_run_matmul_argmax_slice", plan, desc, {phase, worker, workers});
  });
}

lathe_status lathe_plan_run_elementwise_slice(lathe_plan* plan, const lathe_elementwise_desc* desc,
                                              int32_t phase, int32_t worker, int32_t workers) {
  return at_boundary([&] {
    return run_slice("lathe_plan_run_elementwise_slice", plan, desc, {phase, worker, workers});
  });
}

}  // extern "C"
