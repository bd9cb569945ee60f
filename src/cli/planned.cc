#include "cli/planned.h"

#include "cli/params.h"
#include "cli/request.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

// `make_plan`: as lathe_plan_argmax.
template <typename Desc, typename PlanFn>
absl::Status with_plan(const Arguments& arguments, const Desc& desc, PlanFn make_plan, PlanUse use) {
  if (absl::Status s = refuse_entries(arguments); !s.ok()) return s;
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  lathe_plan* made = nullptr;
  if (absl::Status s = check(make_plan(device->get(), &desc, &made)); !s.ok()) return s;
  const Plan plan(made);
  return use(plan.get(), arguments);
}

}  // namespace

absl::Status with_matmul_plan(const Arguments& arguments, PlanUse use) {
  absl::StatusOr<MatmulRequest> request = matmul_request_with_shape(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  const auto make = [&](lathe_device* device, const lathe_matmul_desc* plain, lathe_plan** made) {
    return plan_matmul(device, *request, *plain, made);
  };
  return with_plan(arguments, descriptor(*request, &tuning), make, use);
}

absl::Status with_argmax_plan(const Arguments& arguments, PlanUse use) {
  absl::StatusOr<ArgmaxRequest> request = argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return with_plan(arguments, descriptor(*request, &tuning), lathe_plan_argmax, use);
}

absl::Status with_elementwise_plan(const Arguments& arguments, PlanUse use) {
  absl::StatusOr<ElementwiseRequest> request = elementwise_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return with_plan(arguments, descriptor(*request, &tuning), lathe_plan_elementwise, use);
}

absl::Status with_matmul_argmax_plan(const Arguments& arguments, PlanUse use) {
  absl::StatusOr<MatmulArgmaxRequest> request = matmul_argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return with_plan(arguments, descriptor(*request, &tuning), lathe_plan_matmul_argmax, use);
}

}  // namespace lathe::cli
