#include <cstdio>

#include "cli/plan_text.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

template <typename Desc, typename PlanFn>
absl::Status plan_and_explain(const Arguments& arguments, const Desc& desc, PlanFn make_plan) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  lathe_plan* made = nullptr;
  if (absl::Status s = check(make_plan(device->get(), &desc, &made)); !s.ok()) return s;
  const Plan plan(made);
  absl::StatusOr<Json> json = explain(plan.get());
  if (!json.ok()) return json.status();
  std::fputs(arguments.has("json") ? (json->dump(2) + "\n").c_str() : explain_text(*json).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status explain_matmul(const Arguments& arguments) {
  absl::StatusOr<MatmulRequest> request = matmul_request_with_shape(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  const auto plan = [&](lathe_device* device, const lathe_matmul_desc* plain, lathe_plan** made) {
    return plan_matmul(device, *request, *plain, made);
  };
  return plan_and_explain(arguments, descriptor(*request, &tuning), plan);
}

absl::Status explain_argmax(const Arguments& arguments) {
  absl::StatusOr<ArgmaxRequest> request = argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return plan_and_explain(arguments, descriptor(*request, &tuning), lathe_plan_argmax);
}

absl::Status explain_matmul_argmax(const Arguments& arguments) {
  absl::StatusOr<MatmulArgmaxRequest> request = matmul_argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return plan_and_explain(arguments, descriptor(*request, &tuning), lathe_plan_matmul_argmax);
}

std::vector<Flag> explain_flags() {
  return {facts_flag(), target_flag(), device_flag(), {"json", nullptr, "as JSON"}};
}

}  // namespace

Verb explain_matmul_verb() {
  return {"explain matmul",
          "MxNxK",
          1,
          "the plan chosen, its predicted time, and every other candidate with the reason",
          matmul_flags(explain_flags()),
          {"lathe explain matmul 1x28672x4096 --dtype bf16",
           "lathe explain matmul 64x4096x4096 --dtype f16 --facts h200 --target sm_90a"},
          explain_matmul};
}

Verb explain_argmax_verb() {
  return {"explain argmax",
          "ROWSxN",
          1,
          "the same for argmax",
          argmax_flags(explain_flags()),
          {"lathe explain argmax 4x151936 --facts mi300x"},
          explain_argmax};
}

Verb explain_matmul_argmax_verb() {
  return {"explain matmul_argmax",
          "MxNxK",
          1,
          "the same for matmul_argmax",
          matmul_argmax_flags(explain_flags()),
          {"lathe explain matmul_argmax 16x128256x4096 --dtype bf16 --facts h200"},
          explain_matmul_argmax};
}

}  // namespace lathe::cli
