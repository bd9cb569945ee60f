// The C functions of each op. All ops have the same ones, so they are generated from the list of ops. Grouped products
// share those that plan.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/manifest_call.h"
#include "api/tune_call.h"
#include "dispatch/grouped.h"
#include "dispatch/plan.h"
#include "dispatch/warm.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::Purpose;
using lathe::Request;

namespace {

template <typename Desc>
absl::Status run(absl::string_view op, lathe_device* device, void* stream, const Desc* desc) {
  if (device == nullptr) return null_argument(op, "device");
  return lathe::run_op(*device, stream, desc);
}

template <typename Desc>
absl::Status read_planned(const lathe_device& device, const Desc* desc, Request* out) {
  return lathe::read_request(desc, Purpose::kPlan, device.request_context(), nullptr, out);
}
absl::Status read_planned(const lathe_device& device, const lathe_grouped_matmul_desc* desc, Request* out) {
  return lathe::read_planned_group(device, desc, out);
}

template <typename Desc>
absl::Status plan(absl::string_view call, lathe_device* device, const Desc* desc, lathe_plan** out) {
  if (out == nullptr) return null_argument(call, "plan");
  *out = nullptr;
  if (device == nullptr) return null_argument(call, "device");
  Request request;
  LATHE_RETURN_IF_ERROR(read_planned(*device, desc, &request));
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
  LATHE_RETURN_IF_ERROR(read_planned(*device, desc, &request));
  LATHE_ASSIGN_OR_RETURN(const auto made, lathe::make_plan_unprepared(*device, request));
  LATHE_ASSIGN_OR_RETURN(const lathe::Json json, lathe::explain_json(*made));
  lathe::pass_text(text, user, "explain", json);
  return absl::OkStatus();
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
  LATHE_RETURN_IF_ERROR(
      lathe::read_request(desc, Purpose::kRun, plan->device.request_context(), nullptr, &request));
  return lathe::run_plan(*plan, request, &slice);
}

template <typename Desc>
absl::Status tune(const char* call, lathe_device* device, const Desc* desc, const lathe_tune_options* options,
                  lathe_tune_report* report) {
  lathe::TuneCall c;
  LATHE_RETURN_IF_ERROR(lathe::begin_tuning(call, device, desc, "desc", options, report, &c));
  Request request;
  LATHE_RETURN_IF_ERROR(read_planned(*device, desc, &request));
  if (request.needs_no_kernel() || request.dims.m == 0)
    return lathe::in_request(
        describe(request), device->name,
        absl::InvalidArgumentError("the request needs no kernel, so there is nothing to tune"));
  if (request.program != nullptr) device->context.programs.keep(request.program->program);
  return lathe::tune(*device, {{request.key, request.dims.m, ""}}, &request.dims, c.options, c.report);
}

template <typename Desc>
absl::Status add_to_manifest(absl::string_view call, lathe_manifest* manifest, const char* name,
                             const Desc* desc, int64_t m_max) {
  if (manifest == nullptr) return null_argument(call, "manifest");
  Request weight;
  LATHE_RETURN_IF_ERROR(lathe::read_request(desc, Purpose::kWarm, lathe::kAnyDevice, nullptr, &weight));
  return lathe::add_weight(call, weight, m_max, name, &manifest->manifest);
}

}  // namespace

extern "C" {

#define LATHE_C_PLANNING(name)                                                                              \
  lathe_status lathe_plan_##name(lathe_device* device, const lathe_##name##_desc* desc, lathe_plan** out) { \
    return at_boundary([&] { return plan("lathe_plan_" #name, device, desc, out); });                       \
  }                                                                                                         \
  lathe_status lathe_explain_##name(lathe_device* device, const lathe_##name##_desc* desc,                  \
                                    lathe_text_fn text, void* user) {                                       \
    return at_boundary([&] { return explain("lathe_explain_" #name, device, desc, text, user); });          \
  }                                                                                                         \
  lathe_status lathe_tune_##name(lathe_device* device, const lathe_##name##_desc* desc,                     \
                                 const lathe_tune_options* options, lathe_tune_report* report) {            \
    return at_boundary([&] { return tune("lathe_tune_" #name, device, desc, options, report); });           \
  }

#define LATHE_C_FUNCTIONS(op, value, name, rows, traits)                                                  \
  lathe_status lathe_##name(lathe_device* device, lathe_stream stream, const lathe_##name##_desc* desc) { \
    return at_boundary([&] { return run(#name, device, stream, desc); });                                 \
  }                                                                                                       \
  LATHE_C_PLANNING(name)                                                                                  \
  lathe_status lathe_plan_run_##name(lathe_plan* plan, lathe_stream stream,                               \
                                     const lathe_##name##_desc* desc) {                                   \
    return at_boundary([&] {                                                                              \
      if (plan == nullptr) return null_argument("lathe_plan_run_" #name, "plan");                         \
      return lathe::run_plan(*plan, stream, desc);                                                        \
    });                                                                                                   \
  }                                                                                                       \
  lathe_status lathe_plan_run_##name##_slice(lathe_plan* plan, const lathe_##name##_desc* desc,           \
                                             int32_t phase, int32_t worker, int32_t workers) {            \
    return at_boundary([&] {                                                                              \
      return run_slice("lathe_plan_run_" #name "_slice", plan, desc, {phase, worker, workers});           \
    });                                                                                                   \
  }                                                                                                       \
  LATHE_MANIFEST_ADD_##rows(name)

#define LATHE_MANIFEST_ADD_BUCKETS(name)                                                             \
  lathe_status lathe_manifest_add_##name(lathe_manifest* manifest, const char* label,                \
                                         const lathe_##name##_desc* desc, int64_t m_max) {           \
    return at_boundary(                                                                              \
        [&] { return add_to_manifest("lathe_manifest_add_" #name, manifest, label, desc, m_max); }); \
  }
#define LATHE_MANIFEST_ADD_OPEN(name)                                                             \
  lathe_status lathe_manifest_add_##name(lathe_manifest* manifest, const char* label,             \
                                         const lathe_##name##_desc* desc) {                       \
    return at_boundary([&] {                                                                      \
      return add_to_manifest("lathe_manifest_add_" #name, manifest, label, desc, lathe::kMaxDim); \
    });                                                                                           \
  }

LATHE_OPS(LATHE_C_FUNCTIONS)
LATHE_C_PLANNING(grouped_matmul)

}  // extern "C"
